//! Output of `doorbell devices` and `doorbell doctor` for healthy and broken machines.
//!
//! Goldens are in `tests/goldens/doctor/`: a file each machine with both outputs and the verdict. `BLESS=1` writes
//! them; look at the difference before you commit it.

use crate::broken::{Broken, Instead};
use doorbell_kfd::sys::Errno;
use doorbell_kfd::topology::ROOT;
use doorbell_runtime::machine::{Host, Machine as Looked, ModelFootprint, Verdict};
use doorbell_runtime::memory::HostMemory;
use doorbell_soft::kernel::{CHIPS, Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::Options;
use std::path::Path;

const GIB: u64 = 1 << 30;

fn host() -> Host {
    let memory = HostMemory { total: 64 * GIB, available: 56 * GIB };
    Host { threads: 16, extensions: "AVX-512 VNNI", memory: Some(memory) }
}

fn soft(release: Release, chips: &[&str]) -> SoftKernel {
    let chips: Vec<_> = chips.iter().map(|name| chip(name).unwrap()).collect();
    SoftKernel::new(Machine::new(release, 64 * GIB, &chips), &Options::default()).unwrap()
}

/// A case: what is broken, the memory of a model, what the kernel's log says.
struct Case<'c> {
    name: &'c str,
    kernel: Broken<'c>,
    log: &'c str,
    footprint: Option<ModelFootprint>,
}

impl<'c> Case<'c> {
    fn new(name: &'c str, soft: &'c SoftKernel) -> Self {
        Self { name, kernel: Broken::new(soft), log: "", footprint: None }
    }

    fn wants(mut self, gib: u64) -> Self {
        self.footprint = Some(ModelFootprint { name: "model.gguf".into(), bytes: gib * GIB });
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Broken<'c>)) -> Self {
        change(&mut self.kernel);
        self
    }

    fn look(&self) -> Looked {
        Looked::read_from(&self.kernel, host(), self.log.as_bytes(), self.footprint.clone()).unwrap()
    }

    /// Compares with the golden and answers what `doctor` said.
    #[track_caller]
    fn check(self, verdict: Verdict) -> String {
        let machine = self.look();
        let diagnosis = machine.diagnosis();
        let (devices, doctor) = (machine.devices().to_string(), diagnosis.to_string());
        assert_eq!(diagnosis.verdict(), verdict, "{}: {doctor}", self.name);
        let document = diagnosis.json();
        let findings = document["findings"].as_array().unwrap();
        assert!(findings.iter().all(|finding| doctor.contains(finding["message"].as_str().unwrap())));
        let listed = machine.devices().json();
        assert_eq!(listed["devices"].as_array().unwrap().len(), machine.devices().list().len());
        let found = format!("$ doorbell devices\n{devices}\n$ doorbell doctor\n{doctor}\n{document}\n");
        let path = format!("{}/goldens/doctor/{}.txt", env!("CARGO_MANIFEST_DIR"), self.name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&path).unwrap_or_default(), "{path}");
        doctor
    }
}

/// Every machine of the fixtures under every kernel that knows its chip.
#[test]
fn healthy_machines_have_goldens() {
    for release in Release::ALL {
        for chip in CHIPS.iter().filter(|chip| chip.version < 110_500 || release > Release::V6_1) {
            let soft = soft(release, &[chip.name]);
            let name = format!("{}-{release:?}", chip.name.to_lowercase().replace(' ', "-"));
            let case = Case::new(&name, &soft);
            let degraded = release == Release::V6_1;
            case.check(if degraded { Verdict::Warned } else { Verdict::Usable });
            assert_eq!(soft.held(), (0, 0, 0), "looking takes nothing");
        }
    }
}

#[test]
fn without_a_gpu_doctor_names_the_cpu() {
    for release in Release::ALL {
        let soft = soft(release, &[]);
        let name = format!("none-{release:?}");
        let found = Case::new(&name, &soft).check(Verdict::Unusable);
        assert!(
            found.starts_with("no AMD GPU in this machine: ") && found.contains("the CPU runs models"),
            "{found}"
        );
    }
}

