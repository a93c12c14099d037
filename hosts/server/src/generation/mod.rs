//! One generation, whatever protocol asked for it.

mod generation;

pub(crate) use generation::*;
