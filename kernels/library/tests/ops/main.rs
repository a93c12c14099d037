//! Every kernel on the software GPU, under strict sanitizers, against core's scalar functions.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod check;
mod machine;
mod oracle;

use check::{Case, check_plan};
use doorbell_core::backend::KvType;
use doorbell_core::plan::Op;
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_tests::tiny::{Family, Shape};

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

#[test]
fn operations_of_every_family() {
    for target in TARGETS {
        for family in Family::ALL {
            let case = Case::new(target, &[(37, 3), (5, 1)]);
            let known = |op: &Op| !matches!(op, Op::Route(_) | Op::Experts(_));
            println!("{target} {family:?} {:?}", check_plan(family, Shape::NARROW, Type::Q8_0, &case, known));
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
            let worst = check_plan(Family::Gemma3, Shape::NARROW, Type::F32, &case, attends);
            println!("{target} {position} {worst:?}");
        }
    }
}
