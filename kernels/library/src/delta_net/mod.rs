//! Gated delta nets: short convolution, gates, recurrence and gated norm of a layer in one dispatch; of sequences with
//! several rows another one keeps their last inputs.

pub(crate) mod chunk;
pub(crate) mod context;
pub(crate) mod convolution;
pub(crate) mod keep;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod recurrence;
pub(crate) mod spec;
