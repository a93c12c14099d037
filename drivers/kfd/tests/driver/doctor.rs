//! Findings of `doctor` on healthy, broken and half-broken machines, and their remedies.

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release, kernel_support};
use crate::queue::open;
use doorbell_kfd::doctor::{self, Examination, ExamineInputs, Finding, LogHint, Severity, examine};
use doorbell_kfd::process::{DeviceIndex, EvictionCause, GpuEvent, GpuEventKind, Process};
use doorbell_kfd::queue::{Queue, QueueOptions};
use doorbell_kfd::sys::{Errno, Stat, request};
use doorbell_kfd::topology::{Isa, ROOT, Rule, Topology};

fn inputs() -> ExamineInputs<'static> {
    ExamineInputs { kernel_support, ..ExamineInputs::default() }
}

fn fake(release: Release, names: &[&str]) -> Fake {
    Fake::new(Machine::new(release, 64 * GIB, names))
}

fn examined(fake: &Fake) -> Examination {
    examine(fake, inputs()).expect("host memory")
}

/// The only finding, as one line with its remedy.
fn single(examination: &Examination) -> String {
    assert_eq!(examination.findings.len(), 1, "{:?}", examination.findings);
    let finding = &examination.findings[0];
    format!("{finding}: {}", finding.remedy())
}

fn node(mode: u32, gid: u32) -> Stat {
    Stat { mode: 0o020_000 | mode, uid: 0, gid }
}

#[test]
fn a_healthy_machine_has_nothing_to_say() {
    let all = ["RX 7900 XTX", "RX 7900 XT", "W7900", "8060S", "RX 7600", "780M", "RX 9070 XT"];
    for name in all {
        let fake = fake(Release::V7_2, &[name]);
        let examination = examined(&fake);
        assert_eq!(examination.findings, [], "{name}");
        assert_eq!((examination.worst(), examination.devices.len()), (None, 1));
        assert_eq!(examination.version.expect("opened").minor, 23);
        assert_eq!(examination.release.as_str(), "V7_2-fixture");
        assert_eq!(fake.held(), (0, 0, 0));
        assert!(!fake.calls().contains(&request::ACQUIRE_VM), "nothing is bound to the process");
    }
}

#[test]
fn a_machine_without_a_gpu_says_so_in_one_line() {
    for release in Release::ALL {
        let examination = examined(&fake(release, &[]));
        assert_eq!(examination.findings, [Finding::NoGpu], "{release:?}");
        assert_eq!(single(&examination), "no AMD GPU in this machine: ");
        assert_eq!(examination.worst(), Some(Severity::Fatal));
    }
    let bare = fake(Release::V6_12, &[]);
    bare.remove("/sys/class/kfd");
    bare.remove("/sys/module");
    bare.inject(|injection| injection.open = Some(Errno::ENOENT));
    assert_eq!(examined(&bare).findings, [Finding::NoGpu]);
}

#[test]
fn a_missing_node_is_reported_by_what_else_is_missing() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    fake.inject(|injection| injection.open = Some(Errno::ENOENT));
    assert!(single(&examined(&fake)).ends_with("is /dev complete?"));
    fake.set_file("/run/.containerenv", "");
    assert!(single(&examined(&fake)).ends_with("--device=/dev/kfd --device=/dev/dri"));
    fake.remove("/sys/class/kfd");
    assert_eq!(examined(&fake).findings, [Finding::KfdNotBuilt]);
    fake.remove("/sys/module/amdgpu");
    let text = single(&examined(&fake));
    assert!(text.starts_with("the amdgpu module is not loaded: `sudo modprobe amdgpu`"), "{text}");
    fake.set_file("/etc/modprobe.d/local.conf", "# nothing else\nblacklist amdgpu\n");
    let text = single(&examined(&fake));
    assert!(
        text.starts_with("the amdgpu module is kept from loading by /etc/modprobe.d/local.conf"),
        "{text}"
    );
    for word in ["modprobe.blacklist=nouveau,amdgpu", "nomodeset"] {
        fake.set_file("/proc/cmdline", &format!("BOOT_IMAGE=/vmlinuz quiet {word}\n"));
        let text = single(&examined(&fake));
        assert!(
            text.starts_with(&format!("the amdgpu module is kept from loading by {word}: take it out")),
            "{text}"
        );
    }
}

#[test]
fn permission_is_reported_with_group_and_command() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    fake.inject(|injection| injection.open = Some(Errno::EACCES));
    fake.set_stat("/dev/kfd", node(0o660, 992));
    let text = single(&examined(&fake));
    assert_eq!(
        text,
        "no permission: /dev/kfd is of group 992 (render), mode 660: `sudo usermod -aG render $USER` and log in again"
    );
    fake.set_file("/.dockerenv", "");
    assert!(single(&examined(&fake)).ends_with("docker: --group-add 992 (names differ between images)"));
    fake.remove("/.dockerenv");
    fake.set_stat("/dev/kfd", node(0o600, 0));
    assert!(single(&examined(&fake)).contains("no udev rule gave the node to a group"));
    fake.set_stat("/dev/kfd", node(0o660, 555));
    assert!(single(&examined(&fake)).ends_with("add yourself to group 555 and log in again"));
    // Allowed by the bits and refused all the same.
    fake.set_stat("/dev/kfd", node(0o666, 992));
    assert_eq!(examined(&fake).findings, [Finding::Denied { is_32_bit: false }]);
    fake.set_file("/sys/fs/selinux/enforce", "1");
    assert!(single(&examined(&fake)).contains("setsebool -P container_use_devices 1"));
}