/// Reports 8, 9, 10 and 19 of AMD users: the card before the integrated GPU, and system memory on an APU.
#[test]
fn the_right_gpu_and_the_right_memory_are_taken() {
    let both = soft(Release::V6_12, &["780M", "RX 7900 XT"]);
    let case = Case::new("apu-and-card", &both);
    let devices = case.look().devices();
    let preferred: Vec<_> = devices.list().iter().filter(|device| device.is_preferred).collect();
    assert_eq!(preferred.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(), ["kfd:1"]);
    case.check(Verdict::Usable);
    let strix = soft(Release::V6_12, &["8060S"]);
    let text = Case::new("apu-model-fits", &strix).wants(30).check(Verdict::Usable);
    assert!(text.contains("model.gguf needs 30.0 GiB: fits into 32.0 GiB"), "{text}");
    let text = Case::new("apu-model-too-large", &strix).wants(50).check(Verdict::Warned);
    assert!(text.contains("raise `ttm.pages_limit`"), "{text}");
    let card = soft(Release::V7_2, &["RX 7600"]);
    let text = Case::new("card-model-too-large", &card).wants(20).check(Verdict::Warned);
    assert!(text.contains("does not fit") && text.contains("take a smaller model"), "{text}");
    let two = soft(Release::V7_2, &["RX 7600", "W7900"]);
    Case::new("two-cards-one-fits", &two).wants(20).check(Verdict::Warned);
}

#[test]
fn a_small_bar_is_noted() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &[chip("RX 7600").unwrap()]);
    machine.gpus[0].small_bar = true;
    let soft = SoftKernel::new(machine, &Options::default()).unwrap();
    assert!(Case::new("small-bar", &soft).check(Verdict::Usable).contains("enable Resizable BAR"));
}

/// Every row of the probe table, one after the other.
#[test]
fn what_keeps_kfd_from_opening_is_reported_with_its_remedy() {
    let soft = soft(Release::V6_12, &["RX 7600"]);
    let new = |name| Case::new(name, &soft);
    let missing = |path: &'static str| move |kernel: &mut Broken<'_>| kernel.set(path, Instead::Missing);
    let closed = |mode, gid, errno| {
        move |kernel: &mut Broken<'_>| kernel.set("/dev/kfd", Instead::Node(mode, gid, errno))
    };
    let says = |case: Case<'_>, remedy: &str| {
        let text = case.check(Verdict::Unusable);
        assert!(text.contains(remedy), "{text}");
    };
    let no_module = |name| {
        new(name)
            .with(missing("/dev/kfd"))
            .with(missing("/sys/class/kfd"))
            .with(missing("/sys/module/amdgpu"))
    };
    says(no_module("module-not-loaded"), "sudo modprobe amdgpu");
    says(
        no_module("module-forbidden").with(|kernel| kernel.text("/proc/cmdline", "quiet nomodeset\n")),
        "nomodeset",
    );
    says(
        no_module("module-blacklisted")
            .with(|kernel| kernel.text("/etc/modprobe.d/gpu.conf", "blacklist amdgpu\n")),
        "/etc/modprobe.d/gpu.conf",
    );
    says(
        new("kernel-without-kfd").with(missing("/dev/kfd")).with(missing("/sys/class/kfd")),
        "use a kernel with CONFIG_HSA_AMD",
    );
    says(
        new("container-without-device")
            .with(missing("/dev/kfd"))
            .with(|kernel| kernel.text("/.dockerenv", "")),
        "--device=/dev/kfd --device=/dev/dri",
    );
    says(new("node-missing").with(missing("/dev/kfd")), "is /dev complete?");
    says(new("not-in-group").with(closed(0o660, 992, Errno::EACCES)), "sudo usermod -aG render $USER");
    says(new("group-without-name").with(closed(0o660, 555, Errno::EACCES)), "add yourself to group 555");
    says(new("no-udev-rule").with(closed(0o600, 0, Errno::EACCES)), "udev rules");
    says(
        new("group-in-container")
            .with(closed(0o660, 992, Errno::EACCES))
            .with(|kernel| kernel.text("/run/.containerenv", "")),
        "--group-add keep-groups",
    );
    says(
        new("selinux")
            .with(closed(0o666, 992, Errno::EACCES))
            .with(|kernel| kernel.text("/sys/fs/selinux/enforce", "1")),
        "setsebool -P container_use_devices 1",
    );
    says(new("security-module").with(closed(0o666, 992, Errno::EACCES)), "DeviceAllow=/dev/kfd rw");
    says(new("device-cgroup").with(closed(0o666, 992, Errno::EPERM)), "DeviceAllow=/dev/kfd rw");
    says(new("resetting").with(closed(0o666, 992, Errno::EINVAL)), "wait some seconds");
    says(new("resetting-6.1").with(closed(0o666, 992, Errno::EAGAIN)), "wait some seconds");
    says(new("too-old").with(|kernel| kernel.minor = Some(8)), "use a newer kernel");
}

