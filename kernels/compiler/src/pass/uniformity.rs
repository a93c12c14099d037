//! Uniformity: whether the declared uniformity of every value follows from its operands.
//!
//! A value may be declared varying though it is uniform, never the other way round.

use crate::ir::{Function, Node, Op, Region, Value};
use crate::pass::legalize::operands;
use alloc::string::ToString;
use core::fmt;

/// A value that is declared uniform and may differ between lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UniformityError {
    /// The value.
    pub value: Value,
    /// The operation that defines it.
    pub operation: alloc::string::String,
}

impl fmt::Display for UniformityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} is declared uniform but may differ between lanes", self.value, self.operation)
    }
}

impl core::error::Error for UniformityError {}

/// Checks the uniformity of every value.
///
/// # Errors
///
/// The first value whose operands do not support its declaration.
pub fn uniformity(function: &Function) -> Result<(), UniformityError> {
    region(function, &function.body)
}

fn is_uniform(function: &Function, value: Value) -> bool {
    function.ty(value).is_some_and(|ty| ty.uniform)
}

fn region(function: &Function, code: &Region) -> Result<(), UniformityError> {
    let need = |value: Value, holds: bool, operation: &dyn Fn() -> alloc::string::String| {
        if is_uniform(function, value) && !holds {
            return Err(UniformityError { value, operation: operation() });
        }
        Ok(())
    };
    for node in &code.nodes {
        match node {
            Node::Op(Some(value), op) => {
                let holds = match op {
                    Op::Constant(_)
                    | Op::Argument { .. }
                    | Op::WorkgroupId(_)
                    | Op::FirstLane(_)
                    | Op::ReadLane(..) => true,
                    Op::WorkitemId
                    | Op::LaneXor(..)
                    | Op::LaneGather(..)
                    | Op::Atomic(..)
                    | Op::ZeroFragment
                    | Op::Matrix(..)
                    | Op::Dot4 { .. } => false,
                    op => operands(op).into_iter().all(|operand| is_uniform(function, operand)),
                };
                need(*value, holds, &|| op.to_string())?;
            }
            Node::Op(None, _) => {}
            Node::If { condition, then, otherwise, merged } => {
                region(function, then)?;
                region(function, otherwise)?;
                for merge in merged {
                    let all = [*condition, merge.then, merge.otherwise];
                    let holds = all.into_iter().all(|value| is_uniform(function, value));
                    need(merge.result, holds, &|| "merge".to_string())?;
                }
            }
            Node::Loop { first, carried, body, again } => {
                let together = is_uniform(function, *again);
                if let Some(first) = first
                    && together
                    && !is_uniform(function, *first)
                {
                    return Err(UniformityError { value: *first, operation: "loop condition".to_string() });
                }
                region(function, body)?;
                for value in carried {
                    // Lanes that leave one by one leave with different values.
                    let holds = together
                        && [value.initial, value.next].into_iter().all(|value| is_uniform(function, value));
                    need(value.inside, holds, &|| "loop".to_string())?;
                    need(value.result, is_uniform(function, value.inside), &|| "loop".to_string())?;
                }
            }
        }
    }
    Ok(())
}
