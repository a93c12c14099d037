//! Queues against the fake kernel: sizes, submission, waiting, parking, faults, recovery, no leak anywhere.

use crate::fake::{Fake, Trouble};
use crate::machines::{CHIPS, GIB, Machine, Release};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{AllocError, Name, Nearest, Usage};
use doorbell_kfd::packet::{Dispatch, Header, Packet, PacketKind, Scope};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{
    CreateError, Priority, Queue, QueueOptions, SaveArea, Submission, SubmitError, WaitError, WaitLimits,
};
use doorbell_kfd::sys::{Errno, request};
use doorbell_kfd::topology::{Property, Topology};

const FIRST: DeviceIndex = DeviceIndex(0);

/// Time as a number: every delay is a step of it.
#[derive(Default)]
pub struct Clock(pub u64);

impl embedded_hal::delay::DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

fn fake(release: Release, name: &str) -> Fake {
    Fake::new(Machine::new(release, 64 * GIB, &[name]))
}

pub fn open(fake: &Fake) -> Process<'_> {
    Process::open_all(fake, &Topology::scan(fake).expect("topology")).expect("bring-up")
}

pub fn packets(count: u32) -> Vec<Packet> {
    let header =
        Header { kind: PacketKind::Dispatch, barrier: true, acquire: Scope::Agent, release: Scope::Agent };
    let dispatch = |index: u32| Dispatch {
        workgroup: [64, 1, 1],
        grid: [index + 1, 1, 1],
        group_bytes: 0,
        kernel_object: 0x1000,
        kernarg: u64::from(index) * 64,
    };
    (0..count).map(|index| dispatch(index).encode(header)).collect()
}

fn queue(process: &mut Process<'_>) -> Queue {
    Queue::create(process, FIRST, QueueOptions::default()).expect("queue")
}

#[test]
fn save_areas_are_those_of_the_kernel_for_every_chip() {
    for release in Release::ALL {
        for chip in CHIPS.iter().filter(|chip| chip.buffer != 0) {
            let fake = fake(release, chip.name);
            let topology = Topology::scan(&fake).expect("topology");
            let node = topology.gpus().next().expect("GPU");
            let computed = SaveArea::computed(node).expect("known");
            assert_eq!(Some(computed), SaveArea::of(node), "{} on {release:?}", chip.name);
            let sizes =
                (computed.ctl_stack.into(), computed.save.into(), computed.debug.into(), computed.buffer);
            assert_eq!(sizes, (chip.ctl_stack, chip.cwsr, chip.debug, chip.buffer), "{}", chip.name);
            let (offset, header) = computed.header(0, 0x1234, 7);
            assert_eq!(offset, 16);
            assert_eq!(header[..4], computed.save.to_le_bytes());
            assert_eq!(header[4..8], computed.debug.to_le_bytes());
        }
    }
}

#[test]
fn a_kernel_that_counts_too_little_gets_the_larger_save_area() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &["8060S"]);
    // Kernels before the fix count 0x40000 bytes of VGPRs.
    machine.gpus[0].chip.cwsr -= 40 * 0x20000;
    let fake = Fake::new(machine);
    let mut process = open(&fake);
    let node = process.device(FIRST).node();
    assert_eq!(node.properties.get(Property::CwsrSize), Some(0x124C000 - 40 * 0x20000));
    assert_eq!(SaveArea::of(node).expect("known").save, 0x124C000);
    let queue = queue(&mut process);
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

#[test]
fn a_save_area_beyond_32_bits_is_none() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &["8060S"]);
    machine.gpus[0].chip.cwsr = 0xffff_f000;
    let topology = Topology::scan(&Fake::new(machine)).expect("topology");
    assert_eq!(SaveArea::of(topology.gpus().next().expect("GPU")), None);
}

