//! Waves that stop: with the trap handler of our kernels they are message_only by name and location, without one as a hang.

use crate::rig::{Clock, Compiled, Life, PATIENCE, compiled, machines, open, sample, soft, text};
use core::fmt::Write as _;
use doorbell_compiler::ir::{Builder, Width};
use doorbell_compiler::object::ArgumentValue;
use doorbell_isa::{TARGETS, Target, decode};
use doorbell_kernels::trap_handler;
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::Usage;
use doorbell_kfd::packet::{Packet, Recorder};
use doorbell_kfd::queue::QueueOptions;
use doorbell_soft::kernel::{Release, chip};
use doorbell_soft::processor::Level;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// `s_trap N`.
const TRAP: u32 = 0xbf90_0000;

/// `s_endpgm`.
const END: u32 = 0xbfb0_0000;

/// Bytes that are no instruction of the chip.
fn illegal(target: Target) -> u32 {
    let words = (0..=u32::MAX).rev().step_by(0x101);
    words.into_iter().find(|word| decode(&[*word, *word], target).is_err()).unwrap()
}

/// A kernel whose code begins with these words.
fn patched(target: Target, words: &[u32]) -> Compiled {
    let mut kernel = sample("vector_add", target);
    let code = crate::faults::code_offset(&kernel.object);
    for (at, word) in words.iter().enumerate() {
        kernel.object[code + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
    }
    kernel
}

/// A kernel that stores beyond its LDS.
fn beyond_lds(target: Target) -> Compiled {
    let mut k = Builder::new("beyond_lds", 32);
    let _ = k.buffer("out");
    k.local(256);
    let (far, value) = (k.int(65_532), k.int(7));
    k.store(k.lds(far), Width::Dwords(1), value);
    compiled(&k.finish(), target)
}

/// Runs one wave of a kernel on a machine whose device has the handler, if it has a use for it.
fn run(
    release: Release,
    name: &str,
    kernel: &Compiled,
    seed: u64,
) -> Result<(), (Option<Box<Fault>>, String)> {
    let soft = soft(release, name, Level::Fast, seed);
    let message_only = |message: String| (None, message);
    let mut process = open(&soft).map_err(message_only)?;
    let mut life = Life::with_handler(trap_handler(chip(name).unwrap().target).unwrap());
    life.load(&mut process, &kernel.object, QueueOptions::default()).map_err(message_only)?;
    let data = life.buffer(&mut process, Usage::Staging, "data").map_err(message_only)?;
    let kernarg = life.buffer(&mut process, Usage::Kernarg, "arguments").map_err(message_only)?;
    let mut arguments = vec![ArgumentValue::Buffer(life.va(data)); kernel.function.arguments.len()];
    if kernel.function.name == "vector_add" {
        arguments[3] = ArgumentValue::Scalar(32);
    }
    let mut recorder = Recorder::new();
    recorder.add(life.dispatch(kernarg, kernel, &arguments, 1, 0)).map_err(text).map_err(message_only)?;
    let mut packets = [Packet::INVALID];
    recorder.encode_aql(&mut packets).map_err(text).map_err(message_only)?;
    let result = life.run(&mut process, &packets);
    let fault = life.queue.as_ref().unwrap().fault().cloned().map(Box::new);
    life.end(&mut process).unwrap();
    process.shutdown().unwrap();
    assert_eq!(soft.held(), (0, 0, 0), "after {result:?}");
    result.map_err(|message| (fault, message))
}

/// Machines by whether waves enter a second-level handler and the kernel passes on what it says.
fn tells(release: Release, name: &str) -> bool {
    release != Release::V6_1 && chip(name).unwrap().version >= 110_500
}

#[test]
fn a_stopped_wave_is_reported_by_name_on_every_machine_that_can() {
    let mut count = [0, 0];
    for (release, name) in machines() {
        let target = chip(name).unwrap().target;
        for (kernel, word, trap) in [
            (patched(target, &[illegal(target)]), "illegal instruction", 0),
            (patched(target, &[TRAP | 2]), "wave abort", 2),
            (patched(target, &[TRAP | 5]), "wave trap", 5),
            (beyond_lds(target), "wave aperture violation", 0),
        ] {
            if !tells(release, name) {
                // There `s_trap` is skipped and the kernel runs on.
                let Err((fault, message)) = run(release, name, &kernel, 1) else { continue };
                assert!(trap == 0 && matches!(fault.as_deref(), Some(Fault::Hang(50, _))), "{message}");
                assert!(message.contains("halts silently without a trap handler"), "{message}");
                count[0] += 1;
                continue;
            }
            let (fault, message) = run(release, name, &kernel, 1).unwrap_err();
            let Some(Fault::Wave(wave, flight)) = fault.as_deref() else {
                panic!("{name} on {release:?}: {message}")
            };
            assert_eq!(u32::from(wave.record.trap), trap, "{message}");
            assert_eq!(flight.ranges[0].label, 7);
            let said = format!("a wave stopped: {word}");
            assert!(message.starts_with(&said), "{name} on {release:?}: {message}");
            // The location is in the kernel, and message_only by its name.
            let location = format!(", {}+0x", kernel.function.name);
            assert!(message.contains(&location), "{name} on {release:?}: {message}");
            if word != "wave aperture violation" {
                assert!(message.contains("vector_add+0x0"), "{message}");
            }
            count[1] += 1;
        }
    }
    assert!(count[0] >= 20 && count[1] >= 40, "{count:?}");
}

#[test]
fn break_points_go_on_when_nobody_debugs() {
    for (release, name) in
        [(Release::V6_12, "8060S"), (Release::V7_2, "RX 9070 XT"), (Release::V6_1, "RX 7600")]
    {
        let kernel = patched(chip(name).unwrap().target, &[TRAP | 3, END]);
        run(release, name, &kernel, 2).unwrap();
    }
}

#[test]
fn a_handler_changes_nothing_for_kernels_that_work() {
    for (release, name) in machines() {
        let kernel = soft(release, name, Level::Strict, 3);
        let mut process = open(&kernel).unwrap();
        let mut life = Life::with_handler(trap_handler(chip(name).unwrap().target).unwrap());
        life.live(&mut process, crate::rig::add_for(name)).unwrap();
        let queue = life.queue.as_mut().unwrap();
        queue.wait(&mut process, queue.last(), PATIENCE, &mut Clock::default()).unwrap();
        life.end(&mut process).unwrap();
        process.shutdown().unwrap();
        assert_eq!(kernel.held(), (0, 0, 0), "{name} on {release:?}");
    }
}

/// An access to unmapped memory is reported with its address, as without a handler: the kernel knows the page.
#[test]
fn a_page_fault_stays_one() {
    for (release, name) in machines().filter(|&(release, name)| tells(release, name)) {
        let target = chip(name).unwrap().target;
        let mut k = Builder::new("stray", 32);
        let out = k.buffer("out");
        let (far, value) = (k.int(1 << 20), k.int(7));
        k.store(k.global(out, far), Width::Dwords(1), value);
        let (fault, message) = run(release, name, &compiled(&k.finish(), target), 4).unwrap_err();
        assert!(matches!(fault.as_deref(), Some(Fault::Memory(..))), "{name} on {release:?}: {message}");
        assert!(message.contains("page fault at 0x"), "{message}");
    }
}

/// Machine code that LLVM makes of assembly text; `None` where there is no LLVM.
fn assembled(text: &str, target: Target) -> Option<Vec<u8>> {
    let mut command = Command::new("llvm-mc-19");
    command.args(["--arch=amdgcn", "--show-encoding"]).arg(format!("--mcpu={target}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let bytes = output.lines().filter_map(|line| line.split_once("encoding: [")?.1.split_once(']'));
    let bytes = bytes.flat_map(|(list, _)| list.split(','));
    Some(bytes.map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).unwrap()).collect())
}

#[test]
fn llvm_reads_the_handler_as_it_is_written() {
    for target in TARGETS {
        let code = trap_handler(target).unwrap();
        let words: Vec<u32> =
            code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let (mut text, mut at) = (String::new(), 0);
        while at < words.len() {
            let (inst, length) = decode(&words[at..], target).unwrap();
            writeln!(text, "{}", inst.text(target)).unwrap();
            at += length;
        }
        for part in
            ["s_sendmsg sendmsg(MSG_INTERRUPT)", "s_rfe_b64 ttmp[0:1]", "global_store_b128 v0, v[2:5]"]
        {
            assert!(text.contains(part), "{target}: no {part} in\n{text}");
        }
        assert!(code.len() < 1024, "{target}: {} bytes", code.len());
        let Some(bytes) = assembled(&text, target) else { return };
        assert!(bytes == code, "{target}: LLVM makes other bytes of\n{text}");
    }
}
