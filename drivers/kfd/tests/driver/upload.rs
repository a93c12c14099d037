//! Uploads by every path, and slabs, against the fake kernel.

use crate::fake::{Fake, Trouble, file_byte};
use crate::machines::{GIB, Machine, Release};
use crate::queue::{Clock, open};
use doorbell_kfd::memory::{Bytes, File, Name, Nearest, SlabAllocator, UploadError, Uploader, Usage};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{CopyEngine, CopyError};
use doorbell_kfd::sys::{Errno, Fd, Window, request};

const FIRST: DeviceIndex = DeviceIndex(0);

fn machine(name: &str, small_bar: bool) -> Machine {
    let mut machine = Machine::new(Release::V6_12, 64 * GIB, &[name]);
    machine.gpus[0].small_bar = small_bar;
    machine
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(file_byte).collect()
}

/// Contents of a buffer, copied out by the engine.
fn content(process: &mut Process<'_>, va: u64, len: usize) -> Vec<u8> {
    let mut engine = CopyEngine::create(process, FIRST).expect("engine");
    let target = process.allocate(FIRST, Usage::Staging, len as u64, Name::new("read back")).expect("memory");
    let ticket = engine.copy(process, target.va(), va, len as u64).expect("copy").expect("room");
    engine.wait(ticket, 100, &mut Clock::default()).expect("complete");
    let mut out = vec![0; len];
    target.window().expect("staging").read(0, &mut out);
    process.free(target).expect("free");
    engine.destroy(process).expect("destroy");
    out
}

#[test]
fn every_path_brings_the_same_bytes() {
    let cases = [("RX 7900 XTX", false), ("RX 7900 XTX", true), ("8060S", false)];
    for (name, small_bar) in cases {
        // Around the sizes where paths change: small stores, one staging buffer, two, three.
        for len in [1usize, 100, 256 << 10, (256 << 10) + 1, 16 << 20, (40 << 20) + 5] {
            let fake = Fake::new(machine(name, small_bar));
            let mut process = open(&fake);
            let mut uploader = Uploader::new(&mut process, FIRST).expect("uploader");
            assert_eq!(uploader.is_staged(), name != "8060S");
            let size = len as u64 + 64;
            let target = process.allocate(FIRST, Usage::Data, size, Name::new("weights")).expect("memory");
            let source = bytes(len);
            let mut clock = Clock::default();
            uploader
                .upload(&mut process, &target, 7, &mut Bytes(&source), len as u64, &mut clock)
                .expect("upload");
            let va = target.va();
            assert!(content(&mut process, va + 7, len) == source, "{name} {len}");
            assert_eq!(content(&mut process, va, 7), [0; 7]);
            uploader.destroy(&mut process).expect("destroy");
            process.free(target).expect("free");
            process.shutdown().expect("nothing left");
            assert_eq!(fake.held(), (0, 0, 0));
        }
    }
}

#[test]
fn files_are_read_straight_into_memory() {
    for name in ["8060S", "RX 7600"] {
        let fake = Fake::new(machine(name, false));
        let mut process = open(&fake);
        let mut uploader = Uploader::new(&mut process, FIRST).expect("uploader");
        let target = process.allocate(FIRST, Usage::Data, 1 << 20, Name::new("weights")).expect("memory");
        let fd = Fd::new(99);
        let mut file = File { fd: &fd, offset: 77 };
        let mut clock = Clock::default();
        uploader.upload(&mut process, &target, 0, &mut file, 1 << 20, &mut clock).expect("upload");
        let va = target.va();
        let expected: Vec<u8> = (77..77 + (1 << 20)).map(file_byte).collect();
        assert!(content(&mut process, va, 1 << 20) == expected, "{name}");
        file.offset = 78;
        let error = uploader.upload(&mut process, &target, 0, &mut file, 1 << 20, &mut clock);
        assert_eq!(error, Err(UploadError::Short((1 << 20) - 1)), "the file is one byte too short");
        let error = uploader.upload(&mut process, &target, 1, &mut file, 1 << 20 | 1 << 21, &mut clock);
        assert!(matches!(error, Err(UploadError::OutOfBounds(_))));
        uploader.destroy(&mut process).expect("destroy");
        process.free(target).expect("free");
        process.shutdown().expect("nothing left");
    }
}