/// Reports 15 and 20: the node opens, or refuses with EINVAL, and there is no GPU behind it.
#[test]
fn a_gpu_that_kfd_does_not_offer_is_reported_by_what_the_bus_shows() {
    let soft = soft(Release::V6_12, &["RX 7900 XTX"]);
    let node = format!("{ROOT}/nodes/1");
    let new = |name| Case::new(name, &soft).with(|kernel| kernel.set(&node, Instead::Missing));
    let text = new("chip-unknown-to-kfd").check(Verdict::Unusable);
    assert!(text.contains("PCIe atomics"), "{text}");
    let drm = "/sys/bus/pci/devices/0000:03:00.0/drm";
    let mut firmware = new("firmware-missing").with(|kernel| kernel.set(drm, Instead::Missing));
    firmware.log = "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/gc_11_0_0_pfp.bin failed with error -2\n\
                    amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n";
    let text = firmware.check(Verdict::Unusable);
    assert!(text.contains("install linux-firmware"), "{text}");
    let text = new("refused-with-einval")
        .with(|kernel| kernel.set("/dev/kfd", Instead::Node(0o666, 992, Errno::EINVAL)))
        .check(Verdict::Unusable);
    assert!(text.contains("EINVAL"), "{text}");
}

/// Report 14 and the device cgroup: `/dev/kfd` opens and the rest is closed.
#[test]
fn render_nodes_that_are_closed_are_reported() {
    let one = soft(Release::V6_12, &["RX 7600"]);
    let text = Case::new("render-node-of-another-group", &one)
        .with(|kernel| kernel.set("/dev/dri/renderD128", Instead::Node(0o660, 44, Errno::EACCES)))
        .check(Verdict::Unusable);
    assert!(text.contains("sudo usermod -aG video $USER"), "{text}");
    let text = Case::new("render-node-missing", &one)
        .with(|kernel| kernel.set("/dev/dri/renderD128", Instead::Missing))
        .check(Verdict::Unusable);
    assert!(text.contains("--device=/dev/dri"), "{text}");
    let two = soft(Release::V6_12, &["RX 7600", "W7900"]);
    let text = Case::new("one-card-hidden", &two)
        .with(|kernel| kernel.set(&format!("{ROOT}/nodes/2"), Instead::Refused(Errno::EPERM)))
        .check(Verdict::Warned);
    assert!(text.contains("node 2 is hidden by the device cgroup"), "{text}");
    let text = Case::new("one-render-node-closed", &two)
        .with(|kernel| kernel.set("/dev/dri/renderD129", Instead::Node(0o660, 44, Errno::EACCES)))
        .check(Verdict::Warned);
    assert!(text.contains("the GPU can be used, with the warnings above"), "{text}");
}

/// Reports 3, 4, 21 and 22: firmware, parameters, and what the kernel's log tells of them.
#[test]
fn firmware_settings_and_the_log_are_looked_at() {
    let strix = soft(Release::V6_12, &["8060S"]);
    let text = Case::new("bad-scheduler-firmware", &strix)
        .with(|kernel| kernel.scheduler = Some(0x83))
        .check(Verdict::Warned);
    assert!(text.contains("MES firmware 0x83 is known to hang under load"), "{text}");
    let good = Case::new("good-scheduler-firmware", &strix).with(|kernel| kernel.scheduler = Some(0x80));
    good.check(Verdict::Usable);
    for (name, value) in [("sched_policy", "2"), ("cwsr_enable", "0")] {
        let path = format!("/sys/module/amdgpu/parameters/{name}");
        let case = format!("parameter-{name}");
        let text = Case::new(&case, &strix).with(|kernel| kernel.text(&path, value)).check(Verdict::Warned);
        assert!(text.contains(&format!("amdgpu.{name}={value} is not the default")), "{text}");
    }
    let text = Case::new("kernel-old-for-chip", &strix)
        .with(|kernel| kernel.minor = Some(15))
        .check(Verdict::Warned);
    assert!(text.contains("1.17 or later is recommended for gfx1151"), "{text}");
    for (name, log) in [
        ("log-kfd-disabled", "kfd kfd: KFD is disabled due to module initialization failure\n"),
        ("log-not-supported", "kfd kfd: amdgpu: GC IP 110504 not supported in kfd\n"),
        ("log-no-atomics", "kfd kfd: amdgpu: skipped device 1002:7480, PCI rejects atomics 1<2\n"),
        ("log-selinux", "audit: type=1400 avc:  denied  { read write } for comm=\"doorbell\" name=\"kfd\"\n"),
        ("log-scheduler-hangs", "amdgpu 0000:c5:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE\n"),
        ("log-page-fault", "amdgpu 0000:c5:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8)\n"),
    ] {
        let mut case = Case::new(name, &strix);
        case.log = log;
        case.check(Verdict::Warned);
    }
}