#[test]
fn refusals_of_the_kernel_are_distinguished() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    for (errno, finding) in [
        (Errno::EPERM, Finding::Denied { is_32_bit: false }),
        (Errno::EINVAL, Finding::Resetting(Errno::EINVAL)),
        (Errno::EAGAIN, Finding::Resetting(Errno::EAGAIN)),
        (Errno::EMFILE, Finding::OpenFailed(Errno::EMFILE)),
    ] {
        fake.inject(|injection| injection.open = Some(errno));
        assert_eq!(examined(&fake).findings, [finding]);
    }
    // A card on the bus without a node: firmware missing where no driver runs it, otherwise KFD does not know it.
    fake.inject(|injection| injection.open = None);
    fake.remove(&format!("{ROOT}/nodes/1"));
    let text = single(&examined(&fake));
    assert!(text.starts_with("the GPU at 0000:03:00.0 runs, but KFD does not offer it"), "{text}");
    fake.remove("/sys/bus/pci/devices/0000:03:00.0/drm");
    assert!(single(&examined(&fake)).contains("dmesg names the missing firmware"));
    fake.inject(|injection| injection.open = Some(Errno::EINVAL));
    let examination = examined(&fake);
    assert_eq!(examination.findings.len(), 2);
    assert_eq!(examination.findings[1], Finding::NoUsableGpu(Errno::EINVAL));
}

#[test]
fn hidden_devices_and_render_nodes_are_reported() {
    let fake = fake(Release::V6_12, &["RX 7600", "W7900"]);
    fake.deny(&format!("{ROOT}/nodes/2"));
    let examination = examined(&fake);
    assert_eq!((examination.devices.len(), examination.worst()), (1, Some(Severity::Warning)));
    assert!(
        single(&examination).starts_with("node 2 is hidden by the device cgroup: allow its render node too")
    );
}

#[test]
fn kernels_are_judged_by_the_interface_and_the_chip() {
    let old = fake(Release::V6_1, &["RX 7600"]);
    let examination = examined(&old);
    assert_eq!(single(&examination), "KFD interface 1.11: waiting for the GPU must poll: use a newer kernel");
    assert_eq!(examination.worst(), Some(Severity::Warning));
    let strix = fake(Release::V6_12, &["8060S"]);
    strix.inject(|injection| injection.minor = Some(15));
    let text = single(&examined(&strix));
    assert!(text.starts_with("KFD interface 1.15; 1.17 or later is recommended for gfx1151"), "{text}");
    strix.inject(|injection| injection.minor = Some(5));
    assert!(matches!(examined(&strix).findings[..], [Finding::TooOld { minor: 9, .. }]));
    let raphael = fake(Release::V6_12, &["Raphael"]);
    assert_eq!(examined(&raphael).findings, [Finding::NoKernels(Isa(100_306))]);
}

#[test]
fn settings_and_firmware_that_cause_trouble_are_reported() {
    let fake = fake(Release::V6_12, &["8060S"]);
    fake.set_file("/sys/module/amdgpu/parameters/cwsr_enable", "0\n");
    assert_eq!(examined(&fake).findings, [Finding::Parameter("cwsr_enable", 0)]);
    fake.set_file("/sys/module/amdgpu/parameters/cwsr_enable", "1\n");
    let firmware = |version: &str| {
        format!(
            "VCE feature version: 0, firmware version: 0x00000000\nMES feature version: 1, firmware version: {version}\n"
        )
    };
    fake.set_file("/sys/kernel/debug/dri/128/amdgpu_firmware_info", &firmware("0x00000080"));
    assert_eq!(examined(&fake).findings, []);
    fake.set_file("/sys/kernel/debug/dri/128/amdgpu_firmware_info", &firmware("0x00000083"));
    let text = single(&examined(&fake));
    assert!(text.starts_with("node 1: MES firmware 0x83 is known to hang under load"), "{text}");
    // The render node tells everyone, where the kernel is new enough; debugfs tells only root.
    fake.inject(|injection| injection.scheduler = Some(0x1080));
    assert_eq!(examined(&fake).findings, []);
    fake.remove("/sys/kernel/debug");
    fake.inject(|injection| injection.scheduler = Some(0x1083));
    assert_eq!(examined(&fake).findings.len(), 1);
}

