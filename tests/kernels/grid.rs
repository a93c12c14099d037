//! Shapes at the edges of tiles, pages and batches; and the same bits whatever the schedule.
//!
//! `DOORBELL_GRID=1` runs every combination on every chip.

use crate::TARGETS;
use crate::check::{Case, check_plan, full, run};
use crate::oracle::HEAP;
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_soft::processor::{Level, Options};
use doorbell_tests::tiny::{self, Family};

/// No width is a whole number of tiles: 16, 32, 64 or 128 rows, outputs or items.
const RAGGED: tiny::Shape = tiny::Shape {
    layers: 2,
    hidden: 96,
    heads: 6,
    kv_heads: 2,
    head_dim: 32,
    ff: 160,
    experts: 7,
    experts_used: 3,
    expert_ff: 96,
    vocab: 401,
    context: 8192,
};

/// The same for types with blocks of 256.
const RAGGED_WIDE: tiny::Shape =
    tiny::Shape { hidden: 256, head_dim: 80, ff: 768, expert_ff: 256, layers: 1, ..RAGGED };

/// Chips of the case with a number: one, or all in the long run.
fn targets(number: usize) -> Vec<Target> {
    if full() { TARGETS.to_vec() } else { vec![TARGETS[number % 3]] }
}

#[test]
fn batches_of_ragged_models() {
    for (number, rows) in [1, 2, 31, 512, 513].into_iter().enumerate() {
        let kinds: &[(tiny::Shape, Type)] = match rows {
            512.. if !full() => &[(RAGGED, Type::Q8_0)],
            _ => &[(RAGGED, Type::Q8_0), (RAGGED_WIDE, Type::Q4_K), (RAGGED_WIDE, Type::Q6_K)],
        };
        for (target, (shape, kind)) in
            targets(number).into_iter().flat_map(|target| kinds.iter().map(move |kind| (target, kind)))
        {
            let mut case = Case::new(target, &[(0, rows)]);
            case.outputs = vec![rows - 1];
            if rows > 2 {
                case = case.fast();
            }
            // What is done for all rows; attention over many positions has a test of its own.
            let many = |op: &Op| matches!(op, Op::Project(_) | Op::Route(_) | Op::Experts(_));
            let wanted = |op: &Op| rows < 512 || many(op);
            let worst = check_plan(Family::Qwen3Moe, *shape, *kind, &case, wanted);
            println!("{target} {kind} {rows} rows {worst:?}");
        }
    }
}

#[test]
fn experts_in_tiles_of_every_width() {
    // Rows that an expert gets: 5, 27, 55, 85.
    for (number, (experts, rows)) in [(40, 66), (7, 64), (7, 130), (7, 200)].into_iter().enumerate() {
        let shape = tiny::Shape { experts, ..RAGGED };
        for target in targets(number) {
            let case = Case { outputs: vec![rows - 1], ..Case::new(target, &[(0, rows)]).fast() };
            let experts = |op: &Op| matches!(op, Op::Experts(_));
            println!("{target} {:?}", check_plan(Family::Qwen3Moe, shape, Type::Q5_0, &case, experts));
        }
    }
}

#[test]
fn attention_at_the_edges_of_pages() {
    let lengths = [1, 31, 32, 33, 255, 256, 257, 4096, 4097];
    for (number, length) in lengths.into_iter().enumerate() {
        for kv in [KvType::F16, KvType::Q8_0] {
            for target in targets(number) {
                // One row, and the last rows of a prompt.
                for rows in [1, 33] {
                    if rows > length {
                        continue;
                    }
                    let mut case = Case { kv, ..Case::new(target, &[(length - rows, rows)]).fast() };
                    case.outputs = vec![rows - 1];
                    let attends = |op: &Op| matches!(op, Op::Attend(_));
                    let worst = check_plan(Family::Qwen3, RAGGED, Type::F32, &case, attends);
                    println!("{target} {kv} {length} positions, {rows} rows {worst:?}");
                }
            }
        }
    }
}

/// Runs of one operation that have to write the same bits.
fn options() -> Vec<Options> {
    let strict = |seed| Options { level: Level::Strict, seed, ..Options::default() };
    let fast = |seed, threads, resident| Options {
        level: Level::Fast,
        seed,
        threads,
        resident,
        ..Options::default()
    };
    vec![strict(1), strict(77), fast(1, 1, 32), fast(9, 1, 3), fast(5, 4, 32)]
}

#[test]
fn bits_do_not_depend_on_the_schedule() {
    let bytes = tiny::model(Family::Qwen3Moe, RAGGED, Type::Q8_0, 2).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    for (number, (position, rows)) in [(300, 1), (40, 5), (20, 34), (0, 65)].into_iter().enumerate() {
        let case = Case::new(TARGETS[number % 3], &[(position, rows)]);
        let case = Case { outputs: vec![0, rows - 1], ..case };
        let case = if rows == 1 { Case { outputs: vec![0], ..case } } else { case };
        let shape = Shape { rows, outputs: case.outputs.len() as u32 };
        let plan = model.plan(shape, HeadResult::ArgMax, HEAP).unwrap();
        let mut seen = Vec::new();
        for op in &plan.ops {
            // Layers are alike.
            if seen.contains(&op.name()) {
                continue;
            }
            seen.push(op.name());
            let runs = options()
                .into_iter()
                .map(|options| run(op, &model, &plan, &Case { options, ..case.clone() }).0);
            let runs: Vec<_> = runs.collect();
            for (index, other) in runs.iter().enumerate().skip(1) {
                assert!(runs[0].same(other), "{} of {rows} rows, schedule {index}", op.name());
            }
        }
    }
}
