//! Shapes at the edges of tiles, pages and batches; and the same bits whatever the schedule.
//!
//! `DOORBELL_GRID=1` runs all combinations of the axes but one, the chip: it goes by the sum of the others' numbers, so
//! that whatever is taken of all axes but one meets every chip.

use crate::TARGETS;
use crate::attention::attention;
use crate::check::{Case, check_plan, full, run};
use crate::oracle::HEAP;
use crate::variants::{random, vector};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{Attend, HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::WEIGHT_TYPES;
use doorbell_soft::processor::{Level, Options};
use doorbell_tests::tiny::{self, Family};

/// The chip of a case, by the sum of its numbers along all other axes.
pub(crate) fn target(number: usize) -> Target {
    TARGETS[number % TARGETS.len()]
}

/// Chips of a case that is cheap: one, or all in the long run.
pub(crate) fn targets(number: usize) -> Vec<Target> {
    if full() { TARGETS.to_vec() } else { vec![target(number)] }
}

/// Rows of a batch.
pub(crate) const BATCHES: [u32; 5] = [1, 2, 31, 512, 513];

#[test]
fn batches_of_ragged_models() {
    for (number, rows) in BATCHES.into_iter().enumerate() {
        let kinds: &[Type] = match rows {
            _ if full() => &WEIGHT_TYPES,
            512.. => &[Type::Q8_0],
            _ => &[Type::Q8_0, Type::Q4_K, Type::Q6_K],
        };
        for (index, kind) in kinds.iter().enumerate() {
            // Many rows of every type on every chip are in whole steps, too.
            let targets = match (full(), rows) {
                (true, 512..) => vec![target(number + index)],
                _ => targets(number),
            };
            for target in targets {
                let mut case = Case::new(target, &[(0, rows)]);
                case.outputs = if rows == 512 { vec![rows - 1] } else { case.outputs };
                if rows > 2 {
                    case = case.fast();
                }
                // What is done for all rows; attention over many positions has a test of its own.
                let many = |op: &Op| matches!(op, Op::Project(_) | Op::Route(_) | Op::Experts(_));
                let wanted = |op: &Op| rows < 512 || many(op);
                let worst = check_plan(Family::Qwen3Moe, tiny::Shape::ragged(*kind), *kind, &case, wanted);
                println!("{target} {kind} {rows} rows {worst:?}");
            }
        }
    }
}

/// Operations that only one family has, in batches of any size; caches of every type.
#[test]
fn batches_of_ragged_families() {
    let families = Family::ALL.into_iter().filter(|family| *family != Family::Qwen3Moe);
    for (number, family) in families.enumerate() {
        for (index, kv) in KvType::ALL.into_iter().enumerate() {
            for (batch, rows) in BATCHES.into_iter().enumerate() {
                if !full() && batch != (number + 2 * index) % 3 {
                    continue;
                }
                let target = target(number + index + batch);
                let case = Case { kv, outputs: vec![rows - 1], ..Case::new(target, &[(0, rows)]).fast() };
                let worst = check_plan(family, tiny::Shape::RAGGED, Type::Q8_0, &case, |_| true);
                println!("{target} {family:?} {kv} {rows} rows {worst:?}");
            }
        }
    }
}

#[test]
fn experts_in_tiles_of_every_width() {
    // Rows that an expert gets: 5, 27, 55, 85.
    for (number, (experts, rows)) in [(40, 66), (7, 64), (7, 130), (7, 200)].into_iter().enumerate() {
        let shape = tiny::Shape { experts, ..tiny::Shape::RAGGED };
        for target in targets(number) {
            let case = Case { outputs: vec![rows - 1], ..Case::new(target, &[(0, rows)]).fast() };
            let experts = |op: &Op| matches!(op, Op::Experts(_));
            println!("{target} {:?}", check_plan(Family::Qwen3Moe, shape, Type::Q5_0, &case, experts));
        }
    }
}

/// Windows, caps and sinks, by number.
fn variants(model: &mut Model<'_>, op: &Attend) -> Vec<Attend> {
    let sinks = Some(vector(model, &random(op.heads as usize)));
    let windows = [1, 31, 32, 33, 300, 4096].map(|window| Attend { sinks, window: Some(window), ..*op });
    let mut all = vec![*op, Attend { sinks, ..*op }, Attend { soft_cap: Some(2.0), ..*op }];
    all.extend(windows);
    all
}

/// One or a few rows, and the last ones of a prompt.
#[test]
fn attention_at_the_edges_of_pages() {
    const LENGTHS: [u32; 13] = [1, 2, 16, 17, 32, 33, 127, 128, 129, 512, 513, 4096, 4097];
    for (number, length) in LENGTHS.into_iter().enumerate() {
        for (index, kv) in KvType::ALL.into_iter().enumerate() {
            let most = length.min(if full() { 512 } else { 33 });
            let mut worst = 0f64;
            for (batch, rows) in [1, 2, 33, 512].into_iter().enumerate().filter(|(_, rows)| *rows <= most) {
                let target = target(number + index + batch);
                let runs = [(length - rows, rows)];
                let case = Case { kv, outputs: vec![rows - 1], ..Case::new(target, &runs).fast() };
                let found = attention((6, 2, 32), &[case], |model, op| {
                    let all = variants(model, op);
                    let own = all[(number + index) % all.len()];
                    match rows {
                        ..512 if full() => all,
                        // Of many rows over many positions each length and type has another one.
                        512 if length > 513 => vec![own],
                        _ => vec![all[0], own],
                    }
                });
                println!("{target} {kv} {rows} rows, {length} positions {found:e}");
                worst = worst.max(found);
            }
            println!("{kv} {length} positions {worst:e}");
        }
    }
}

/// Lengths, less one, from 1 to 4,097 positions: the first two pages and some, around edges of splits, and in
/// between every 37th: pages filled in every way, and every number of them.
fn positions() -> Vec<u32> {
    let splits = (128..1025).step_by(128).chain((1280..4097).step_by(256));
    let splits = splits.flat_map(|edge| edge - 2..edge + 2);
    let mut all: Vec<u32> = (0..66).chain(splits).chain((66..4097).step_by(37)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Eight rows of a batch have eight lengths, and so have forty.
#[test]
fn attention_over_any_number_of_positions() {
    let all = positions();
    for rows in [8, 40] {
        let cases = all.len().div_ceil(rows);
        for number in 0..cases {
            // Short ones and long ones.
            let runs: Vec<(u32, u32)> =
                all.iter().skip(number).step_by(cases).map(|position| (*position, 1)).collect();
            let kv = KvType::ALL[number % 3];
            let case = Case { kv, outputs: vec![0], ..Case::new(target(number / 3), &runs).fast() };
            attention((6, 2, 32), &[case], |_, op| vec![*op]);
        }
    }
}

/// Runs of one operation that have to write the same bits; those of many rows without sanitizers.
fn options(rows: u32) -> Vec<Options> {
    let strict = |seed| Options { level: Level::Strict, seed, ..Options::default() };
    let fast = |seed, threads, resident| Options {
        level: Level::Fast,
        seed,
        threads,
        resident,
        ..Options::default()
    };
    let mut all = vec![fast(1, 1, 32), fast(9, 1, 3), fast(5, 4, 32)];
    if rows < 512 {
        all.extend([strict(1), strict(77)]);
    }
    all
}

/// Every operation of a step runs in every way that [`options`] has.
fn writes_the_same(
    (family, kind): (Family, Type),
    (kv, target): (KvType, Target),
    (position, rows): (u32, u32),
    wanted: impl Fn(&Op) -> bool,
) {
    let bytes = tiny::model(family, tiny::Shape::ragged(kind), kind, 2).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let mut outputs = vec![0, rows - 1];
    outputs.dedup();
    let case = Case { kv, outputs, ..Case::new(target, &[(position, rows)]) };
    let shape = Shape { rows, outputs: case.outputs.len() as u32 };
    let plan = model.plan(shape, HeadResult::ArgMax, HEAP).unwrap();
    let mut seen = Vec::new();
    for op in plan.ops.iter().filter(|op| wanted(op)) {
        // Layers are alike.
        if seen.contains(&op.name()) {
            continue;
        }
        seen.push(op.name());
        let runs = options(rows)
            .into_iter()
            .map(|options| run(op, &model, &plan, &Case { options, ..case.clone() }).0);
        let runs: Vec<_> = runs.collect();
        for (index, other) in runs.iter().enumerate().skip(1) {
            assert!(runs[0].same(other), "{} of {kind}, {rows} rows, schedule {index}", op.name());
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_schedule() {
    let mut models = vec![(Family::Qwen3Moe, KvType::F16)];
    let mut runs = vec![(300, 1), (40, 5), (20, 34), (0, 65)];
    if full() {
        models.extend([(Family::Qwen3Moe, KvType::F32), (Family::Qwen3Moe, KvType::Q8_0)]);
        models.push((Family::Gemma3, KvType::F16));
        runs.extend([(4096, 1), (4095, 2), (0, 31), (0, 513)]);
    }
    for (number, (family, kv)) in models.into_iter().enumerate() {
        for (index, run) in runs.iter().enumerate() {
            writes_the_same((family, Type::Q8_0), (kv, target(number + index)), *run, |_| true);
        }
    }
    // What reads weights, of every type.
    let reads = |op: &Op| matches!(op, Op::Embed { .. } | Op::Project(_) | Op::Experts(_) | Op::Head(_));
    let kinds = if full() { &WEIGHT_TYPES[..] } else { &[] };
    for (number, kind) in kinds.iter().enumerate() {
        for (index, run) in [(40, 5), (0, 65)].into_iter().enumerate() {
            writes_the_same((Family::Qwen3Moe, *kind), (KvType::F16, target(number + index)), run, reads);
        }
    }
}
