//! Variants that the tiny families do not have: caps, sinks, other gatings and non-linearities, factors, biases, ties.

use crate::TARGETS;
use crate::check::{Case, check};
use crate::oracle::HEAP;
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Attend, Element, Epilogue, Experts, Gating, Glu, Head, HeadResult, Norm, NormAdd, Op, Part, Plan,
    Project, Route, Rows, Shape, Tensor, TensorId, Update, VectorId,
};
use doorbell_core::quant::Type;
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};

/// A vector of random numbers of the model, `values` long.
pub(crate) fn vector(model: &mut Model<'_>, values: &[f32]) -> VectorId {
    let id = VectorId(model.vectors.len() as u32);
    heap::push(&mut model.vectors, heap::copied(HEAP, values).unwrap()).unwrap();
    id
}

pub(crate) fn random(count: usize) -> Vec<f32> {
    let mut random = Random::new(3);
    (0..count).map(|_| random.normal()).collect()
}

/// A tensor of the plan's that no operation of it has, with room for `count` rows.
fn tensor(plan: &mut Plan<'_>, rows: Rows, width: u32, count: u32) -> TensorId {
    let id = TensorId(plan.tensors.len() as u16);
    let offset = plan.arena;
    heap::push(&mut plan.tensors, Tensor { rows, width, element: Element::F32, offset }).unwrap();
    plan.arena += (width * count) as usize;
    id
}

/// An operation with another first part.
fn with_part(op: &Project, part: Part) -> Op {
    let mut op = op.clone();
    op.parts[0] = part;
    Op::Project(op)
}

/// Runs `vary` on a model of experts and checks the operations that it makes of the plan's.
fn varied(kind: Type, cases: &[Case], vary: impl Fn(&mut Model<'_>, &mut Plan<'_>, &Op) -> Vec<Op>) {
    varied_below(1e-6, kind, cases, vary);
}

/// As [`varied`], with errors up to `limit`.
fn varied_below(
    limit: f64,
    kind: Type,
    cases: &[Case],
    vary: impl Fn(&mut Model<'_>, &mut Plan<'_>, &Op) -> Vec<Op>,
) {
    let bytes = tiny::model(Family::Qwen3Moe, tiny::Shape::NARROW, kind, 5).to_bytes();
    let mut model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    for case in cases {
        let shape = Shape { rows: case.rows(), outputs: case.outputs.len() as u32 };
        let mut plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
        let ops: Vec<Op> = plan.ops.iter().cloned().collect();
        let mut count = 0;
        for op in &ops {
            for op in vary(&mut model, &mut plan, op) {
                let nmse = check(&op, &model, &plan, case).nmse();
                assert!(nmse < limit, "{op:?} on {}: NMSE {nmse:e}", case.target);
                count += 1;
            }
        }
        assert!(count > 0);
    }
}

fn cases(runs: &[(u32, u32)]) -> Vec<Case> {
    TARGETS.iter().map(|target| Case::new(*target, runs)).collect()
}

#[test]
fn attention_with_caps_sinks_and_windows() {
    let mut cases = cases(&[(300, 2), (31, 1)]);
    cases[1].kv = KvType::F32;
    varied(Type::F32, &cases, |model, _, op| {
        let Op::Attend(op) = op else { return Vec::new() };
        let sinks = Some(vector(model, &random(op.heads as usize)));
        let mut ops = vec![Op::Attend(Attend { soft_cap: Some(2.0), ..*op })];
        for window in [1, 40, 290, 4096] {
            ops.push(Op::Attend(Attend { sinks, window: Some(window), ..*op }));
        }
        ops
    });
}

