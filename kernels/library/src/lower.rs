//! From an operation of a plan to launches.

use super::{Launch, Step};
use core::fmt;
use doorbell_core::model::Model;
use doorbell_core::plan::{Op, Plan};
use doorbell_isa::Target;

/// The library has no kernel for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The operation's name.
    pub op: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kernel for {} with these weights", self.op)
    }
}

impl core::error::Error for Unsupported {}

/// Whether [`lower`] would take an operation of this model on a chip.
pub fn supports(_op: &Op, _model: &Model<'_>, _target: Target) -> bool {
    false
}

/// Bytes of scratch that steps of a plan need.
pub fn scratch_bytes(_plan: &Plan<'_>, _model: &Model<'_>) -> u64 {
    0
}

/// Calls `emit` with the launches of one operation, in order.
///
/// # Errors
/// No kernel for it: [`supports`] would have said no.
pub fn lower(
    op: &Op,
    _step: &Step<'_, '_>,
    _target: Target,
    _emit: &mut dyn FnMut(Launch),
) -> Result<(), Unsupported> {
    Err(Unsupported { op: op.name() })
}
