//! The seam between core and its drivers: who executes plans, and what comes back.

use crate::plan::{Batch, Op, Plan};
use crate::token::TokenId;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// Half precision.
    #[default]
    F16,
    /// Single precision.
    F32,
}

impl KvType {
    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// What one step delivers, one entry per output row of the batch.
#[derive(Clone, Copy, Debug)]
pub enum Output<'b> {
    /// `[outputs, vocab]`
    Logits(&'b [f32]),
    /// `[outputs]`
    Tokens(&'b [TokenId]),
    /// `[outputs, width]`
    Hidden(&'b [f32]),
}

/// Executes plans of one model; owns the KV pools and the activation arena.
///
/// One step is in flight at a time. Pages are the caller's to hand out; what was written to a page stays until it
/// is written again.
pub trait Backend {
    /// What can go wrong; the backend stays usable unless its documentation says otherwise.
    type Error: core::error::Error;

    /// Whether the device runs this operation itself.
    fn supports(&self, op: &Op) -> bool;

    /// Takes all memory that steps of this plan will need, so that running out shows before there are requests.
    ///
    /// # Errors
    /// No room. The backend stays usable for plans that it has room for.
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), Self::Error> {
        let _ = plan;
        Ok(())
    }

    /// Starts a step. A blocking backend runs it here.
    ///
    /// # Errors
    /// A batch that breaks a rule of [`Batch::check`], or a fault of the device. No step is in flight then.
    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), Self::Error>;

    /// The result of the step in flight; `None` while it runs. Never blocks.
    ///
    /// # Errors
    /// A fault of the device. No step is in flight then.
    fn poll(&mut self) -> Result<Option<Output<'_>>, Self::Error>;
}
