//! Shapes at the edges of tiles, pages and batches; and the same bits whatever the schedule.
//!
//! `DOORBELL_GRID=1` runs every combination on every chip.

use crate::attention::attention;
use crate::check::{Case, check_plan, full, run};
use crate::oracle::HEAP;
use crate::variants::{random, vector};
use crate::{KINDS, TARGETS};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{Attend, HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_soft::processor::{Level, Options};
use doorbell_tests::tiny::{self, Family};

/// No width is a whole number of tiles: 16, 32, 64 or 128 rows, outputs or items.
pub(crate) const RAGGED: tiny::Shape = tiny::Shape {
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
pub(crate) const RAGGED_WIDE: tiny::Shape =
    tiny::Shape { hidden: 256, head_dim: 80, ff: 768, expert_ff: 256, layers: 1, ..RAGGED };

/// A ragged shape whose rows are whole blocks of a type.
pub(crate) fn ragged(kind: Type) -> tiny::Shape {
    if kind.block_len() == 256 { RAGGED_WIDE } else { RAGGED }
}

/// Chips of the case with a number: one, or all in the long run.
pub(crate) fn targets(number: usize) -> Vec<Target> {
    if full() { TARGETS.to_vec() } else { vec![TARGETS[number % 3]] }
}

/// Rows of a batch.
pub(crate) const BATCHES: [u32; 5] = [1, 2, 31, 512, 513];

#[test]
fn batches_of_ragged_models() {
    for (number, rows) in BATCHES.into_iter().enumerate() {
        let kinds: &[Type] = match rows {
            _ if full() => &KINDS,
            512.. => &[Type::Q8_0],
            _ => &[Type::Q8_0, Type::Q4_K, Type::Q6_K],
        };
        for (target, kind) in
            targets(number).into_iter().flat_map(|target| kinds.iter().map(move |kind| (target, *kind)))
        {
            let mut case = Case::new(target, &[(0, rows)]);
            case.outputs = if rows == 512 { vec![rows - 1] } else { case.outputs };
            if rows > 2 {
                case = case.fast();
            }
            // What is done for all rows; attention over many positions has a test of its own.
            let many = |op: &Op| matches!(op, Op::Project(_) | Op::Route(_) | Op::Experts(_));
            let wanted = |op: &Op| rows < 512 || full() || many(op);
            let worst = check_plan(Family::Qwen3Moe, ragged(kind), kind, &case, wanted);
            println!("{target} {kind} {rows} rows {worst:?}");
        }
    }
}

/// What a family has of its own, in batches of any size; caches of every type.
#[test]
fn batches_of_ragged_families() {
    let families = Family::ALL.into_iter().filter(|family| *family != Family::Qwen3Moe);
    let cases = families.flat_map(|family| KvType::ALL.map(|kv| (family, kv)));
    for (number, (family, kv)) in cases.enumerate() {
        let batches = if full() { &BATCHES[..] } else { &BATCHES[number % 3..=number % 3] };
        for (target, rows) in
            targets(number).into_iter().flat_map(|target| batches.iter().map(move |rows| (target, *rows)))
        {
            let outputs = vec![rows - 1];
            let case = Case { kv, outputs, ..Case::new(target, &[(0, rows)]).fast() };
            let worst = check_plan(family, RAGGED, Type::Q8_0, &case, |_| true);
            println!("{target} {family:?} {kv} {rows} rows {worst:?}");
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

/// What rows see and how scores are bent, by number.
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
    let lengths = [1, 2, 31, 32, 33, 255, 256, 257, 512, 513, 4096, 4097];
    let all = lengths.into_iter().flat_map(|length| KvType::ALL.map(|kv| (length, kv)));
    for (number, (length, kv)) in all.enumerate() {
        for target in targets(number) {
            let batches =
                [1, 2, 33, 512].into_iter().filter(|rows| *rows <= length.min(if full() { 512 } else { 33 }));
            let cases: Vec<Case> = batches
                .map(|rows| Case {
                    kv,
                    outputs: vec![rows - 1],
                    ..Case::new(target, &[(length - rows, rows)]).fast()
                })
                .collect();
            let worst = attention((6, 2, 32), &cases, |model, op| {
                let all = variants(model, op);
                if full() { all } else { vec![all[0], all[1 + number % (all.len() - 1)]] }
            });
            println!("{target} {kv} {length} positions {worst:e}");
        }
    }
}

/// From 1 to 4,097: every length in the long run, those at the edges of splits in the short one. Eight rows of a batch
/// have eight lengths, and so have forty.
#[test]
fn attention_over_any_number_of_positions() {
    let lengths: Vec<u32> = (0..4097).collect();
    for rows in [8, 40] {
        for (number, positions) in lengths.chunks(rows).enumerate() {
            let crosses_a_split = number * rows / 256 != (number * rows + rows) / 256;
            if !full() && !crosses_a_split {
                continue;
            }
            let runs: Vec<(u32, u32)> = positions.iter().map(|position| (*position, 1)).collect();
            let kv = KvType::ALL[number % 3];
            let case = Case { kv, outputs: vec![0], ..Case::new(TARGETS[number / 3 % 3], &runs).fast() };
            attention((6, 2, 32), &[case], |_, op| vec![*op]);
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
    let mut models = vec![(Family::Qwen3Moe, Type::Q8_0, KvType::F16)];
    let mut runs = vec![(300, 1), (40, 5), (20, 34), (0, 65)];
    if full() {
        models.extend(KINDS.map(|kind| (Family::Qwen3Moe, kind, KvType::F16)));
        models.extend(KvType::ALL.map(|kv| (Family::Gemma3, Type::Q8_0, kv)));
        runs.extend([(4096, 1), (4095, 2), (0, 31), (0, 512), (0, 513)]);
    }
    let all = models.iter().flat_map(|model| runs.iter().map(move |run| (*model, *run)));
    for (number, ((family, kind, kv), (position, rows))) in all.enumerate() {
        let bytes = tiny::model(family, ragged(kind), kind, 2).to_bytes();
        let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
        let mut outputs = vec![0, rows - 1];
        outputs.dedup();
        let case = Case { kv, outputs, ..Case::new(TARGETS[number % 3], &[(position, rows)]) };
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
                assert!(runs[0].same(other), "{} of {kind}, {rows} rows, schedule {index}", op.name());
            }
        }
    }
}
