//! Kernels that take rows as they are: embedding, selection, norm, largest logit.

pub(crate) mod argmax;
pub(crate) mod embed;
pub(crate) mod launch;
pub(crate) mod norm;