#[test]
fn work_is_submitted_waited_for_and_counted_on_every_machine() {
    for release in Release::ALL {
        for chip in CHIPS.iter().filter(|chip| chip.buffer != 0) {
            let fake = fake(release, chip.name);
            let mut process = open(&fake);
            let mut queue = queue(&mut process);
            let mut clock = Clock::default();
            for round in 1..=3 {
                let submission = queue.submit(&process, &packets(100), round).expect("room");
                assert_eq!(submission, Submission(round.into()));
                queue.wait(&mut process, submission, WaitLimits::default(), &mut clock).expect("complete");
                assert_eq!(queue.completed(), submission);
            }
            let dispatches = fake.dispatches();
            assert_eq!(dispatches.len(), 300);
            assert!(
                dispatches.iter().enumerate().all(|(at, dispatch)| dispatch.grid[0] == at as u32 % 100 + 1)
            );
            assert_eq!(queue.indexes(), (300, 300));
            queue.destroy(&mut process).expect("destroy");
            process.shutdown().expect("nothing left");
            assert_eq!(fake.held(), (0, 0, 0), "{} on {release:?}", chip.name);
        }
    }
}

#[test]
fn a_hundred_thousand_submissions_reuse_the_ring_and_make_no_call() {
    let fake = fake(Release::V6_12, "RX 7900 XTX");
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    let batch = packets(7);
    let mut clock = Clock::default();
    let calls = fake.calls().len();
    for _ in 0..100_000 {
        let submission = queue.submit(&process, &batch, 0).expect("room");
        queue.wait(&mut process, submission, WaitLimits::default(), &mut clock).expect("complete");
    }
    assert_eq!(fake.calls().len(), calls, "no system call while nothing is slow");
    assert_eq!(queue.completed(), Submission(100_000));
    assert_eq!(queue.indexes(), (700_000, 700_000));
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

#[test]
fn a_full_ring_pushes_back() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let options = QueueOptions { packets: 64, ..QueueOptions::default() };
    let mut queue = Queue::create(&mut process, FIRST, options).expect("queue");
    assert_eq!(queue.submit(&process, &[], 0), Err(SubmitError::Empty));
    assert_eq!(queue.submit(&process, &packets(65), 0), Err(SubmitError::TooLong(65, 64)));
    fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
    queue.submit(&process, &packets(40), 0).expect("room");
    assert_eq!(queue.submit(&process, &packets(30), 0), Err(SubmitError::Full(25)), "one was taken");
    queue.submit(&process, &packets(25), 0).expect("a full ring is legal");
    assert_eq!(queue.submit(&process, &packets(1), 0), Err(SubmitError::Full(0)));
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

#[test]
fn wrong_rings_are_refused() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    for packets in [0, 1, 32, 100, 131_072] {
        let options = QueueOptions { packets, ..QueueOptions::default() };
        assert_eq!(Queue::create(&mut process, FIRST, options).err(), Some(CreateError::Packets(packets)));
    }
    process.shutdown().expect("nothing left");
}

#[test]
fn each_failing_allocation_of_a_queue_is_undone() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    for left in 0..5 {
        fake.inject(|injection| injection.allocations_left = Some(left));
        let error = Queue::create(&mut process, FIRST, QueueOptions::default()).expect_err("no memory");
        assert!(matches!(error, CreateError::Alloc(AllocError::NoMemory { .. })), "{error}");
        assert_eq!(fake.held().0, 0);
    }
    fake.inject(|injection| injection.allocations_left = None);
    for (request, errno) in [(request::CREATE_EVENT, Errno::ENOSPC), (request::CREATE_QUEUE, Errno::EPERM)] {
        fake.inject(|injection| injection.refuse = Some((request, errno)));
        Queue::create(&mut process, FIRST, QueueOptions::default()).expect_err("refused");
        assert_eq!(fake.held().0, 0);
    }
    fake.inject(|injection| injection.refuse = None);
    process.shutdown().expect("nothing left");
}

#[test]
fn a_refused_queue_shows_both_sides_of_the_sizes() {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX"]);
    machine.gpus[0].chip.cwsr += 0x1000;
    let fake = Fake::new(machine);
    let mut process = open(&fake);
    fake.inject(|injection| injection.refuse = Some((request::CREATE_QUEUE, Errno::EINVAL)));
    let error = Queue::create(&mut process, FIRST, QueueOptions::default()).expect_err("refused");
    let text = error.to_string();
    assert!(
        text.contains("save area 0x2beb000") && text.contains("sysfs says 0x2beb000 and 0xa000"),
        "{text}"
    );
}

