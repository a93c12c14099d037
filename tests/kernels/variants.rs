//! Variants that the tiny families do not have: caps, sinks, other gatings and non-linearities, factors, biases, ties.

use crate::TARGETS;
use crate::check::{Case, check};
use crate::oracle::HEAP;
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Attend, Element, Epilogue, Experts, Gating, Glu, Head, HeadResult, Op, Plan, Project, Route, Shape,
    Tensor, TensorId, VectorId,
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

/// Runs `vary` on a model of experts and checks the operations that it makes of the plan's.
fn varied(kind: Type, cases: &[Case], vary: impl Fn(&mut Model<'_>, &mut Plan<'_>, &Op) -> Vec<Op>) {
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
                assert!(nmse < 1e-6, "{op:?} on {}: NMSE {nmse:e}", case.target);
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
        let gate = TensorId(plan.tensors.len() as u16);
        let rows = plan.tensor(op.input).rows;
        let offset = plan.arena;
        heap::push(&mut plan.tensors, Tensor { rows, width: 1, element: Element::F32, offset }).unwrap();
        plan.arena += 64;
        let mut part = op.parts[0];
        part.matrix.bias = Some(vector(model, &random(part.matrix.rows as usize)));
        part.matrix.scale = Some(vector(model, &[0.3]));
        part.epilogue = Epilogue::AddGated { to, gate };
        let one = |part| {
            let mut op: Project = op.clone();
            op.parts[0] = part;
            Op::Project(op)
        };
        let mut ops = vec![one(part)];
        for glu in [Glu::Gelu, Glu::Oai { alpha: 1.702, limit: 1.0 }] {
            let up = part.matrix;
            ops.push(one(doorbell_core::plan::Part {
                epilogue: Epilogue::Gate { up, glu, out: to },
                ..part
            }));
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
