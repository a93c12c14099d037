//! Experts at their limits: without a token, with one, only one, all of them chosen, chosen by what is no number.

use crate::check::{Case, check, check_plan};
use crate::grid::target;
use crate::oracle::HEAP;
use crate::variants::vector;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{Gating, HeadResult, Op, Route, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_tests::tiny::{self, Family};

/// Few rows, and as many as the matrix kernels take.
const BATCHES: [u32; 3] = [1, 9, 70];

/// Every batch with its chip for the variant with a number: three variants in turn have been on all chips.
fn batches(number: usize) -> impl Iterator<Item = (Target, u32)> {
    BATCHES.into_iter().enumerate().map(move |(batch, rows)| (target(number + batch), rows))
}

/// Experts and how many of them a row takes.
fn shape(experts: usize, experts_used: usize) -> tiny::Shape {
    tiny::Shape { experts, experts_used, ..tiny::Shape::NARROW }
}

fn of_experts(op: &Op) -> bool {
    matches!(op, Op::Route(_) | Op::Experts(_))
}

/// All rows have the same experts: others have none, and with one expert a row all rows are of one.
#[test]
fn experts_without_a_token() {
    for (number, (experts_used, expert)) in [(1, 0), (1, 5), (1, 7), (3, 6)].into_iter().enumerate() {
        for (target, rows) in batches(number) {
            let case = Case { expert: Some(expert), ..Case::new(target, &[(0, rows)]) };
            check_plan(Family::Qwen3Moe, shape(8, experts_used), Type::Q8_0, &case, of_experts);
        }
    }
}

#[test]
fn one_expert_and_all_of_them() {
    for (number, experts) in [1, 2, 7].into_iter().enumerate() {
        for (target, rows) in batches(number) {
            let case = Case::new(target, &[(0, rows)]);
            check_plan(Family::Qwen3Moe, shape(experts, experts), Type::Q5_1, &case, of_experts);
        }
    }
}

/// Runs `vary` on a router of a model; every result is the reference's.
fn routers(experts: usize, vary: impl Fn(&mut Model<'_>, &Route) -> Vec<Route>) {
    let bytes = tiny::model(Family::Qwen3Moe, shape(experts, 2), Type::Q8_0, 5).to_bytes();
    let mut model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    for (batch, rows) in BATCHES.into_iter().enumerate() {
        let mut case = Case::new(target(batch), &[(0, rows)]);
        let shape = Shape { rows, outputs: case.outputs.len() as u32 };
        let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
        let mut ops = plan.ops.iter().filter_map(|op| if let Op::Route(op) = op { Some(*op) } else { None });
        let first = ops.next().unwrap();
        for (number, op) in vary(&mut model, &first).into_iter().enumerate() {
            case.target = target(batch + number + number / 3);
            let nmse = check(&Op::Route(op), &model, &plan, &case).nmse();
            assert!(nmse < 1e-6, "{op:?} of {rows} rows on {}: NMSE {nmse:e}", case.target);
        }
    }
}

const GATINGS: [Gating; 3] = [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen];

#[test]
fn router_products_that_are_no_numbers() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // Added to the products of eight experts.
    let terms = [
        [nan; 8],
        [inf; 8],
        [-inf; 8],
        [nan, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, inf, 0.0, 0.0, inf, 0.0, 0.0],
        [0.0, -inf, 0.0, 0.0, -inf, 0.0, 0.0, 0.0],
        [nan, -inf, nan, -inf, nan, -inf, nan, -inf],
        [-nan, nan, -inf, inf, 0.0, nan, -inf, 1.0],
        [nan, nan, nan, nan, nan, nan, nan, 0.0],
        [-inf, -inf, -inf, -inf, -inf, -inf, -inf, 0.0],
    ];
    routers(8, |model, op| {
        let mut ops = Vec::new();
        for (number, terms) in terms.into_iter().enumerate() {
            let terms = Some(vector(model, &terms));
            for gating in GATINGS {
                let mut own = Route { gating, renormalize: number % 2 == 0, ..*op };
                own.router.bias = terms;
                let mut chosen = Route { gating, renormalize: number % 2 == 1, ..*op };
                chosen.selection_bias = terms;
                ops.extend([own, chosen]);
            }
        }
        ops
    });
}

/// Equal scores in twos, fours, and all: lower numbers win, in every lane and across lanes.
#[test]
fn router_products_that_are_equal() {
    for experts in [8, 33, 70] {
        routers(experts, |model, op| {
            let mut ops = Vec::new();
            for classes in [1, 2, 4] {
                let scores: Vec<f32> = (0..experts).map(|expert| (expert % classes) as f32).collect();
                let (scores, none) = (vector(model, &scores), vector(model, &[0.0]));
                for gating in GATINGS {
                    let mut own = Route { gating, ..*op };
                    own.router.scale = Some(none);
                    own.router.bias = Some(scores);
                    ops.push(own);
                }
            }
            ops
        });
    }
}

/// A row that is no number is none in its results, and changes no other row.
#[test]
fn rows_that_are_no_numbers() {
    let kinds = [Type::Q8_0, Type::Q4_1, Type::MXFP4, Type::F16, Type::F32];
    let values = kinds.into_iter().flat_map(|kind| [f32::NAN, f32::INFINITY].map(|value| (kind, value)));
    for (number, (kind, value)) in values.enumerate() {
        for (target, rows) in batches(number) {
            let mut case = Case { spoilt: Some((0, value)), ..Case::new(target, &[(0, rows)]) };
            case.outputs = (0..rows).collect();
            // many rows under the sanitizers take most of the time, and have tests of their own
            case = if rows > 9 { case.fast() } else { case };
            let wanted = |op: &Op| !matches!(op, Op::Attend(_)) || value.is_nan();
            check_plan(Family::Qwen3Moe, tiny::Shape { layers: 1, ..shape(8, 2) }, kind, &case, wanted);
        }
    }
}
