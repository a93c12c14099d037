//! Bring-up, allocation and teardown against the fake kernel, with everything that may go wrong on the way.

use crate::fake::Fake;
use crate::machines::{CHIPS, GIB, Machine, Release};
use doorbell_kfd::memory::{AllocError, FRAGMENT, Name, Nearest, Usage};
use doorbell_kfd::process::{BringUpError, DeviceIndex, Process, Stage};
use doorbell_kfd::sys::{Errno, request};
use doorbell_kfd::topology::{ROOT, Topology};

const FIRST: DeviceIndex = DeviceIndex(0);

fn fake(release: Release, names: &[&str]) -> Fake {
    Fake::new(Machine::new(release, 64 * GIB, names))
}

fn open(fake: &Fake) -> Result<Process<'_>, BringUpError> {
    Process::open_all(fake, &Topology::scan(fake).expect("topology"))
}

/// One buffer of each usage, freed again.
fn exercise(process: &mut Process<'_>) -> Result<(), AllocError> {
    let mut buffers = Vec::new();
    let mut result = Ok(());
    for usage in Usage::ALL.into_iter().filter(|&usage| usage != Usage::EventPage) {
        let bytes = if usage == Usage::Mmio { 4096 } else { 3 << 20 };
        match process.allocate(FIRST, usage, bytes, Name::format(format_args!("{usage:?}"))) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => result = Err(error),
        }
    }
    for buffer in buffers {
        process.free(buffer).expect("free");
    }
    result
}

#[test]
fn every_machine_comes_up_and_goes_down() {
    for release in Release::ALL {
        for chip in &CHIPS {
            let fake = fake(release, &[chip.name]);
            let mut process = open(&fake).expect("bring-up");
            assert_eq!(process.version().minor, release.minor());
            exercise(&mut process).expect("memory");
            process.shutdown().expect("nothing left");
            assert_eq!(fake.held(), (0, 0, 0), "{} on {release:?}", chip.name);
        }
    }
}

#[test]
fn calls_come_in_the_order_every_kernel_accepts() {
    let fake = fake(Release::V6_12, &["RX 7900 XTX"]);
    drop(open(&fake).expect("bring-up"));
    let mut calls = fake.calls();
    calls.retain(|&call| call != request::AMDGPU_INFO);
    let expected = [
        request::GET_VERSION,
        request::GET_PROCESS_APERTURES_NEW,
        request::GET_PROCESS_APERTURES_NEW,
        request::ACQUIRE_VM,
        request::RUNTIME_ENABLE,
        request::ALLOC_MEMORY_OF_GPU,
        request::MAP_MEMORY_TO_GPU,
        request::CREATE_EVENT,
        request::CREATE_EVENT,
        request::DESTROY_EVENT,
        request::DESTROY_EVENT,
    ];
    assert_eq!(calls, expected);
}