#[test]
fn signal_storms_do_not_disturb_a_queue() {
    let fake = fake(Release::V6_12, "RX 9070 XT");
    fake.inject(|injection| injection.interruptions = 5);
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    let submission = queue.submit(&process, &packets(3), 0).expect("room");
    queue.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect("complete");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn an_idle_queue_is_parked_and_comes_back_with_work() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    let mut clock = Clock::default();
    for _ in 0..2 {
        let submission = queue.submit(&process, &packets(3), 0).expect("room");
        assert!(!queue.is_parked());
        queue.wait(&mut process, submission, WaitLimits::default(), &mut clock).expect("complete");
        assert_eq!((queue.park(&process), queue.is_parked()), (Ok(true), true));
    }
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

/// The numbers are those of every kernel: 2 to 4 are more than they seem on newer ones.
#[test]
fn a_priority_reaches_the_kernel_and_survives_parking() {
    for (priority, number) in [(Priority::Low, 0), (Priority::Normal, 7), (Priority::High, 11)] {
        let fake = fake(Release::V7_2, "RX 7600");
        let mut process = open(&fake);
        let options = QueueOptions { priority, ..QueueOptions::default() };
        let mut queue = Queue::create(&mut process, FIRST, options).expect("queue");
        assert_eq!(fake.queue(queue.id()), Some((number, true)));
        assert_eq!(queue.park(&process), Ok(true));
        assert_eq!(fake.queue(queue.id()), Some((number, false)));
        queue.unpark(&process).expect("update");
        assert_eq!(fake.queue(queue.id()), Some((number, true)));
        queue.destroy(&mut process).expect("destroy");
        process.shutdown().expect("nothing left");
    }
}

#[test]
fn a_hang_is_found_by_lack_of_progress_without_spinning() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
    let submission = queue.submit(&process, &packets(9), 77).expect("room");
    let mut clock = Clock::default();
    let error = queue.wait(&mut process, submission, WaitLimits::default(), &mut clock).expect_err("hang");
    assert_eq!(error, WaitError::Faulted);
    let Some(Fault::Hang(10_000, flight)) = queue.fault() else { panic!("{:?}", queue.fault()) };
    assert_eq!((flight.read, flight.written), (1, 9));
    assert_eq!(flight.ranges[0].label, 77);
    assert!(fake.waits() <= 12, "{} waits for 10 s", fake.waits());
    assert_eq!(clock.0, 200_000, "the spinning before the first sleep");
    let text = queue.fault().expect("fault").to_string();
    assert!(
        text.ends_with("submission 1 (label 77), 1 of 9 packets taken; 1 submissions, 8 packets behind"),
        "{text}"
    );
    assert_eq!(queue.submit(&process, &packets(1), 0), Err(SubmitError::Dead));
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn a_page_fault_is_reported_by_buffer_name() {
    let fake = fake(Release::V7_2, "RX 9070 XT");
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    let cache = process.allocate(FIRST, Usage::Data, 1 << 20, Name::new("kv_cache[12]")).expect("memory");
    let past = cache.va() + cache.bytes();
    fake.inject(|injection| injection.trouble = Some(Trouble::Fault(past + 100)));
    let submission = queue.submit(&process, &packets(2), 5).expect("room");
    queue.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect_err("fault");
    let Some(Fault::Memory(fault, _)) = queue.fault() else { panic!("{:?}", queue.fault()) };
    assert_eq!(fault.near, Nearest::Past(Name::new("kv_cache[12]"), 0));
    assert!(fault.exception.not_present);
    let text = queue.fault().expect("fault").to_string();
    assert!(text.contains("0 bytes past the end of kv_cache[12]: not mapped"), "{text}");
    assert!(process.device(FIRST).is_lost());
    let refused = process.allocate(FIRST, Usage::Data, 4096, Name::new("x"));
    assert_eq!(refused.err(), Some(AllocError::Lost));
    process.free(cache).expect("freeing is always possible");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn after_a_reset_the_device_can_be_reopened() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let mut lost = queue(&mut process);
    let buffer = process.allocate(FIRST, Usage::Data, 1 << 20, Name::new("weights")).expect("memory");
    fake.inject(|injection| injection.trouble = Some(Trouble::Reset));
    let submission = lost.submit(&process, &packets(2), 0).expect("room");
    lost.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect_err("reset");
    let text = lost.fault().expect("fault").to_string();
    assert!(
        text.starts_with("GPU 0x1234: the whole GPU was reset after a hang, its memory is lost"),
        "{text}"
    );
    fake.inject(|injection| injection.trouble = None);
    let leak = process.reopen();
    assert_eq!((leak.buffers.count, leak.queues), (6, 1));
    assert_eq!(process.free(buffer).expect_err("gone").errno, Errno::EINVAL);
    assert_eq!(lost.submit(&process, &packets(1), 0), Err(SubmitError::Dead));
    assert_eq!(lost.destroy(&mut process), Err(Errno::EINVAL), "it is gone");
    let mut queue = queue(&mut process);
    let submission = queue.submit(&process, &packets(2), 0).expect("room");
    queue.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect("complete");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn queue_errors_are_reported_in_words() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let mut queue = queue(&mut process);
    fake.inject(|injection| injection.trouble = Some(Trouble::QueueError(0x4000_0040)));
    let submission = queue.submit(&process, &packets(2), 0).expect("room");
    queue.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect_err("error");
    let text = queue.fault().expect("fault").to_string();
    assert!(
        text.starts_with(
            "the queue stopped: workgroup too large, illegal instruction (codes 0x40000040, 0x0)"
        ),
        "{text}"
    );
    assert!(!process.device(FIRST).is_lost(), "only the queue failed");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

/// The file in which the kernel counts suspends.
const COUNTER: &str = "/sys/power/suspend_stats/success";

/// The GPU does not move, and the system has slept since the device was opened.
#[test]
fn a_device_that_does_not_come_back_from_suspend_is_lost() {
    let fake = fake(Release::V6_12, "8060S");
    fake.set_file(COUNTER, "3\n");
    let mut process = open(&fake);
    let patience = WaitLimits { spin_us: 5, hang_ms: 100 };
    for (count, suspended) in [("3\n", false), ("4\n", true), ("4\n", false)] {
        let mut queue = queue(&mut process);
        fake.inject(|injection| injection.trouble = None);
        // A suspend that the queue survives is not spoken of.
        fake.set_file(COUNTER, count);
        let submission = queue.submit(&process, &packets(2), 0).expect("room");
        queue.wait(&mut process, submission, patience, &mut Clock::default()).expect("complete");
        fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
        let submission = queue.submit(&process, &packets(2), 0).expect("room");
        queue.wait(&mut process, submission, patience, &mut Clock::default()).expect_err("hang");
        let fault = queue.fault().expect("fault").clone();
        assert_eq!(matches!(fault, Fault::Suspended(_, 100, _)), suspended, "{fault}");
        assert_eq!((process.is_lost(FIRST), fault.lost_gpu().is_some()), (suspended, suspended));
        if suspended {
            let text = "no progress for 100 ms, and the system was suspended since it was opened";
            assert!(fault.to_string().contains(text), "{fault}");
            let leak = process.reopen();
            assert_eq!(leak.queues, 1);
        } else {
            queue.destroy(&mut process).expect("destroy");
        }
    }
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

/// One suspend takes both GPUs; what hangs after they were reopened has another reason.
#[test]
fn every_device_that_slept_is_lost_until_it_is_reopened() {
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &["RX 7600", "RX 9070 XT"]));
    fake.set_file(COUNTER, "3\n");
    let mut process = open(&fake);
    let devices = [FIRST, DeviceIndex(1)];
    let patience = WaitLimits { spin_us: 5, hang_ms: 100 };
    for suspended in [true, false] {
        let mut queues = devices
            .map(|device| Queue::create(&mut process, device, QueueOptions::default()).expect("queue"));
        fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
        if suspended {
            fake.set_file(COUNTER, "4\n");
        }
        for (queue, device) in queues.iter_mut().zip(devices) {
            let submission = queue.submit(&process, &packets(2), 0).expect("room");
            queue.wait(&mut process, submission, patience, &mut Clock::default()).expect_err("hang");
            let (fault, gpu_id) = (queue.fault().expect("fault"), process.device(device).gpu_id());
            assert_eq!(matches!(fault, Fault::Suspended(id, 100, _) if *id == gpu_id), suspended, "{fault}");
            assert_eq!(matches!(fault, Fault::Hang(100, _)), !suspended, "{fault}");
            assert_eq!(process.is_lost(device), suspended);
        }
        // Nobody has looked at this one before.
        fake.set_file(COUNTER, "5\n");
        assert_eq!(process.reopen().queues, 2);
    }
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

#[test]
fn a_scheduler_that_hangs_makes_the_device_lost_and_is_asked_once() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let queue = queue(&mut process);
    fake.inject(|injection| injection.refuse = Some((request::DESTROY_QUEUE, Errno::ETIMEDOUT)));
    assert_eq!(queue.destroy(&mut process), Err(Errno::ETIMEDOUT));
    assert!(process.device(FIRST).is_lost());
    let destroys = fake.calls().iter().filter(|&&call| call == request::DESTROY_QUEUE).count();
    assert_eq!(destroys, 1);
}

#[test]
fn buffers_of_a_live_queue_cannot_be_freed() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let queue = queue(&mut process);
    let leak = process.shutdown().expect_err("the queue is alive");
    assert_eq!((leak.queues, leak.buffers.count), (1, 5));
    assert_eq!(fake.held(), (0, 0, 0));
    drop(queue);
}

