//! Compiled kernels from which one wait was deleted: the sanitizers find it.
//!
//! Every wait of every program of `opencl.rs` on every chip. Not here: programs made to be wrong (`twins.rs`).

use doorbell_isa::{Target, decode};
use doorbell_soft::code::{CodeObject, Descriptor, Launch};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Engine, Level, Options, Report};

use crate::opencl::{OBJECTS, items};
use crate::references::REFERENCES;

const NOP: u32 = 0xbf80_0000;

/// Dwords of the waits of a kernel that starts at `start`, in the order of the code.
fn waits(words: &[u32], target: Target) -> Vec<usize> {
    let (mut found, mut at, mut end) = (Vec::new(), 0, 0);
    while let Some(rest) = words.get(at..).filter(|rest| !rest.is_empty()) {
        let Ok((inst, length)) = decode(rest, target) else { break };
        let name = inst.op.name();
        let counts = name.starts_with("s_waitcnt") && name != "s_waitcnt_depctr";
        if counts || (name.starts_with("s_wait_") && name != "s_wait_alu") {
            found.push(at);
        }
        // A branch further on means that code follows an end.
        if name.contains("branch") {
            let distance = i64::from(rest[0] as u16 as i16);
            end = end.max((at as i64 + 1 + distance).max(0) as usize);
        }
        if name == "s_endpgm" && at >= end {
            break;
        }
        at += length;
    }
    found
}

/// Findings of a kernel whose dword `deleted` is a no-op, over a few orders.
fn is_caught(object: &CodeObject, name: &str, input: &[u32], deleted: usize) -> bool {
    let kernel = object.kernel(name).unwrap();
    (0..3).any(|seed| {
        let mut space = Space::new();
        let code = space.allocate("code", object.image.len()).unwrap();
        let mut image = object.relocated(code.address());
        image[deleted..deleted + 4].copy_from_slice(&NOP.to_le_bytes());
        code.write(0, &image);
        let data = space.allocate("data", 8192).unwrap();
        for (index, word) in input.iter().enumerate() {
            data.store32(index * 4, *word);
        }
        data.store64(4096, data.address());
        data.store64(4104, data.address() + 2048);
        data.store32(4112, 256);
        let packet = space.allocate("packet", 64).unwrap();
        packet.store32(4, 64 | 1 << 16);
        packet.store32(12, 256);
        let launch = Launch {
            grid: [256, 1, 1],
            group: [64, 1, 1],
            kernarg: data.address() + 4096,
            packet: packet.address(),
            ..Launch::default()
        };
        let descriptor = Descriptor::parse(&object.image[kernel.descriptor as usize..]).unwrap();
        let dispatch =
            descriptor.dispatch(code.address() + kernel.descriptor, &launch, object.target).unwrap();
        let options = Options {
            level: Level::Strict,
            seed,
            budget: 50_000_000,
            scalar_reads: false,
            ..Options::default()
        };
        let mut report = Report::default();
        // The wrong address that a register still holds may also fault, after the finding.
        let _ = Engine::new(object.target, options).run_into(&[dispatch], &mut space, &mut report);
        !report.findings.is_empty()
    })
}

#[test]
fn deleting_a_wait_of_a_compiled_kernel_is_caught() {
    let (input, rows) = items();
    for (chip, optimization, file) in OBJECTS.iter().filter(|object| object.1 == 2) {
        let object = CodeObject::parse(file).unwrap();
        let names = rows.iter().map(|(name, _)| format!("k_{name}"));
        let names: Vec<String> = names.chain(REFERENCES.iter().map(|(name, _)| (*name).to_owned())).collect();
        let (mut all, mut missed) = (0, Vec::new());
        for name in &names {
            let kernel = object.kernel(name).unwrap();
            let descriptor = Descriptor::parse(&object.image[kernel.descriptor as usize..]).unwrap();
            let start = (kernel.descriptor as i64 + descriptor.entry) as usize;
            let bytes = object.image[start..].chunks_exact(4);
            let words: Vec<u32> = bytes.map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
            for wait in waits(&words, object.target) {
                all += 1;
                if !is_caught(&object, name, &input, start + wait * 4) {
                    let text = decode(&words[wait..], object.target).unwrap().0;
                    missed.push(format!("{name} dword {wait}: {}", text.text(object.target)));
                }
            }
        }
        println!("{chip} -O{optimization}: {} of {all} deleted waits caught", all - missed.len());
        // The first barrier of the sort is followed by a step within the waves, whose LDS operations are in order: the
        // compiler does not know that its wait orders nothing.
        assert!(missed.len() == 1 && missed[0].starts_with("lds_sort"), "{chip}: {missed:#?}");
        assert!(all > 150, "{all}");
    }
}
