//! The workgroup's heads and the arguments of attention row by row.

use crate::attention::shape::AttentionInputs;
use alloc::vec::Vec;
use doorbell_compiler::ir::Value;

/// The kernel's arguments.
pub(crate) struct DecodeArguments {
    pub(crate) inputs: AttentionInputs,
    pub(crate) sinks: Option<Value>,
    /// Output gates, as many as results.
    pub(crate) gate: Option<Value>,
    pub(crate) out: Value,
    pub(crate) spread: Option<Spread>,
    pub(crate) scale: Value,
    pub(crate) rows: Option<Value>,
}

/// Arguments of splits that are spread over workgroups.
pub(crate) struct Spread {
    pub(crate) counters: Value,
    /// Partial results.
    pub(crate) partials: Value,
    /// Splits for which there is space.
    pub(crate) splits: Value,
}

/// The workgroup's heads of a row.
pub(crate) struct RowHeads {
    pub(crate) row: Value,
    /// Number of the workgroup in the row.
    pub(crate) number: Value,
    /// Heads of earlier rows.
    pub(crate) heads_before: Value,
    /// The workgroup's first head in the row.
    pub(crate) first_head: Value,
    /// The group's last head in the row.
    pub(crate) last_head: Value,
    pub(crate) slots: Vec<MergeSlot>,
}

/// An element of the workgroup's heads that a work item merges.
pub(crate) struct MergeSlot {
    /// Its number; the last one's is repeated.
    pub(crate) element: Value,
    /// True if it is one.
    pub(crate) used: Value,
    /// Its head in the workgroup.
    pub(crate) head: Value,
}
