//! Every fault that can be injected ends in its documented error, with a report that names what was hit, and leaves
//! nothing; no wait goes on for ever.

use crate::rig::{Clock, Compiled, Life, PATIENCE, add_for, endless, machines, open, soft, text, whole};
use doorbell_compiler::object::ArgumentValue;
use doorbell_isa::decode;
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{AllocError, Name, Usage};
use doorbell_kfd::packet::{Packet, Recorder};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{CreateError, Queue, QueueOptions, SubmitError, WaitError};
use doorbell_kfd::sys::{Errno, request};
use doorbell_kfd::topology::Topology;
use doorbell_soft::kernel::{Release, SoftKernel, chip};
use doorbell_soft::processor::Level;

const FIRST: DeviceIndex = DeviceIndex(0);

/// Runs one dispatch of `compiled` with buffers at these addresses and then ends the life, whatever happened.
fn outcome(
    kernel: &SoftKernel,
    compiled: &Compiled,
    object: &[u8],
    addresses: impl Fn(u64) -> Vec<ArgumentValue>,
    check: impl FnOnce(&mut Process<'_>, &mut Queue),
) -> Result<(), String> {
    let mut process = open(kernel)?;
    let mut life = Life::default();
    life.load(&mut process, object, QueueOptions::default())?;
    let [data, kernarg] = [Usage::Staging, Usage::Kernarg].map(|usage| {
        life.buffer(&mut process, usage, if usage == Usage::Kernarg { "arguments" } else { "weights" })
    });
    let (data, kernarg) = (data?, kernarg?);
    let mut recorder = Recorder::new();
    recorder.add(life.dispatch(kernarg, compiled, &addresses(life.va(data)), 1, 0)).map_err(text)?;
    let mut packets = [Packet::INVALID];
    recorder.encode_aql(&mut packets).map_err(text)?;
    let result = life.run(&mut process, &packets);
    let queue = life.queue.as_mut().unwrap();
    if result.is_err() {
        // a dead queue takes nothing more and lets nobody wait
        assert_eq!(queue.submit(&process, &packets, 0), Err(SubmitError::Dead));
        let last = queue.last();
        let waited = queue.wait(&mut process, last, PATIENCE, &mut Clock::default());
        assert_eq!(waited, Err(WaitError::Faulted));
    }
    check(&mut process, queue);
    life.end(&mut process).unwrap();
    process.shutdown().unwrap();
    assert_eq!(kernel.held(), (0, 0, 0), "after {result:?}");
    result
}

fn add_arguments(a: u64, b: u64, out: u64) -> Vec<ArgumentValue> {
    [a, b, out].map(ArgumentValue::Buffer).into_iter().chain([ArgumentValue::Scalar(256)]).collect()
}

#[test]
fn a_page_fault_names_address_buffer_and_flight_on_every_machine() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 1);
        let add = add_for(name);
        let mut lost = false;
        let result = outcome(
            &kernel,
            add,
            &add.object,
            // the buffer is one page, and the page behind it a guard
            |va| add_arguments(va, va, va + 4096),
            |process, queue| {
                let Some(Fault::Memory(fault, flight)) = queue.fault() else { panic!("{:?}", queue.fault()) };
                assert!(fault.exception.not_present && fault.exception.read_only);
                assert_eq!((flight.written, flight.ranges.len(), flight.ranges[0].label), (1, 1, 7));
                lost = process.device(FIRST).is_lost();
            },
        );
        let message = result.unwrap_err();
        assert!(lost && message.contains("weights") && message.contains("label 7"), "{message}");
    }
}

#[test]
fn a_read_of_nothing_is_a_page_fault_too() {
    let kernel = soft(Release::V7_2, "RX 9060 XT", Level::Strict, 2);
    let add = add_for("RX 9060 XT");
    let message = outcome(&kernel, add, &add.object, |va| add_arguments(0x7000_0000_0000, va, va), |_, _| {})
        .unwrap_err();
    assert!(message.contains("page fault at 0x700000000000"), "{message}");
}

