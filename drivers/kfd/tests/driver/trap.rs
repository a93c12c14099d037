//! The trap handler of the fake kernel's devices: installing, what its records become, taking it away.

use crate::fake::{Fake, Trouble};
use crate::machines::{CHIPS, GIB, Machine, Release};
use crate::queue::{Clock, open, packets};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{Name, Nearest, Uploader, Usage};
use doorbell_kfd::process::{DeviceIndex, Process, TrapError};
use doorbell_kfd::queue::{Queue, QueueOptions, WaitLimits};
use doorbell_kfd::sys::{Errno, request};

const FIRST: DeviceIndex = DeviceIndex(0);

/// Bytes in place of code.
const CODE: [u8; 300] = [0xbf; 300];

const PATIENCE: WaitLimits = WaitLimits { spin_us: 5, hang_ms: 100 };

fn fake(release: Release, name: &str) -> Fake {
    Fake::new(Machine::new(release, 64 * GIB, &[name]))
}

fn install(process: &mut Process<'_>) -> Result<bool, TrapError> {
    let mut uploader = Uploader::new(process, FIRST).expect("uploader");
    let result = process.set_trap_handler(&mut uploader, FIRST, &CODE, &mut Clock::default());
    uploader.destroy(process).expect("destroy");
    result
}

#[test]
fn only_devices_that_enter_a_handler_get_one() {
    for release in Release::ALL {
        for chip in CHIPS.iter().filter(|chip| chip.buffer != 0) {
            let fake = fake(release, chip.name);
            let mut process = open(&fake);
            let gpu_id = process.device(FIRST).gpu_id();
            let expected = release != Release::V6_1 && process.device(FIRST).node().isa().0 >= 110_500;
            assert_eq!(install(&mut process), Ok(expected), "{} on {release:?}", chip.name);
            let asked = fake.calls().contains(&request::SET_TRAP_HANDLER);
            assert_eq!((asked, fake.trap_handler(gpu_id).is_some()), (expected, expected));
            if expected {
                assert_eq!(install(&mut process), Err(TrapError::Code), "a second one");
            }
            process.shutdown().expect("it is no leak");
            assert_eq!((fake.trap_handler(gpu_id), fake.held()), (None, (0, 0, 0)));
        }
    }
}

#[test]
fn a_handler_that_is_refused_leaves_nothing() {
    let fake = fake(Release::V6_12, "8060S");
    let mut process = open(&fake);
    fake.inject(|injection| injection.refuse = Some((request::SET_TRAP_HANDLER, Errno::EINVAL)));
    let error = install(&mut process).expect_err("refused");
    assert_eq!(error.to_string(), "SET_TRAP_HANDLER: EINVAL (22, invalid argument)");
    fake.inject(|injection| (injection.refuse, injection.allocations_left) = (None, Some(0)));
    for left in 0..2 {
        fake.inject(|injection| injection.allocations_left = Some(left));
        assert!(matches!(install(&mut process), Err(TrapError::Alloc(_))));
        assert_eq!(fake.held().0, 0);
    }
    process.shutdown().expect("nothing left");
}

/// A life with a handler whose first dispatch meets `trouble`: the fault and what was found near its address.
fn meet(is_reported: bool, page: Option<u64>, exceptions: u32) -> Fault {
    let fake = fake(Release::V6_12, "8060S");
    let mut process = open(&fake);
    assert_eq!(install(&mut process), Ok(true));
    let code = process.allocate(FIRST, Usage::Code, 8192, Name::new("attend")).expect("memory");
    let mut queue = Queue::create(&mut process, FIRST, QueueOptions::default()).expect("queue");
    // A record of another queue is not this one's.
    let mut other = Queue::create(&mut process, FIRST, QueueOptions::default()).expect("queue");
    let trouble = |pc| Trouble::Wave { pc, exceptions, is_reported, page };
    fake.inject(|injection| injection.trouble = Some(trouble(code.va() + 0x40)));
    let submission = queue.submit(&process, &packets(2), 9).expect("room");
    queue.wait(&mut process, submission, PATIENCE, &mut Clock::default()).expect_err("stopped");
    let fault = queue.fault().expect("fault").clone();
    if fault.lost_gpu().is_none() {
        fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
        let submission = other.submit(&process, &packets(2), 9).expect("room");
        other.wait(&mut process, submission, PATIENCE, &mut Clock::default()).expect_err("hang");
        assert!(matches!(other.fault(), Some(Fault::Hang(100, _))), "{:?}", other.fault());
    }
    for queue in [queue, other] {
        queue.destroy(&mut process).expect("destroy");
    }
    process.free(code).expect("free");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
    fault
}

#[test]
fn a_stopped_wave_names_its_kernel_and_offset() {
    const ILLEGAL: u32 = 1 << 3;
    for is_reported in [true, false] {
        // Without a word from the kernel the watchdog finds the record.
        let fault = meet(is_reported, None, ILLEGAL);
        let Fault::Wave(wave, flight) = &fault else { panic!("{fault}") };
        assert_eq!((wave.near.clone(), wave.waves), (Nearest::Inside(Name::new("attend"), 0x40), 2));
        assert_eq!((wave.record.flags, wave.errors.exceptions), (1 << 11, 1 << 3));
        assert_eq!((flight.ranges[0].label, fault.lost_gpu()), (9, None));
        let text = fault.to_string();
        assert!(text.starts_with("a wave stopped: illegal instruction at pc 0x"), "{text}");
        assert!(
            text.contains(", attend+0x40, like 1 other waves at least; in flight: submission 1"),
            "{text}"
        );
    }
}

#[test]
fn a_violation_names_its_page_where_the_kernel_knows_it() {
    const VIOLATION: u32 = 1 << 4;
    let fault = meet(true, Some(0x5000), VIOLATION);
    assert!(matches!(&fault, Fault::Memory(fault, _) if fault.exception.va == 0x5000), "{fault}");
    let fault = meet(true, None, VIOLATION);
    assert!(
        matches!(fault, Fault::Wave(..)) && fault.to_string().contains("wave memory violation"),
        "{fault}"
    );
}
