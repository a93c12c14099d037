//! Attention of many rows, over head shapes, sequences, windows and cache types.

use crate::TARGETS;
use crate::check::{Case, check};
use crate::oracle::HEAP;
use crate::variants::{random, vector};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{Attend, HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_tests::tiny::{self, Family};

/// Heads, KV heads, elements of a head.
type Heads = (usize, usize, usize);

/// Checks every attention that `vary` makes of the first layer's, and the last layer's first one, which is of the rows
/// that are outputs; the worst error.
pub(crate) fn attention(
    heads: Heads,
    cases: &[Case],
    vary: impl Fn(&mut Model<'_>, &Attend) -> Vec<Attend>,
) -> f64 {
    let (heads, kv_heads, head_dim) = heads;
    let shape = tiny::Shape { layers: 2, heads, kv_heads, head_dim, context: 8192, ..tiny::Shape::NARROW };
    let bytes = tiny::model(Family::Qwen3, shape, Type::F32, 5).to_bytes();
    let mut model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    checked(&mut model, cases, vary)
}

/// As [`attention`], of a model.
fn checked(
    model: &mut Model<'_>,
    cases: &[Case],
    vary: impl Fn(&mut Model<'_>, &Attend) -> Vec<Attend>,
) -> f64 {
    let mut worst = 0f64;
    for case in cases {
        let shape = Shape { rows: case.rows(), outputs: case.outputs.len() as u32 };
        let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
        let ops: Vec<Attend> =
            plan.ops.iter().filter_map(|op| if let Op::Attend(op) = op { Some(*op) } else { None }).collect();
        let mut varied = vary(model, &ops[0]);
        varied.extend(vary(model, &ops[ops.len() - 1]).into_iter().take(1));
        for op in varied {
            let nmse = check(&Op::Attend(op), model, &plan, case).nmse();
            assert!(nmse < 1e-6, "{op:?} on {}, {:?}: NMSE {nmse:e}", case.target, case.runs);
            worst = worst.max(nmse);
        }
    }
    worst
}

/// Lanes that are left over, several positions at a time and one, splits beside and behind one another.
#[test]
fn of_few_rows_with_every_head_shape() {
    let dims = [8, 16, 32, 40, 64, 72, 80, 96, 128, 160, 256, 264, 512];
    for (index, head_dim) in dims.into_iter().enumerate() {
        let heads = [(2, 1), (6, 2), (8, 1), (3, 3), (9, 1)][index % 5];
        let kv =
            if head_dim % 32 == 0 { KvType::ALL[index % 3] } else { [KvType::F16, KvType::F32][index % 2] };
        let target = TARGETS[index % 3];
        let cases =
            [vec![(140, 1), (15, 1)], vec![(125, 9)]].map(|runs| Case { kv, ..Case::new(target, &runs) });
        let worst = attention((heads.0, heads.1, head_dim), &cases, |_, op| {
            vec![*op, Attend { window: Some(33), ..*op }]
        });
        println!("{heads:?} {head_dim} {kv} {worst:e}");
    }
}

#[test]
fn of_few_rows_whose_values_are_shorter_or_longer_than_keys() {
    let shape = tiny::Shape { layers: 1, heads: 6, kv_heads: 2, head_dim: 128, ..tiny::Shape::NARROW };
    for (index, [key, value]) in [[128, 64], [32, 128], [96, 16], [8, 80]].into_iter().enumerate() {
        let bytes = tiny::model(Family::Qwen3, shape, Type::F32, 5).to_bytes();
        let mut model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
        for group in &mut model.groups {
            (group.key_dim, group.value_dim) = (key, value);
        }
        let target = TARGETS[index % 3];
        // Rows of tensors stay as wide as weights are: one row.
        let cases = [200, 120].map(|position| Case::new(target, &[(position, 1)]));
        println!("{key} and {value}: {:e}", checked(&mut model, &cases, |_, op| vec![*op]));
    }
}

#[test]
fn of_many_rows_with_every_head_shape() {
    for (index, heads) in
        [(4, 2, 32), (8, 1, 64), (9, 3, 64), (7, 1, 128), (2, 2, 96), (17, 1, 16), (2, 1, 256)]
            .into_iter()
            .enumerate()
    {
        // Two whole sequences, two rows alone, tiles of several sequences, pages in part.
        let runs = [(37, 21), (5, 1), (0, 33), (70, 1), (62, 2)];
        let kv = if heads.2 % 32 == 0 && index % 2 == 0 { KvType::Q8_0 } else { KvType::F16 };
        let case = Case { kv, seed: 3, ..Case::new(TARGETS[index % 3], &runs) };
        println!("{heads:?} {kv} {:e}", attention(heads, &[case], |_, op| vec![*op]));
    }
}

#[test]
fn of_many_rows_with_caps_sinks_and_windows() {
    let cases: Vec<Case> = TARGETS
        .iter()
        .zip([KvType::F16, KvType::Q8_0, KvType::F16])
        .map(|(target, kv)| Case { kv, ..Case::new(*target, &[(90, 33), (31, 1), (3, 5)]) })
        .collect();
    let worst = attention((8, 2, 64), &cases, |model, op| {
        let sinks = Some(vector(model, &random(op.heads as usize)));
        let mut ops = vec![Attend { soft_cap: Some(2.0), ..*op }, Attend { sinks, ..*op }];
        ops.extend([1, 7, 32, 40].map(|window| Attend { sinks, window: Some(window), ..*op }));
        ops
    });
    println!("{worst:e}");
}