#[test]
fn routers_of_every_gating() {
    varied(Type::Q8_0, &cases(&[(0, 3)]), |model, _, op| {
        let Op::Route(op) = op else { return Vec::new() };
        let bias = vector(model, &random(op.router.rows as usize));
        let zero = vector(model, &[0.0]);
        let mut ops = Vec::new();
        for gating in [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen] {
            for (selection_bias, renormalize) in [(None, false), (Some(bias), true), (None, true)] {
                ops.push(Op::Route(Route { gating, selection_bias, renormalize, scale: 2.5, ..*op }));
            }
            // All products are equal: the lowest numbers win.
            let mut router = op.router;
            router.scale = Some(zero);
            ops.push(Op::Route(Route { gating, router, top_k: 3, ..*op }));
        }
        ops
    });
}

#[test]
fn experts_of_every_non_linearity() {
    for kind in [Type::Q8_0, Type::F16] {
        varied(kind, &cases(&[(0, 2)]), |model, _, op| {
            let Op::Experts(op) = op else { return Vec::new() };
            let experts = model.weight(op.gate.weight).stack;
            let mut biased = *op;
            for matrix in [&mut biased.gate, &mut biased.up, &mut biased.down] {
                matrix.bias = Some(vector(model, &random(experts * matrix.rows as usize)));
                matrix.scale = Some(vector(model, &random(experts)));
            }
            let oai = Glu::Oai { alpha: 1.702, limit: 1.0 };
            [Glu::Silu, Glu::Gelu, oai].map(|glu| Op::Experts(Experts { glu, ..biased })).to_vec()
        });
    }
}

#[test]
fn projections_with_gates_factors_and_biases() {
    varied(Type::Q8_0, &cases(&[(0, 3)]), |model, plan, op| {
        let Op::Project(op) = op else { return Vec::new() };
        let Epilogue::Add { to } = op.parts[0].epilogue else { return Vec::new() };
        let rows = plan.tensor(op.input).rows;
        let gate = tensor(plan, rows, 1, 64);
        let mut part = op.parts[0];
        part.matrix.bias = Some(vector(model, &random(part.matrix.rows as usize)));
        part.matrix.scale = Some(vector(model, &[0.3]));
        part.epilogue = Epilogue::AddGated { to, gate };
        let mut ops = vec![with_part(op, part)];
        for glu in [Glu::Gelu, Glu::Oai { alpha: 1.702, limit: 1.0 }] {
            let up = part.matrix;
            ops.push(with_part(op, Part { epilogue: Epilogue::Gate { up, glu, out: to }, ..part }));
        }
        ops
    });
}

#[test]
fn heads_that_choose() {
    varied(Type::Q8_0, &cases(&[(0, 5)]), |model, plan, op| {
        let Op::Head(op) = op else { return Vec::new() };
        // Scratch is reserved for what the plan has.
        if let Some(Op::Head(head)) = plan.ops.last_mut() {
            head.result = HeadResult::ArgMax;
        }
        let (zero, cap) = (vector(model, &[0.0]), Some(2.0));
        let mut equal = op.matrix;
        equal.scale = Some(zero);
        vec![
            Op::Head(Head { soft_cap: cap, scale: 0.5, ..*op }),
            Op::Head(Head { result: HeadResult::ArgMax, ..*op }),
            Op::Head(Head { result: HeadResult::ArgMax, matrix: equal, ..*op }),
        ]
    });
}

/// Few rows, and as many as the matrix kernels take.
const BATCHES: [&[(u32, u32)]; 2] = [&[(0, 3), (7, 1)], &[(2, 66)]];

/// Columns of another tensor as factors: all of it, and some.
#[test]
fn projections_gated_by_columns_of_another_tensor() {
    for runs in BATCHES {
        varied(Type::Q8_0, &cases(runs), |_, plan, op| {
            let Op::Project(op) = op else { return Vec::new() };
            let Epilogue::Add { to } = op.parts[0].epilogue else { return Vec::new() };
            let (rows, part) = (plan.tensor(op.input).rows, op.parts[0]);
            let widths = [
                (part.matrix.rows, 0),
                (3 * part.matrix.rows, 2 * part.matrix.rows),
                (part.matrix.rows + 8, 5),
            ];
            let each = widths.into_iter().zip([Glu::Silu, Glu::Gelu, Glu::Gelu]);
            each.map(|((width, column), glu)| {
                let by = tensor(plan, rows, width, 70);
                with_part(op, Part { epilogue: Epilogue::GateBy { by, column, glu, out: to }, ..part })
            })
            .collect()
        });
    }
}

