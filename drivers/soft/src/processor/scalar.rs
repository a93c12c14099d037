//! Scalar instructions: operands and handlers.
//!
//! Not here: scalar memory (`memory_ops`).

mod arithmetic;
mod compare;
mod control;
mod operands;

use doorbell_isa::Op;

use super::handler::Run;

pub(crate) use operands::{execute, operand};

/// The handler of a scalar instruction.
pub(crate) fn find(op: Op) -> Option<Run> {
    let tables = [arithmetic::TABLE, compare::TABLE, control::TABLE];
    tables.iter().flat_map(|table| table.iter()).find(|(row, _)| *row == op).map(|(_, run)| *run)
}
