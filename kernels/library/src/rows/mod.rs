//! Kernels that take rows as they are: embedding, selection, norm, largest logit, copies.

pub(crate) mod argmax;
pub(crate) mod copy;
pub(crate) mod embed;
pub(crate) mod launch;
pub(crate) mod norm;
