//! Topology, identity, budgets and the default choice on fixture machines.

use crate::fake::Fake;
use crate::machines::{CHIPS, GIB, MIB, Machine, Release, kernel_support, named};
use doorbell_kfd::sys::{Errno, Kernel};
use doorbell_kfd::topology::{
    Candidate, Choice, DeviceInfo, GpuKind, Isa, MemoryDomain, MemoryFacts, Node, ROOT, Rule, Skipped,
    Topology, TopologyError, choose,
};

fn scan(fake: &Fake) -> Topology {
    Topology::scan(fake).expect("topology")
}

/// The steps of `devices`: query each render node, then choose.
fn candidates(fake: &Fake) -> Vec<Candidate> {
    let minor = fake.machine.release.minor();
    scan(fake).gpus().map(|node| candidate(fake, node, minor)).collect()
}

fn candidate(fake: &Fake, node: &Node, minor: u32) -> Candidate {
    let render =
        fake.open(&format!("/dev/dri/renderD{}", node.render_minor().expect("minor"))).expect("open");
    let info = DeviceInfo::query(fake, &render).expect("info");
    let kind = if info.is_apu { GpuKind::Apu } else { GpuKind::Discrete };
    let bytes = MemoryFacts::read(fake, node, Some(&render)).budget(kind, minor).first.bytes();
    fake.close(render);
    let kernels = kernel_support(node.isa());
    Candidate { gpu_id: node.gpu_id, isa: node.isa(), kernels, kind, bytes, identity: node.identity() }
}

fn chosen(machine: Machine) -> (Choice, Vec<Candidate>) {
    let all = candidates(&Fake::new(machine));
    (choose(&all).expect("a device"), all)
}

#[test]
fn every_chip_is_read_on_every_kernel() {
    for release in Release::ALL {
        for chip in &CHIPS {
            let fake = Fake::new(Machine::new(release, 64 * GIB, &[chip.name]));
            let topology = scan(&fake);
            assert_eq!(topology.nodes.len(), 2);
            assert!(!topology.nodes[0].is_gpu());
            let gpu = topology.gpus().next().expect("a GPU");
            assert_eq!(gpu.isa(), Isa(chip.version));
            assert_eq!(gpu.compute_units(), chip.compute_units, "{}", chip.name);
            assert_eq!(gpu.shader_engines(), chip.engines);
            assert_eq!(gpu.xcc_count(), 1);
            assert_eq!(gpu.doorbell_type(), 2);
            assert_eq!(gpu.lds_bytes(), 65536);
            assert_eq!(gpu.render_minor(), Some(128));
            assert_eq!(gpu.bank_bytes(), fake.machine.bank(chip));
            assert_eq!(gpu.cache_bytes(2), 6 * MIB);
            assert_eq!(gpu.links.len(), 1);
            assert!(gpu.is_vram_mappable());
            assert_eq!(gpu.name.as_str(), "ip discovery");
        }
    }
}

#[test]
fn identity_is_the_pci_address_and_serial() {
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX", "780M"]));
    let names: Vec<String> = scan(&fake).gpus().map(|node| node.identity().to_string()).collect();
    assert_eq!(names, ["0000:03:00.0#00000000c0ffee00", "0000:04:00.0"]);
}

#[test]
fn nodes_are_sorted_by_number() {
    let names = ["RX 7600"; 11];
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &names));
    let indices: Vec<u32> = scan(&fake).nodes.iter().map(|node| node.index.0).collect();
    assert_eq!(indices, (0..12).collect::<Vec<_>>());
}

#[test]
fn no_gpu_and_no_topology_are_different_answers() {
    let fake = Fake::new(Machine::new(Release::V6_12, 16 * GIB, &[]));
    assert_eq!(scan(&fake).gpus().count(), 0);
    assert_eq!(choose(&candidates(&fake)), None);
    fake.remove("/sys/class/kfd");
    assert_eq!(Topology::scan(&fake).expect_err("gone"), TopologyError::Absent(Errno::ENOENT));
}

#[test]
fn nodes_that_the_cgroup_hides_are_distinguished() {
    let fake = Fake::new(Machine::new(Release::V7_2, 64 * GIB, &["RX 7600", "W7900"]));
    fake.deny(&format!("{ROOT}/nodes/2/"));
    let topology = scan(&fake);
    assert_eq!(topology.gpus().count(), 1);
    assert_eq!(topology.denied.len(), 1);
    assert_eq!(topology.denied[0].0, 2);
}

#[test]
fn the_card_is_chosen_before_the_integrated_gpu_and_by_memory() {
    let (choice, all) = chosen(Machine::new(Release::V6_12, 128 * GIB, &["780M", "RX 7600"]));
    assert_eq!(choice.device.isa, Isa::GFX1102);
    assert_eq!(choice.skipped(&all[0]), Some(Skipped::NotDiscrete));
    assert!(all[0].bytes > choice.device.bytes, "the APU has more memory and still loses");
    let (choice, all) =
        chosen(Machine::new(Release::V6_12, 64 * GIB, &["RX 9070 XT", "W7900", "RX 7900 XTX"]));
    assert_eq!(choice.device.gpu_id, all[1].gpu_id);
    assert_eq!(choice.skipped(&all[2]), Some(Skipped::LessMemory));
    assert_eq!(choice.skipped(&all[1]), None);
    let (choice, all) = chosen(Machine::new(Release::V6_12, 64 * GIB, &["Raphael", "RX 7600"]));
    assert_eq!(choice.device.isa, Isa::GFX1102);
    assert_eq!(choice.skipped(&all[0]), Some(Skipped::NoKernels(Isa(100_306))));
    let text = choice.to_string();
    assert!(text.starts_with("gfx1102 at 0000:04:00.0#"), "{text}");
    assert!(text.ends_with("most memory of 1 usable of 2 GPUs"), "{text}");
    let (choice, _) = chosen(Machine::new(Release::V6_12, 64 * GIB, &["RX 7600", "RX 7600"]));
    assert_eq!(choice.device.gpu_id, 0x1234, "equal devices: the lower PCI address");
    assert_eq!(choose(&candidates(&Fake::new(Machine::new(Release::V6_12, GIB, &["Raphael"])))), None);
}

