//! Whole lives: on every machine, under storms of signals, with every allocation refused in turn, many submissions.

use crate::rig::{Clock, ELEMENTS, FIRST, Life, PATIENCE, add_for, machines, open, soft, whole, whole_of};
use doorbell_compiler::object::ArgumentValue;
use doorbell_kernels::trap_handler;
use doorbell_kfd::memory::{Name, Usage};
use doorbell_kfd::packet::{Packet, Recorder};
use doorbell_kfd::queue::{QueueOptions, Submission};
use doorbell_kfd::topology::GpuKind;
use doorbell_soft::kernel::{Release, chip};
use doorbell_soft::processor::Level;

#[test]
fn every_machine_runs_a_compiled_kernel_under_every_kernel_and_leaves_nothing() {
    let mut count = 0;
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Strict, count);
        whole(&kernel, add_for(name)).unwrap_or_else(|error| panic!("{name} on {release:?}: {error}"));
        count += 1;
    }
    assert_eq!(count, 28, "6 chips on 6.1, 11 on the others");
}

#[test]
fn storms_of_signals_change_nothing() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 1);
        kernel.inject(|injection| (injection.interruptions, injection.spurious) = (5, 3));
        whole(&kernel, add_for(name)).unwrap_or_else(|error| panic!("{name} on {release:?}: {error}"));
    }
}

#[test]
fn each_allocation_may_fail_and_nothing_is_left() {
    for (release, name) in
        [(Release::V6_1, "RX 7900 XTX"), (Release::V6_12, "8060S"), (Release::V7_2, "RX 9070 XT")]
    {
        let mut refused = 0;
        loop {
            let kernel = soft(release, name, Level::Fast, 2);
            kernel.inject(|injection| injection.allocations_left = Some(refused));
            let handler = trap_handler(chip(name).unwrap().target).unwrap();
            match whole_of(&kernel, add_for(name), Life::with_handler(handler)) {
                Ok(()) => break,
                Err(error) => assert!(error.contains("no memory for") || error.contains("ENOMEM"), "{error}"),
            }
            refused += 1;
        }
        // event page, three buffers, arguments, code, five of the queue; on a card four more for uploads, and two for
        // a trap handler where the device runs one
        let expected = [("RX 7900 XTX", 15), ("8060S", 13), ("RX 9070 XT", 17)];
        assert!(
            expected.iter().any(|&(other, least)| other == name && refused >= least),
            "{refused} allocations were refused on {name}"
        );
    }
}

#[test]
fn a_hundred_thousand_submissions_count_right() {
    let name = "RX 7900 XTX";
    let kernel = soft(Release::V6_12, name, Level::Fast, 3);
    let mut process = open(&kernel).unwrap();
    let mut life = Life::default();
    let histogram = crate::rig::sample("histogram", doorbell_isa::Target::Gfx1100);
    life.load(&mut process, &histogram.object, QueueOptions::default()).unwrap();
    let [bins, counts, kernarg] = ["bins", "counts", "arguments"].map(|name| {
        let usage = if name == "arguments" { Usage::Kernarg } else { Usage::Staging };
        life.buffer(&mut process, usage, name).unwrap()
    });
    let arguments = [bins, counts].map(|index| ArgumentValue::Buffer(life.va(index)));
    let mut recorder = Recorder::new();
    let mut one = life.dispatch(kernarg, &histogram, &arguments, 1, 0);
    // one work-item: it counts its own bin, which is 0
    (one.dispatch.workgroup, one.dispatch.grid) = ([1, 1, 1], [1, 1, 1]);
    recorder.add(one).unwrap();
    let mut packets = [Packet::INVALID];
    recorder.encode_aql(&mut packets).unwrap();
    let queue = life.queue.as_mut().unwrap();
    for round in 1..=100_000 {
        let submission = queue.submit(&process, &packets, 0).unwrap();
        assert_eq!(submission, Submission(round));
        queue.wait(&mut process, submission, PATIENCE, &mut Clock::default()).unwrap();
    }
    assert_eq!(queue.indexes(), (100_000, 100_000));
    assert_eq!(life.word(counts, 0), 100_000);
    assert!((1..ELEMENTS as usize).all(|at| life.word(counts, at) == 0));
    life.end(&mut process).unwrap();
    process.shutdown().unwrap();
    assert_eq!(kernel.held(), (0, 0, 0));
}

/// The kernel has all the memory again that freeing reports as returned.
#[test]
fn freed_bytes_are_what_the_kernel_has_again() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 4);
        let mut process = open(&kernel).unwrap();
        for (usage, bytes) in [(Usage::Data, 70 << 20), (Usage::Data, 2 << 20), (Usage::Code, 4 << 20)] {
            let before = process.available(FIRST).unwrap();
            let buffer = process.allocate(FIRST, usage, bytes, Name::new("large")).unwrap();
            let during = process.available(FIRST).unwrap();
            let is_counted = usage == Usage::Data || process.device(FIRST).kind() == GpuKind::Discrete;
            let taken = if is_counted { buffer.bytes() } else { 0 };
            assert_eq!(before - during, taken, "{usage:?} on {name} {release:?}");
            assert_eq!(process.free(buffer).unwrap(), bytes);
            assert_eq!(process.available(FIRST), Some(before), "{usage:?} on {name} {release:?}");
        }
        assert_eq!(process.allocations().totals().count, 1, "the event page");
        process.shutdown().unwrap();
        assert_eq!(kernel.held(), (0, 0, 0));
    }
}

/// Loading again and again in one program works each time and takes no more than once.
#[test]
fn loading_repeats() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Fast, 4);
        let mut process = open(&kernel).unwrap();
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut life = Life::default();
            life.live(&mut process, add_for(name)).unwrap();
            held.push(kernel.held());
            life.end(&mut process).unwrap();
        }
        assert!(held.iter().all(|&now| now == held[0]), "{name} on {release:?}: {held:?}");
        process.shutdown().unwrap();
        assert_eq!(kernel.held(), (0, 0, 0));
    }
}
