//! Modelled time of both matrix instructions, and that the library takes the better one; a prompt's layer as a whole.

use crate::check::{Case, full, run};
use crate::figures::{CHIPS, PRODUCTS, SIMDS, layer, priced, reference};
use crate::oracle::HEAP;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::MatrixPath;
use doorbell_soft::processor::{Model as Chip, Options};
use doorbell_tests::tiny::{self, Family};

/// Nanoseconds of the products of experts that get so many rows each, launching left out, and whether they were made
/// of bytes. There are as many experts as it takes for the rows to be many.
fn experts(target: Target, kind: Type, rows: u32, path: Option<MatrixPath>) -> (f64, bool) {
    let experts = (128 / rows).max(4);
    let shape = tiny::Shape {
        layers: 1,
        hidden: 512,
        heads: 2,
        kv_heads: 1,
        head_dim: 128,
        ff: 256,
        experts: experts as usize,
        experts_used: 2,
        expert_ff: 256,
        vocab: 384,
        context: 8192,
    };
    let bytes = tiny::model(Family::Qwen3Moe, shape, kind, 5).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let mut case = Case { path, ..Case::new(target, &[(0, experts / 2 * rows)]).fast() };
    case.options = Options { count: true, threads: 1, ..case.options };
    case.outputs = (0..case.rows()).collect();
    let shape = Shape { rows: case.rows(), outputs: case.rows() };
    let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
    let op = plan.ops.iter().find(|op| matches!(op, Op::Experts(_))).unwrap();
    let chip = Chip::of_target(target);
    let profiles = run(op, &model, &plan, &case).0.profiles;
    // Launches of a true size keep a chip busy and read each weight once: what counts is the busiest unit.
    let products = profiles.iter().filter(|profile| profile.name.starts_with("grouped"));
    let time = products.map(|profile| profile.vector_cycles.max(profile.lds_cycles * 2) as f64).sum::<f64>();
    let bytes = profiles.iter().any(|profile| profile.name.contains("iu8"));
    (time / chip.clock, bytes)
}

#[test]
fn the_better_path_is_taken() {
    let mut cases = vec![(Target::Gfx1100, Type::Q8_0, 32), (Target::Gfx1200, Type::Q8_0, 32)];
    cases.push((Target::Gfx1200, Type::Q4_K, 32));
    if full() {
        for target in [Target::Gfx1100, Target::Gfx1200] {
            for kind in [Type::Q8_0, Type::Q4_0, Type::IQ4_XS, Type::Q4_K, Type::Q6_K] {
                cases.extend([16, 32, 64, 128].map(|rows| (target, kind, rows)));
            }
        }
    }
    for (target, kind, rows) in cases {
        let [half, byte] =
            [MatrixPath::F16, MatrixPath::I8].map(|path| experts(target, kind, rows, Some(path)).0);
        let (ratio, chosen) = (byte / half, experts(target, kind, rows, None).1);
        println!("{target} {kind} {rows} rows: bytes take {ratio:.2} of f16, chosen: {chosen}");
        // Near one f16 is taken, which is more precise.
        assert!(if chosen { ratio < 0.95 } else { ratio > 0.9 }, "{target} {kind} {rows}: {ratio}");
    }
}

#[test]
fn a_prompt_of_the_reference_model() {
    let bytes = tiny::model(Family::Qwen3Moe, reference(), Type::Q4_K, 5).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    // As many rows of each expert in the short run.
    let rows: u32 = if full() { 512 } else { 64 };
    let taken = layer(&model, &[(0, rows)]);
    let all = f64::from(rows);
    let products = all * (2048.0 * (4096.0 + 1024.0) + 4096.0 * 2048.0 + 8.0 * 3.0 * 2048.0 * 768.0);
    let attention = all * 32.0 * 256.0 * (all + 1.0) / 2.0;
    for name in CHIPS {
        let bytes = priced(&format!("a prompt of {rows} rows"), name, &taken);
        let chip = Chip::of(name).unwrap();
        let time: f64 = taken
            .iter()
            .map(|taken| {
                let time = chip.time(&taken.profile);
                time.total() - if taken.waits { 0.0 } else { time.launch }
            })
            .sum();
        let share = (products + attention) / (chip.units as f64 * SIMDS * chip.clock * PRODUCTS) / time;
        println!("  {:.1} % of the matrix peak", 100.0 * share);
        // On the 8060S the bandwidth for the experts' weights decides.
        assert!(!full() || share > 0.4 || bytes > 0.7, "{name}: {share}, {bytes}");
    }
}