#[test]
fn a_small_carve_out_does_not_hide_the_system_memory() {
    let mut machine = Machine::new(Release::V6_12, 128 * GIB, &["8060S"]);
    (machine.gtt, machine.ttm_pages) = (108 * GIB, 108 * GIB / 4096);
    machine.available = 120 * GIB;
    let facts = |machine: &Machine, minor| {
        let fake = Fake::new(machine.clone());
        let topology = scan(&fake);
        MemoryFacts::read(&fake, topology.gpus().next().expect("GPU"), None).budget(GpuKind::Apu, minor)
    };
    let budget = facts(&machine, 17);
    assert_eq!(budget.first.domain, MemoryDomain::VramFromGtt);
    assert_eq!(budget.first.decisive().bytes, 108 * GIB);
    assert_eq!(budget.second, None);
    assert!(
        budget.to_string().starts_with("110592 MiB of system memory (GTT, by VRAM requests)"),
        "{budget}"
    );
    machine.release = Release::V7_2;
    assert_eq!(facts(&machine, 23).first.domain, MemoryDomain::VramFromGtt);
}

#[test]
fn a_large_carve_out_is_not_capped_by_what_the_cpu_has_left() {
    let mut machine = Machine::new(Release::V7_2, 32 * GIB, &["8060S"]);
    machine.gpus[0].chip.vram = 96 * GIB;
    (machine.gtt, machine.ttm_pages, machine.available) = (16 * GIB, 16 * GIB / 4096, 20 * GIB);
    let fake = Fake::new(machine);
    let topology = scan(&fake);
    let facts = MemoryFacts::read(&fake, topology.gpus().next().expect("GPU"), None);
    let budget = facts.budget(GpuKind::Apu, 23);
    assert_eq!(budget.first.domain, MemoryDomain::CarveOut);
    assert_eq!(budget.first.decisive().rule, Rule::VramSize);
    assert!(budget.first.bytes() > 95 * GIB);
    let second = budget.second.expect("system memory as well");
    assert_eq!((second.domain, second.bytes()), (MemoryDomain::Gtt, 16 * GIB));
}

#[test]
fn an_old_kernel_gives_an_apu_its_share_of_system_memory_by_gtt() {
    let machine = Machine::new(Release::V6_1, 64 * GIB, &["780M"]);
    let fake = Fake::new(machine);
    let topology = scan(&fake);
    let facts = MemoryFacts::read(&fake, topology.gpus().next().expect("GPU"), None);
    let budget = facts.budget(GpuKind::Apu, 11);
    assert_eq!(budget.first.domain, MemoryDomain::Gtt);
    assert_eq!(budget.first.decisive().rule, Rule::TtmLimit);
    assert_eq!(budget.first.bytes(), 24 * GIB, "3/8 of memory");
    assert_eq!(budget.second.map(|pool| pool.domain), Some(MemoryDomain::CarveOut));
}

#[test]
fn page_cache_counts_as_available_and_used_memory_does_not() {
    let mut machine = Machine::new(Release::V6_12, 128 * GIB, &["8060S"]);
    (machine.gtt, machine.ttm_pages) = (110 * GIB, 110 * GIB / 4096);
    (machine.free, machine.available) = (2 * GIB, 118 * GIB);
    let budget = |machine: &Machine| {
        let fake = Fake::new(machine.clone());
        let topology = scan(&fake);
        MemoryFacts::read(&fake, topology.gpus().next().expect("GPU"), None).budget(GpuKind::Apu, 17)
    };
    assert_eq!(budget(&machine).first.bytes(), 110 * GIB);
    machine.available = 40 * GIB;
    let limit = budget(&machine).first.decisive();
    assert_eq!((limit.rule, limit.bytes), (Rule::MemAvailable, 40 * GIB - 256 * MIB));
    machine.available = 128 * GIB;
    (machine.gtt, machine.ttm_pages) = (128 * GIB, 128 * GIB / 4096);
    let limit = budget(&machine).first.decisive();
    assert_eq!((limit.rule, limit.bytes), (Rule::SystemLimit, 128 * GIB - 2 * GIB - 3 * GIB / 2));
}

#[test]
fn a_card_is_measured_by_its_own_memory() {
    let fake = Fake::new(Machine::new(Release::V6_12, 16 * GIB, &["RX 7900 XTX"]));
    let topology = scan(&fake);
    let mut facts = MemoryFacts::read(&fake, topology.gpus().next().expect("GPU"), None);
    let limit = facts.budget(GpuKind::Discrete, 17).first.decisive();
    assert_eq!(limit.rule, Rule::VramSize);
    assert_eq!(limit.bytes, named("RX 7900 XTX").vram - 8 * MIB);
    facts.kfd_available = Some(20 * GIB);
    let limit = facts.budget(GpuKind::Discrete, 17).first.decisive();
    assert_eq!((limit.rule, limit.bytes), (Rule::KfdAvailable, 20 * GIB - 256 * MIB));
}
