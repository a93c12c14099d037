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
    let mut worst = 0f64;
    for case in cases {
        let shape = Shape { rows: case.rows(), outputs: case.outputs.len() as u32 };
        let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
        let ops: Vec<Attend> =
            plan.ops.iter().filter_map(|op| if let Op::Attend(op) = op { Some(*op) } else { None }).collect();
        let mut varied = vary(&mut model, &ops[0]);
        varied.extend(vary(&mut model, &ops[ops.len() - 1]).into_iter().take(1));
        for op in varied {
            let nmse = check(&Op::Attend(op), &model, &plan, case).nmse();
            assert!(nmse < 1e-6, "{heads} heads {op:?} on {}, {:?}: NMSE {nmse:e}", case.target, case.runs);
            worst = worst.max(nmse);
        }
    }
    worst
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