#[test]
fn without_a_free_engine_the_bar_serves_or_the_reason_is_reported() {
    let fake = Fake::new(machine("RX 7600", false));
    let mut process = open(&fake);
    fake.inject(|injection| injection.refuse = Some((request::CREATE_QUEUE, Errno::ENOMEM)));
    let mut uploader = Uploader::new(&mut process, FIRST).expect("uploader");
    assert!(!uploader.is_staged());
    fake.inject(|injection| injection.refuse = None);
    let target = process.allocate(FIRST, Usage::Data, 3 << 20, Name::new("weights")).expect("memory");
    let source = bytes(3 << 20);
    let mut clock = Clock::default();
    uploader.upload(&mut process, &target, 0, &mut Bytes(&source), 3 << 20, &mut clock).expect("upload");
    let va = target.va();
    assert!(content(&mut process, va, 3 << 20) == source);
    uploader.destroy(&mut process).expect("destroy");
    process.free(target).expect("free");
    let flushed = fake.calls().iter().filter(|&&call| call == request::ALLOC_MEMORY_OF_GPU).count();
    assert!(flushed > 3, "the flush page is among the allocations");
    process.reopen();
    process.shutdown().expect("nothing left");

    let fake = Fake::new(machine("RX 7600", true));
    let mut process = open(&fake);
    fake.inject(|injection| injection.refuse = Some((request::CREATE_QUEUE, Errno::ENOMEM)));
    let mut uploader = Uploader::new(&mut process, FIRST).expect("uploader");
    let target = process.allocate(FIRST, Usage::Data, 4096, Name::new("weights")).expect("memory");
    let error = uploader.upload(&mut process, &target, 0, &mut Bytes(&[1]), 1, &mut clock);
    assert_eq!(error, Err(UploadError::Unreachable));
}

#[test]
fn all_engines_taken_is_not_an_error_of_the_device() {
    let fake = Fake::new(machine("RX 7600", false));
    let mut process = open(&fake);
    let mut engines = Vec::new();
    let refused = loop {
        match CopyEngine::create(&mut process, FIRST) {
            Ok(engine) => engines.push(engine),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, engines.len()), (CopyError::NoneFree, 12));
    for engine in engines {
        engine.destroy(&mut process).expect("destroy");
    }
    process.shutdown().expect("nothing left");
}

#[test]
fn many_copies_wrap_the_ring_and_a_hanging_engine_is_reported() {
    let fake = Fake::new(machine("RX 7600", false));
    let mut process = open(&fake);
    let mut engine = CopyEngine::create(&mut process, FIRST).expect("engine");
    let buffer = process.allocate(FIRST, Usage::Staging, 8192, Name::new("both")).expect("memory");
    let window: &Window = buffer.window().expect("staging");
    for round in 0..3000u64 {
        window.store64(0, round);
        let ticket = engine.copy(&process, buffer.va() + 4096, buffer.va(), 8).expect("copy").expect("room");
        assert!(engine.is_complete(ticket));
        assert_eq!(window.load64(4096), round);
    }
    fake.inject(|injection| injection.trouble = Some(Trouble::Hang));
    let mut last = None;
    let accepted = std::iter::from_fn(|| {
        let ticket = engine.copy(&process, buffer.va() + 4096, buffer.va(), 8).expect("copy");
        last = ticket.or(last);
        ticket
    });
    let accepted = accepted.count();
    assert!((700..=780).contains(&accepted), "{accepted} requests of 84 bytes in 64 KiB");
    let error = engine.wait(last.expect("some"), 50, &mut Clock::default());
    assert_eq!(error, Err(CopyError::Hang(50)));
    engine.destroy(&mut process).expect("destroy");
    process.free(buffer).expect("free");
    process.shutdown().expect("nothing left");
}

#[test]
fn pieces_of_slabs_are_named_and_empty_slabs_go_back() {
    let fake = Fake::new(machine("RX 7600", false));
    let mut process = open(&fake);
    let before = process.available(FIRST).expect("known");
    let mut arena = SlabAllocator::new(FIRST, Usage::Data);
    let name = |index: u64| Name::format(format_args!("tensor[{index}]"));
    let mut blocks = Vec::new();
    for index in 0..100 {
        blocks.push(arena.allocate(&mut process, 1000 + index * 10_000, name(index)).expect("memory"));
    }
    assert_eq!(arena.held(), 64 << 20);
    for (index, block) in blocks.iter().enumerate() {
        assert_eq!(block.va() % 256, 0);
        assert_eq!(process.allocations().nearest(block.va() + 3), Nearest::Inside(name(index as u64), 3));
        let (window, at) = arena.window(block).expect("large BAR");
        window.write(at, &[index as u8; 100]);
    }
    for pair in blocks.windows(2) {
        assert!(pair[0].va() + pair[0].bytes() <= pair[1].va());
    }
    let large = arena.allocate(&mut process, 100 << 20, Name::new("large")).expect("memory");
    assert_eq!(arena.held(), 164 << 20);
    assert_eq!(process.available(FIRST), Some(before - (164 << 20)));
    assert_eq!(arena.free(&mut process, large).expect("free"), 100 << 20, "its slab is empty at once");
    assert_eq!(process.available(FIRST), Some(before - (64 << 20)));
    let last = blocks.pop().expect("some");
    for block in blocks.into_iter().rev() {
        assert_eq!(arena.free(&mut process, block).expect("free"), 0);
    }
    assert_eq!(arena.free(&mut process, last).expect("free"), 64 << 20);
    assert_eq!(process.available(FIRST), Some(before), "freed bytes are free");
    assert_eq!(arena.destroy(&mut process).expect("free"), 0);
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}