#[test]
fn a_model_that_does_not_fit_gets_the_limit_that_decides() {
    let fake = fake(Release::V6_12, &["8060S"]);
    let seen = ExamineInputs { model_bytes: Some(50 * GIB), ..inputs() };
    let examination = examine(&fake, seen).expect("host memory");
    let [Finding::TooSmall { wanted, budget }] = &examination.findings[..] else { panic!("one finding") };
    assert_eq!(*wanted, 50 * GIB);
    assert!(matches!(budget.first.decisive().rule, Rule::TtmLimit | Rule::GttSize));
    assert!(single(&examination).contains("raise `ttm.pages_limit`"), "{}", single(&examination));
    let small = ExamineInputs { model_bytes: Some(GIB), ..inputs() };
    assert_eq!(examine(&fake, small).expect("host memory").findings, []);
}

#[test]
fn a_small_bar_is_only_a_note() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &["RX 7600"]);
    machine.gpus[0].small_bar = true;
    let examination = examined(&Fake::new(machine));
    assert_eq!(examination.worst(), Some(Severity::Note));
    assert!(
        single(&examination).ends_with("enable Resizable BAR (Above 4G Decoding) in the firmware set-up")
    );
}

#[test]
fn the_kernel_log_is_searched_for_known_lines() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let log = b"amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8)\nother\n";
    let examination = examine(&fake, ExamineInputs { log, ..inputs() }).expect("host memory");
    assert_eq!(examination.findings, [Finding::Log(LogHint::PageFault)]);
    assert!(!examination.findings[0].remedy().to_string().is_empty());
}

#[test]
fn bring_up_and_queue_errors_become_findings() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let topology = Topology::scan(&fake).expect("topology");
    let first = open(&fake);
    let error = Process::open_all(&fake, &topology).expect_err("busy");
    assert_eq!(doctor::bring_up(&error), Finding::OtherRuntime);
    drop(first);
    fake.inject(|injection| injection.refuse = Some((request::CREATE_QUEUE, Errno::EINVAL)));
    let fake = self::fake(Release::V6_12, &["RX 7600"]);
    let mut process = open(&fake);
    fake.inject(|injection| injection.refuse = Some((request::CREATE_QUEUE, Errno::EINVAL)));
    let error = Queue::create(&mut process, DeviceIndex(0), QueueOptions::default()).expect_err("refused");
    let finding = doctor::create_queue(&error);
    assert_eq!(
        finding,
        Finding::QueueRefused { errno: Errno::EINVAL, asked: (0xAA4000, 0x4000), stated: (0xAA4000, 0x4000) }
    );
    assert!(finding.remedy().to_string().contains("dynamic_debug"));
}

#[test]
fn what_the_kernel_tells_beside_faults_is_heard() {
    let fake = fake(Release::V6_12, &["8060S"]);
    let process = open(&fake);
    let mut notices = process.gpu_events(DeviceIndex(0)).expect("listening");
    let mask =
        fake.tell("9 123456789 -4242 a1b2 5\n1 1092:doorbell\n77 of a newer kernel\n2 ff:1\na 99 -4242");
    assert_eq!(mask, 0b11_0000_1111);
    let mut heard = Vec::new();
    notices.read(&mut |notice| heard.push((notice.kind, notice.text.to_owned()))).expect("read");
    fake.tell(" a1b2 0\n");
    notices.read(&mut |notice| heard.push((notice.kind, notice.text.to_owned()))).expect("read");
    let expected = [
        (GpuEventKind::QueueEviction, "123456789 -4242 a1b2 5"),
        (GpuEventKind::PageFault, "1092:doorbell"),
        (GpuEventKind::ThermalThrottle, "ff:1"),
        (GpuEventKind::QueueRestore, "99 -4242 a1b2 0"),
    ];
    assert_eq!(heard, expected.map(|(kind, text)| (kind, text.to_owned())));
    assert_eq!(GpuEvent::parse(b"\xff\xfe"), None);
    for (line, cause) in [
        ("9 123456789 -4242 a1b2 3", Some(EvictionCause::Suspend)),
        ("9 123456789 -4242 a1b2 2", Some(EvictionCause::Memory)),
        ("9 123456789 -4242 a1b2 77", None),
        ("9 123456789", None),
        ("a 123456789 -4242 a1b2 3", None),
    ] {
        assert_eq!(GpuEvent::parse(line.as_bytes()).expect("a line").cause(), cause, "{line}");
    }
    drop(notices);
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn error_numbers_have_sentences_by_call() {
    let text = doctor::sentence(request::CREATE_QUEUE, Errno::ENOMEM);
    assert_eq!(text, Some("no SDMA queue or no doorbell is free"));
    assert_ne!(text, doctor::sentence(request::ALLOC_MEMORY_OF_GPU, Errno::ENOMEM));
    assert!(doctor::sentence(request::GET_VERSION, Errno::ENOTTY).is_some());
    assert_eq!(doctor::sentence(request::GET_VERSION, Errno::EIO), None);
    assert_eq!(Errno::EINVAL.to_string(), "EINVAL (22, invalid argument)");
}