/// A fault in memory of the queue is reported as such, and not as a fault of the model's memory.
#[test]
fn a_fault_beside_the_queues_memory_names_it() {
    for name in ["queue: ring", "queue: pointers", "queue: save area"] {
        let kernel = soft(Release::V6_12, "8060S", Level::Fast, 2);
        let add = add_for("8060S");
        let mut process = open(&kernel).unwrap();
        let mut life = Life::default();
        life.load(&mut process, &add.object, QueueOptions::default()).unwrap();
        let kernarg = life.buffer(&mut process, Usage::Kernarg, "arguments").unwrap();
        let entry = process.allocations().entries().iter().find(|entry| entry.name.as_str() == name);
        let behind = entry.map(|entry| entry.va + entry.bytes).unwrap();
        let mut recorder = Recorder::new();
        recorder.add(life.dispatch(kernarg, add, &add_arguments(behind, behind, behind), 1, 0)).unwrap();
        let mut packets = [Packet::INVALID];
        recorder.encode_aql(&mut packets).unwrap();
        let message = life.run(&mut process, &packets).unwrap_err();
        assert!(message.contains(name) && message.contains(&format!("{behind:#x}")), "{message}");
        life.end(&mut process).unwrap();
        process.shutdown().unwrap();
    }
}

#[test]
fn an_endless_kernel_is_a_hang() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 3);
        let endless = endless(chip(name).unwrap().target);
        let check = |process: &mut Process<'_>, queue: &mut Queue| {
            assert!(matches!(queue.fault(), Some(Fault::Hang(50, _))), "{:?}", queue.fault());
            assert!(!process.device(FIRST).is_lost(), "only the queue is known to be dead");
        };
        let message =
            outcome(&kernel, &endless, &endless.object, |va| vec![ArgumentValue::Buffer(va)], check)
                .unwrap_err();
        assert!(message.starts_with("no progress for 50 ms"), "{message}");
    }
}

/// Without a trap handler the wave halts: report says why that may be.
#[test]
fn an_illegal_instruction_is_a_hang_that_is_explained() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 4);
        let target = chip(name).unwrap().target;
        let add = add_for(name);
        let illegal =
            (0..=u32::MAX).rev().step_by(0x101).find(|word| decode(&[*word, *word], target).is_err());
        let illegal = illegal.unwrap().to_le_bytes();
        // the first instruction that loads arguments: the code begins at the file's only executable segment
        let mut object = add.object.clone();
        let code = code_offset(&object);
        object[code..code + 4].copy_from_slice(&illegal);
        let message = outcome(&kernel, add, &object, |va| add_arguments(va, va, va), |_, _| {}).unwrap_err();
        assert!(
            message.contains("an illegal instruction halts silently without a trap handler"),
            "{message}"
        );
    }
}

/// File offset of the segment that may be executed.
pub(crate) fn code_offset(object: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(*object[at..].first_chunk().unwrap()) as usize;
    let long = |at: usize| u64::from_le_bytes(*object[at..].first_chunk().unwrap()) as usize;
    let (table, size, count) = (long(32), word(54) & 0xffff, word(56) & 0xffff);
    let executable = |at: &usize| word(*at) == 1 && word(at + 4) & 1 != 0;
    (0..count).map(|index| table + index * size).find(executable).map(|at| long(at + 8)).unwrap()
}

#[test]
fn a_reset_loses_the_device_until_it_is_over() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 5);
        kernel.inject(|injection| injection.reset_after = Some(0));
        let add = add_for(name);
        let gpu = Topology::scan(&kernel).unwrap().devices().next().unwrap().gpu_id;
        let check = |process: &mut Process<'_>, queue: &mut Queue| {
            let fault = queue.fault().unwrap();
            assert_eq!((matches!(fault, Fault::Reset(..)), fault.lost_gpu()), (true, Some(gpu)));
            assert!(process.device(FIRST).is_lost());
            // nothing that the device cannot do any more is tried
            let refused = process.allocate(FIRST, Usage::Data, 4096, Name::new("more")).unwrap_err();
            assert_eq!(refused, AllocError::Lost);
            let refused = Queue::create(process, FIRST, QueueOptions::default()).unwrap_err();
            assert!(matches!(refused, CreateError::Alloc(AllocError::Lost)), "{refused}");
        };
        let message = outcome(&kernel, add, &add.object, |va| add_arguments(va, va, va), check).unwrap_err();
        assert!(message.contains("the whole GPU was reset after a hang, its memory is lost"), "{message}");
        let refused = if release == Release::V6_1 { "EAGAIN" } else { "EINVAL" };
        let error = open(&kernel).map(drop).unwrap_err();
        assert!(error.contains(refused) && error.contains("doorbell doctor"), "{error}");
    }
}

