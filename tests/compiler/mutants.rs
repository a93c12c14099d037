//! Each wait left out of a kernel is noticed while it runs, as the static checker notices it before.

use crate::machine::{Arg, Random, TARGETS, bytes, clean, run, sample};
use doorbell_compiler::Kernel;
use doorbell_isa::{Inst, Operand, decode, encode, op};

/// Sample, workgroups, buffer bytes (filled, or fresh where negative), scalars after them: those of each run.
struct Case {
    name: &'static str,
    groups: [u32; 2],
    buffers: &'static [i32],
    runs: &'static [&'static [u32]],
}

const ONE: u32 = 0x3f80_0000;

static CASES: [Case; 14] = [
    Case { name: "vector_add", groups: [2, 1], buffers: &[1200, 1200, -1200], runs: &[&[300]] },
    Case { name: "axpy4", groups: [1, 1], buffers: &[4096, 4096], runs: &[&[ONE]] },
    Case { name: "clamp_positive", groups: [1, 1], buffers: &[256], runs: &[&[ONE]] },
    Case { name: "reduce_sum", groups: [2, 1], buffers: &[4096, -8], runs: &[&[512]] },
    Case { name: "softmax_row", groups: [1, 1], buffers: &[2048, -2048], runs: &[&[512]] },
    Case { name: "rms_norm", groups: [1, 1], buffers: &[2048, 2048, -2048], runs: &[&[512, ONE]] },
    Case { name: "histogram", groups: [2, 1], buffers: &[512, 1024], runs: &[&[]] },
    Case { name: "q4k_dequantize", groups: [1, 1], buffers: &[144, -1024], runs: &[&[]] },
    Case { name: "q4k_q8_gemv", groups: [1, 1], buffers: &[1152, 2304, -4], runs: &[&[8]] },
    Case { name: "q4k_q8_gemv_ahead", groups: [1, 1], buffers: &[2304, 4608, -4], runs: &[&[16], &[12]] },
    Case { name: "byte_shift", groups: [1, 1], buffers: &[32, 64, -64], runs: &[&[1]] },
    Case { name: "wmma_f16_tile", groups: [1, 1], buffers: &[1024, 1024, -1024], runs: &[&[64, 16]] },
    Case {
        name: "wmma_f16_tile_ahead",
        groups: [1, 1],
        buffers: &[2048, 2048, -1024],
        runs: &[&[128, 16], &[96, 16]],
    },
    Case { name: "wmma_iu8_tile", groups: [1, 1], buffers: &[512, 512, -1024], runs: &[&[32, 16]] },
];

fn args(case: &Case, scalars: &[u32]) -> Vec<Arg> {
    let mut random = Random(30);
    let buffers = case.buffers.iter().map(|len| {
        let count = len.unsigned_abs() as usize;
        if *len < 0 { Arg::Fresh(count) } else { Arg::Buffer(fill(case.name, &mut random, count)) }
    });
    buffers.chain(scalars.iter().map(|value| Arg::Scalar(*value))).collect()
}

/// Content that the kernel computes numbers from.
fn fill(name: &str, random: &mut Random, count: usize) -> Vec<u8> {
    match name {
        "histogram" | "byte_shift" | "wmma_iu8_tile" => random.bytes(count),
        // f16 numbers between one and two.
        name if name.starts_with("q4k") || name.starts_with("wmma_f16") => {
            (0..count).map(|at| if at % 2 == 0 { random.next() as u8 } else { 0x3c }).collect()
        }
        _ => bytes(&random.floats(count / 4)),
    }
}

/// The kernel without each of its waits, with the text of what is missing.
fn without_waits(kernel: &Kernel) -> Vec<(String, Kernel)> {
    let nop = encode(&Inst::new(op::s_nop, [Operand::Immediate(0)]), kernel.target).expect("encodes");
    let mut list = Vec::new();
    let mut at = 0;
    while let Some(Ok((inst, length))) = kernel.words.get(at..).map(|rest| decode(rest, kernel.target)) {
        let name = inst.row().name;
        // Distances between instructions (`s_wait_alu`) are the static checker's alone: nothing computed differs.
        if name.starts_with("s_wait") && !matches!(name, "s_wait_alu" | "s_waitcnt_depctr") {
            let mut words = kernel.words.clone();
            words[at] = nop.words()[0];
            list.push((format!("{at}: {}", inst.text(kernel.target)), Kernel { words, ..kernel.clone() }));
        }
        at += length;
    }
    list
}

#[test]
fn every_missing_wait_shows_at_run_time() {
    let (mut tried, mut missed) = (0, Vec::new());
    for target in TARGETS {
        for case in &CASES {
            let kernel = sample(case.name, target);
            let rights = case.runs.iter().map(|run| clean(&kernel, case.groups, &args(case, run)).buffers);
            let rights: Vec<Vec<Vec<u8>>> = rights.collect();
            for (wait, mutant) in without_waits(&kernel) {
                tried += 1;
                let noticed = case.runs.iter().zip(&rights).any(|(scalars, right)| {
                    (1..=4).any(|seed| match run(&mutant, case.groups, &args(case, scalars), seed) {
                        Err(_) => true,
                        Ok(outcome) => !outcome.findings.is_empty() || outcome.buffers != *right,
                    })
                });
                if !noticed {
                    missed.push(format!("{} {target} {wait}", case.name));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} of {tried} missed:\n{}", missed.len(), missed.join("\n"));
    assert!(tried > 140, "only {tried} waits");
    println!("{tried} of {tried} missing waits noticed");
}