/// Each head's rows are followed by those of its gate: with a norm and without, rotated and not.
#[test]
fn queries_with_gates() {
    for runs in BATCHES {
        varied(Type::Q8_0, &cases(runs), |_, plan, op| {
            let Op::Project(op) = op else { return Vec::new() };
            let Epilogue::Query { norm, rope, head_dim, .. } = op.parts[0].epilogue else {
                return Vec::new();
            };
            let (rows, width) = (plan.tensor(op.input).rows, op.parts[0].matrix.rows / 2);
            let [out, gate] = [0; 2].map(|_| tensor(plan, rows, width, 70));
            let each = [(norm, rope), (None, rope), (norm, None), (None, None)];
            each.map(|(norm, rope)| {
                let epilogue = Epilogue::Query { norm, rope, head_dim, out, gate: Some(gate) };
                with_part(op, Part { epilogue, ..op.parts[0] })
            })
            .to_vec()
        });
    }
}

/// Gates on the results of attention, of splits that are spread and not, and of many rows.
#[test]
fn attention_with_gates() {
    for runs in [&[(300, 1), (5, 1)][..], &[(12, 9)], &[(37, 40), (3, 1)]] {
        varied(Type::F32, &cases(runs), |_, plan, op| {
            let Op::Attend(op) = op else { return Vec::new() };
            let Tensor { rows, width, .. } = *plan.tensor(op.out);
            let gate = Some(tensor(plan, rows, width, 70));
            vec![Op::Attend(Attend { gate, ..*op }), Op::Attend(Attend { gate, window: Some(9), ..*op })]
        });
    }
}

#[test]
fn values_with_norms() {
    for kv in KvType::ALL {
        for runs in BATCHES {
            let cases: Vec<Case> = cases(runs).into_iter().map(|case| Case { kv, ..case }).collect();
            varied_below(5e-6, Type::F32, &cases, |model, _, op| {
                let Op::Project(op) = op else { return Vec::new() };
                let mut op = op.clone();
                let mut changed = false;
                for part in &mut op.parts {
                    let Epilogue::Value { kv, .. } = part.epilogue else { continue };
                    let dim = model.groups[kv.group.index()].value_dim;
                    let norm = Some(Norm::rms(vector(model, &random(dim as usize)), 1e-6));
                    part.epilogue = Epilogue::Value { norm, kv };
                    changed = true;
                }
                changed.then_some(Op::Project(op)).into_iter().collect()
            });
        }
    }
}

/// Norms of rows and of their parts, added and in place, with a factor and without.
#[test]
fn norms_of_parts_and_with_factors() {
    for runs in BATCHES {
        varied(Type::F32, &cases(runs), |model, plan, op| {
            let Op::Project(op) = op else { return Vec::new() };
            let Epilogue::Add { to } = op.parts[0].epilogue else { return Vec::new() };
            let Tensor { rows, width, .. } = *plan.tensor(to);
            let input = tensor(plan, rows, width, 70);
            let norms =
                [width, width / 2, 8].map(|len| Norm::rms(vector(model, &random(len as usize)), 1e-5));
            let each = norms.into_iter().flat_map(|norm| {
                let forms =
                    [(Update::Add, 1.0), (Update::Add, 0.3), (Update::Replace, 1.0), (Update::Replace, -2.5)];
                forms.map(|(update, scale)| Op::NormAdd(NormAdd { input, norm, to, update, scale }))
            });
            each.collect()
        });
    }
}

/// The sum over experts replaces what was there.
#[test]
fn experts_in_place_of_what_was_there() {
    for runs in BATCHES {
        varied(Type::Q8_0, &cases(runs), |_, _, op| {
            let Op::Experts(op) = op else { return Vec::new() };
            vec![Op::Experts(Experts { update: Update::Replace, ..*op })]
        });
    }
}