/// Ends the reset after some time.
struct Until<'k> {
    kernel: &'k SoftKernel,
    steps: u32,
    end: u32,
}

impl embedded_hal::delay::DelayNs for Until<'_> {
    fn delay_ns(&mut self, _: u32) {
        self.steps += 1;
        if self.steps == self.end {
            self.kernel.end_reset();
        }
    }
}

#[test]
fn opening_waits_for_a_reset_and_not_for_ever() {
    for release in Release::ALL {
        for (end, opens) in [(30, true), (u32::MAX, false)] {
            let kernel = soft(release, "RX 7600", Level::Fast, 5);
            kernel.begin_reset();
            let topology = Topology::scan(&kernel).unwrap();
            let gpus: Vec<_> = topology.devices().collect();
            let mut until = Until { kernel: &kernel, steps: 0, end };
            let process = Process::open_patiently(&kernel, &gpus, &mut until);
            assert_eq!((process.is_ok(), until.steps), (opens, if opens { end } else { 60 }), "{release:?}");
        }
        // other reasons are not waited for
        let kernel = soft(release, "RX 7600", Level::Fast, 5);
        kernel.inject(|injection| injection.refuse = Some((request::GET_VERSION, Errno::EIO)));
        let topology = Topology::scan(&kernel).unwrap();
        let gpus: Vec<_> = topology.devices().collect();
        let mut until = Until { kernel: &kernel, steps: 0, end: u32::MAX };
        assert!(Process::open_patiently(&kernel, &gpus, &mut until).is_err() && until.steps == 0);
    }
}

#[test]
fn a_device_that_was_lost_can_be_reopened() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 5);
        let mut process = open(&kernel).unwrap();
        kernel.inject(|injection| injection.reset_after = Some(1));
        let mut before = Life::default();
        let error =
            before.live(&mut process, add_for(name)).and_then(|()| before.live(&mut process, add_for(name)));
        assert!(process.device(FIRST).is_lost(), "{error:?}");
        kernel.end_reset();
        let left = process.reopen();
        assert!(left.queues > 0 && left.buffers.count > 0);
        // what is still held is known to be gone
        assert!(before.end(&mut process).is_err());
        let mut after = Life::default();
        after.live(&mut process, add_for(name)).unwrap();
        after.end(&mut process).unwrap();
        process.shutdown().unwrap();
        assert_eq!(kernel.held(), (0, 0, 0), "{name} on {release:?}");
    }
}

/// Each request is refused, one at a time, with each error that the kernel may return.
#[test]
fn refused_requests_end_in_errors_that_name_them() {
    let refusals = [
        (request::GET_VERSION, Errno::EIO, "GET_VERSION"),
        (request::GET_PROCESS_APERTURES_NEW, Errno::EINVAL, "GET_PROCESS_APERTURES_NEW"),
        (request::ACQUIRE_VM, Errno::EINVAL, "ACQUIRE_VM"),
        (request::ALLOC_MEMORY_OF_GPU, Errno::EINVAL, "EINVAL"),
        (request::MAP_MEMORY_TO_GPU, Errno::ENOMEM, "ENOMEM"),
        (request::CREATE_EVENT, Errno::ENOSPC, "ENOSPC"),
        (request::CREATE_QUEUE, Errno::EINVAL, "EINVAL"),
        (request::CREATE_QUEUE, Errno::EIO, "EIO"),
    ];
    for (request, errno, expected) in refusals {
        let kernel = soft(Release::V6_12, "RX 7900 XTX", Level::Fast, 6);
        kernel.inject(|injection| injection.refuse = Some((request, errno)));
        let error = whole(&kernel, add_for("RX 7900 XTX")).unwrap_err();
        assert!(error.contains(expected), "{request:?} {errno}: {error}");
    }
    // what is only asked for comfort may be missing
    for (request, errno) in [
        (request::RUNTIME_ENABLE, Errno::ENOTTY),
        (request::AVAILABLE_MEMORY, Errno::ENOTTY),
        (request::AMDGPU_INFO, Errno::EINVAL),
    ] {
        let kernel = soft(Release::V6_12, "RX 7900 XTX", Level::Fast, 6);
        kernel.inject(|injection| injection.refuse = Some((request, errno)));
        whole(&kernel, add_for("RX 7900 XTX")).unwrap();
    }
}
