//! Products of few rows: activations stay in f32 or in two 8-bit terms, weights are read once for up to eight rows.

pub(crate) mod activations;
pub(crate) mod completion;
pub(crate) mod epilogue;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod product;
pub(crate) mod spec;