#[test]
fn each_failing_allocation_is_undone() {
    for count in 0..12 {
        let fake = fake(Release::V7_2, &["RX 9070 XT"]);
        let Ok(mut process) = ({
            fake.inject(|injection| injection.allocations_left = Some(count));
            open(&fake)
        }) else {
            assert_eq!(count, 0, "only the event page is allocated by bring-up");
            assert_eq!(fake.held(), (0, 0, 0));
            continue;
        };
        let free = process.available(FIRST);
        match exercise(&mut process) {
            Err(AllocError::NoMemory { wanted, available, .. }) => {
                assert!(wanted <= 4 << 20);
                assert!(available.is_some());
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(process.available(FIRST), free, "what was freed is free");
        process.shutdown().expect("nothing left");
        assert_eq!(fake.held(), (0, 0, 0));
    }
}

#[test]
fn signal_storms_change_nothing() {
    let fake = fake(Release::V6_12, &["RX 7900 XTX", "RX 7600"]);
    fake.inject(|injection| injection.interruptions = 7);
    let mut process = open(&fake).expect("bring-up");
    exercise(&mut process).expect("memory");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn a_kernel_that_never_answers_ends_in_an_error() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    fake.inject(|injection| injection.interruptions = u32::MAX);
    let error = open(&fake).expect_err("never answers");
    assert_eq!(error, BringUpError::Refused(Stage::GetVersion, Errno::EAGAIN));
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn each_refused_call_names_its_stage_and_leaves_nothing() {
    let stages = [
        (request::GET_VERSION, Stage::GetVersion),
        (request::GET_PROCESS_APERTURES_NEW, Stage::Apertures),
        (request::ACQUIRE_VM, Stage::AcquireVm(128)),
        (request::RUNTIME_ENABLE, Stage::RuntimeEnable),
        (request::ALLOC_MEMORY_OF_GPU, Stage::Events),
        (request::MAP_MEMORY_TO_GPU, Stage::Events),
        (request::CREATE_EVENT, Stage::Events),
    ];
    for (request, stage) in stages {
        let fake = fake(Release::V6_12, &["RX 7600"]);
        fake.inject(|injection| injection.refuse = Some((request, Errno::EIO)));
        assert_eq!(open(&fake).expect_err("refused"), BringUpError::Refused(stage, Errno::EIO));
        assert_eq!(fake.held(), (0, 0, 0), "{}", request.name());
    }
    let fake = fake(Release::V6_12, &["RX 7600"]);
    fake.inject(|injection| injection.open = Some(Errno::EACCES));
    assert_eq!(open(&fake).expect_err("refused"), BringUpError::Refused(Stage::OpenKfd, Errno::EACCES));
}

#[test]
fn old_interfaces_are_refused_by_name() {
    let fake = fake(Release::V6_1, &["RX 7600"]);
    fake.inject(|injection| injection.minor = Some(8));
    assert!(matches!(open(&fake), Err(BringUpError::Version(version)) if version.minor == 8));
    fake.inject(|injection| injection.minor = Some(9));
    let process = open(&fake).expect("degraded");
    assert!(!process.version().has_event_age());
}

#[test]
fn no_gpu_is_not_brought_up() {
    let fake = fake(Release::V7_2, &[]);
    assert_eq!(open(&fake).expect_err("no GPU"), BringUpError::NotAGpu);
}

#[test]
fn a_second_bring_up_in_one_program_is_refused_by_the_kernel_as_busy() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let first = open(&fake).expect("bring-up");
    let second = open(&fake).expect_err("the address space has its VM");
    assert_eq!(second, BringUpError::Refused(Stage::AcquireVm(128), Errno::EBUSY));
    first.shutdown().expect("nothing left");
}

#[test]
fn what_is_not_given_back_is_reported_and_freed() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let mut process = open(&fake).expect("bring-up");
    let buffer = process.allocate(FIRST, Usage::Data, 5 << 20, Name::new("forgotten")).expect("memory");
    assert_eq!(buffer.bytes(), 6 << 20);
    assert_eq!(buffer.va() % FRAGMENT, 0);
    assert_eq!(process.allocations().nearest(buffer.va() + 7), Nearest::Inside(Name::new("forgotten"), 7));
    drop(buffer);
    let leak = process.shutdown().expect_err("one buffer");
    assert_eq!((leak.buffers.count, leak.buffers.bytes, leak.queues), (1, 6 << 20, 0));
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn memory_is_where_its_usage_says() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX", "780M"]);
    machine.gpus[0].small_bar = true;
    let fake = Fake::new(machine);
    let mut process = open(&fake).expect("bring-up");
    let data = process.allocate(FIRST, Usage::Data, 1 << 20, Name::new("a")).expect("memory");
    assert!(data.window().is_none(), "small BAR");
    let shared = process.allocate(DeviceIndex(1), Usage::Data, 1 << 20, Name::new("b")).expect("memory");
    let window = shared.window().expect("APU memory");
    assert_eq!(window.address(), shared.va());
    window.store64(8, 9);
    assert_eq!(window.load64(8), 9);
    let huge = process.allocate(FIRST, Usage::Data, 25 * GIB, Name::new("weights"));
    let error = huge.expect_err("more than the card has");
    assert!(
        error.to_string().starts_with("no memory for weights: 26843545600 bytes wanted, about "),
        "{error}"
    );
    for buffer in [data, shared] {
        process.free(buffer).expect("free");
    }
    process.shutdown().expect("nothing left");
}

#[test]
fn code_addresses_are_not_used_again() {
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let mut process = open(&fake).expect("bring-up");
    let mut allocate = |usage| {
        let buffer = process.allocate(FIRST, usage, 8192, Name::new("x")).expect("memory");
        let va = buffer.va();
        process.free(buffer).expect("free");
        va
    };
    let (data, code) = (allocate(Usage::Data), allocate(Usage::Code));
    assert_eq!(data, code, "first fit");
    assert_ne!(allocate(Usage::Data), code);
}

#[test]
fn devices_that_the_cgroup_hides_are_reported() {
    let fake = fake(Release::V6_12, &["RX 7600", "W7900"]);
    let all = Topology::scan(&fake).expect("topology");
    fake.deny(&format!("{ROOT}/nodes/2"));
    let visible = Topology::scan(&fake).expect("topology");
    let process = Process::open_all(&fake, &visible).expect("one is visible");
    assert_eq!(process.devices().len(), 1);
    drop(process);
    assert_eq!(all.gpus().count(), 2);
}

#[test]
fn patience_waits_for_a_predecessors_memory() {
    struct Clock<'a>(&'a Fake, u64);
    impl embedded_hal::delay::DelayNs for Clock<'_> {
        fn delay_ns(&mut self, ns: u32) {
            self.1 += u64::from(ns);
            if self.1 >= 300_000_000 {
                self.0.inject(|injection| injection.allocations_left = None);
            }
        }
    }
    let fake = fake(Release::V6_12, &["RX 7600"]);
    let mut process = open(&fake).expect("bring-up");
    fake.inject(|injection| injection.allocations_left = Some(0));
    let mut clock = Clock(&fake, 0);
    let name = Name::new("kv_cache");
    let buffer = process.allocate_patiently(FIRST, Usage::Data, 4096, name, &mut clock).expect("memory");
    assert_eq!(clock.1, 300_000_000);
    process.free(buffer).expect("free");
    let unlucky = Name::new("x");
    struct Never(u64);
    impl embedded_hal::delay::DelayNs for Never {
        fn delay_ns(&mut self, ns: u32) {
            self.0 += u64::from(ns);
        }
    }
    fake.inject(|injection| injection.allocations_left = Some(0));
    let mut never = Never(0);
    let error = process.allocate_patiently(FIRST, Usage::Data, 4096, unlucky, &mut never).expect_err("none");
    assert_eq!((error.errno(), never.0), (Some(Errno::ENOMEM), 2_000_000_000));
}