#[test]
fn without_event_ages_the_host_polls_and_still_finds_faults() {
    let fake = fake(Release::V6_1, "RX 7600");
    let mut process = open(&fake);
    assert!(!process.version().has_event_age());
    let mut queue = queue(&mut process);
    fake.inject(|injection| injection.trouble = Some(Trouble::Fault(0x1000)));
    let submission = queue.submit(&process, &packets(2), 0).expect("room");
    queue.wait(&mut process, submission, WaitLimits::default(), &mut Clock::default()).expect_err("fault");
    assert!(matches!(queue.fault(), Some(Fault::Memory(..))));
    fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
    process.reopen();
    let mut queue = self::queue(&mut process);
    let submission = queue.submit(&process, &packets(2), 0).expect("room");
    let mut clock = Clock::default();
    queue
        .wait(&mut process, submission, WaitLimits { spin_us: 10, hang_ms: 100 }, &mut clock)
        .expect_err("hang");
    assert!(matches!(queue.fault(), Some(Fault::Hang(100, _))));
    assert!((100_000_000..101_000_000).contains(&clock.0), "{} ns", clock.0);
}

#[test]
fn profiling_shows_start_and_end() {
    let fake = fake(Release::V6_12, "RX 7600");
    let mut process = open(&fake);
    let options = QueueOptions { profile: true, ..QueueOptions::default() };
    let mut profiled = Queue::create(&mut process, FIRST, options).expect("queue");
    assert_eq!(profiled.timestamps(), None);
    profiled.submit(&process, &packets(1), 0).expect("room");
    assert_eq!(profiled.timestamps(), Some((1000, 1500)));
    assert_eq!(process.device(FIRST).counter_hz(), 100_000_000);
    assert!(process.clocks(FIRST).expect("clocks").gpu > 0);
    profiled.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
}

