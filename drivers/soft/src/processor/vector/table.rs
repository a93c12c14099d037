//! The handlers of vector instructions.
//!
//! Not here: the handlers.

use doorbell_isa::{Inst, Op};

use super::super::handler::Run;
use super::{
    arithmetic, compare, convert, divide, dot, double, half, integer, lanes, matrix, minmax, packed, small,
    sparse, transcendental,
};

static TABLES: [&[(Op, Run)]; 15] = [
    arithmetic::TABLE,
    integer::TABLE,
    compare::TABLE,
    convert::TABLE,
    minmax::TABLE,
    small::TABLE,
    half::TABLE,
    packed::TABLE,
    transcendental::TABLE,
    double::TABLE,
    divide::TABLE,
    dot::TABLE,
    lanes::TABLE,
    matrix::TABLE,
    sparse::TABLE,
];

fn one(op: Op) -> Option<Run> {
    TABLES.iter().flat_map(|table| table.iter()).find(|(row, _)| *row == op).map(|(_, run)| *run)
}

/// The handler of a vector instruction.
pub(crate) fn find(inst: &Inst) -> Option<Run> {
    let first = one(inst.op)?;
    let Some((second, _)) = inst.second else { return Some(first) };
    match (first, one(second)?) {
        (Run::Op32(first), Run::Op32(second)) => Some(Run::Dual(first, second)),
        _ => None,
    }
}
