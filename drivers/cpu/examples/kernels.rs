//! Measures the product kernels on one thread, by thread CPU time: GB/s of weights at one activation row, GOP/s at more.
//!
//! `cargo run --release -p doorbell-cpu --example kernels [TYPE] [COLS] [ROWS] [avx2|portable]`. `doorbell bench` measures
//! whole models.

#[path = "clock/seconds.rs"]
mod clock;

use doorbell_core::heap;
use doorbell_core::quant::Type;
use doorbell_cpu::activations::{Layout, Quantize};
use doorbell_cpu::features::Isa;
use doorbell_cpu::product::{Products, Scratch, Selection, Weights};

/// Seconds this thread has run.
fn cpu_time() -> f64 {
    clock::seconds(clock::ClockId::ThreadCPUTime)
}

const TYPES: [Type; 25] = [
    Type::Q4_0,
    Type::Q4_1,
    Type::Q5_0,
    Type::Q5_1,
    Type::Q8_0,
    Type::Q2_K,
    Type::Q3_K,
    Type::Q4_K,
    Type::Q5_K,
    Type::Q6_K,
    Type::IQ4_NL,
    Type::IQ4_XS,
    Type::MXFP4,
    Type::IQ1_S,
    Type::IQ1_M,
    Type::IQ2_XXS,
    Type::IQ2_XS,
    Type::IQ2_S,
    Type::IQ3_XXS,
    Type::IQ3_S,
    Type::TQ1_0,
    Type::TQ2_0,
    Type::F16,
    Type::BF16,
    Type::F32,
];

fn measure(isa: Isa, ty: Type, cols: usize, rows: usize, tokens: usize) -> f64 {
    let row_bytes = ty.row_bytes(cols).expect("whole blocks");
    let bytes: Vec<u8> = (0..row_bytes * rows)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] & 0x3b)
        .collect();
    let weights = Weights::new(ty, cols, &bytes).expect("weights");
    let layout = Layout::new(weights.activation(), cols).expect("layout");
    let values: Vec<f32> = (0..cols).map(|i| (i as f32).sin()).collect();
    let mut activations = vec![0; layout.stride * tokens];
    let mut scratch = Scratch::new(&heap::Global);
    scratch.reserve(cols, 0).expect("memory");
    let mut out = vec![0.0; 32 * tokens];
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = cpu_time();
            for row in activations.chunks_exact_mut(layout.stride) {
                isa.run(Quantize::new(&layout, &values, row));
            }
            let products =
                Products::new(isa, &layout, &activations, Selection::Range { first: 0, count: tokens });
            for strip in (0..weights.strips()).step_by(2) {
                products.pair(weights.strip(strip), Some(weights.strip(strip + 1)), &mut scratch, &mut out);
            }
            cpu_time() - start
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: usize| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (cols, rows) = (number(1, 2048), number(2, 16384));
    let isa = match arguments.get(3).map(String::as_str) {
        Some("avx2") => Isa::avx2().expect("AVX2"),
        Some("portable") => Isa::PORTABLE,
        _ => Isa::best(),
    };
    println!("{} {rows} x {cols}", isa.name());
    for ty in TYPES {
        let name = ty.name();
        if arguments.first().is_some_and(|wanted| wanted != "all" && wanted != name) {
            continue;
        }
        let one = measure(isa, ty, cols, rows, 1);
        let bytes = (ty.row_bytes(cols).unwrap_or(0) * rows) as f64;
        print!("{name:7} 1: {:5.1} GB/s", bytes / one / 1e9);
        for tokens in [2, 4, 8, 32, 128, 512] {
            // Fewer rows for long ones: the same work takes as long per row.
            let rows = if tokens >= 128 { (rows / 8).next_multiple_of(32) } else { rows };
            let seconds = measure(isa, ty, cols, rows, tokens);
            print!("  {tokens}: {:4.0}", 2.0 * (cols * rows * tokens) as f64 / seconds / 1e9);
        }
        println!(" GOP/s");
    }
}
