//! Every kernel on the software GPU, under strict sanitizers, against core's scalar functions.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod attention;
mod check;
mod compile;
mod delta_net;
mod experts;
mod figures;
mod grid;
mod machine;
mod oracle;
mod paths;
mod prefill;
mod steps;
mod variants;

use check::{Case, check_plan};
use doorbell_core::backend::KvType;
use doorbell_core::plan::Op;
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::WEIGHT_TYPES;
use doorbell_tests::tiny::{Family, Shape};

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

#[test]
fn operations_of_every_family() {
    for (family, target) in Family::ALL.iter().zip(TARGETS.iter().cycle()) {
        for kv in KvType::ALL {
            let case = Case { kv, ..Case::new(*target, &[(37, 3), (5, 1)]) };
            println!(
                "{target} {family:?} {:?}",
                check_plan(*family, Shape::NARROW, Type::Q8_0, &case, |_| true)
            );
        }
    }
}

fn attends(op: &Op) -> bool {
    matches!(op, Op::Attend(_))
}

#[test]
fn attention_over_many_positions() {
    for (position, rows) in [(0, 1), (255, 2), (256, 1), (1000, 3), (700, 9)] {
        for (target, kv) in [(Target::Gfx1100, KvType::F16), (Target::Gfx1200, KvType::F32)] {
            let case = Case { kv, ..Case::new(target, &[(position, rows), (40, 1)]) };
            let worst = check_plan(Family::Qwen3, Shape::NARROW, Type::F32, &case, attends);
            println!("{target} {position} {worst:?}");
        }
    }
}

#[test]
fn every_weight_type_in_every_operation() {
    for (kind, target) in WEIGHT_TYPES.iter().zip(TARGETS.iter().cycle()) {
        let case = Case { seed: 7, ..Case::new(*target, &[(3, 1)]) };
        let worst = check_plan(Family::Qwen3Moe, Shape::WIDE, *kind, &case, |op| !attends(op));
        println!("{target} {kind} {worst:?}");
    }
}

#[test]
fn batches_of_any_size() {
    for (rows, target) in [2, 5, 8, 17].into_iter().zip(TARGETS.iter().cycle()) {
        let case = Case { seed: 11, ..Case::new(*target, &[(9, rows)]) };
        let worst = check_plan(Family::Qwen3Moe, Shape::WIDE, Type::Q4_K, &case, |_| true);
        println!("{target} {rows} rows {worst:?}");
    }
}

#[test]
fn many_rows_take_the_matrix_kernels() {
    for target in TARGETS {
        let mut case = Case::new(target, &[(0, 70), (3, 1)]);
        case.outputs = (0..case.rows()).collect();
        for (family, kind) in [
            (Family::Llama, Type::Q4_0),
            (Family::Qwen3, Type::Q8_0),
            (Family::Gemma3, Type::F16),
            (Family::Qwen2, Type::Q5_1),
        ] {
            let known = |op: &Op| matches!(op, Op::Project(_));
            println!(
                "{target} {family:?} {kind} {:?}",
                check_plan(family, Shape::NARROW, kind, &case, known)
            );
        }
        let known = |op: &Op| matches!(op, Op::Experts(_));
        for (shape, kind) in [(Shape::NARROW, Type::Q8_0), (Shape::WIDE, Type::Q4_K)] {
            println!("{target} {kind} {:?}", check_plan(Family::Qwen3Moe, shape, kind, &case, known));
        }
    }
}