#[test]
fn a_fault_of_another_device_stops_only_that_one() {
    let fake = Fake::new(Machine::new(Release::V6_12, 64 * GIB, &["RX 7900 XTX", "RX 7600"]));
    let mut process = open(&fake);
    let mut healthy = queue(&mut process);
    let mut broken = Queue::create(&mut process, DeviceIndex(1), QueueOptions::default()).expect("queue");
    fake.inject(|injection| injection.is_asleep = true);
    let slow = healthy.submit(&process, &packets(2), 0).expect("room");
    fake.inject(|injection| (injection.is_asleep, injection.trouble) = (false, Some(Trouble::Fault(0x5000))));
    let faulting = broken.submit(&process, &packets(2), 0).expect("room");
    let patience = WaitLimits { spin_us: 5, hang_ms: 2000 };
    healthy.wait(&mut process, slow, patience, &mut Clock::default()).expect_err("it sleeps");
    assert!(matches!(healthy.fault(), Some(Fault::Hang(2000, _))), "{:?}", healthy.fault());
    assert!(!process.device(FIRST).is_lost() && process.device(DeviceIndex(1)).is_lost());
    broken.wait(&mut process, faulting, patience, &mut Clock::default()).expect_err("fault");
    assert!(matches!(broken.fault(), Some(Fault::Memory(..))), "{:?}", broken.fault());
    healthy.destroy(&mut process).expect("destroy");
    broken.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}
