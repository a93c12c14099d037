//! Tensor types and their block formats: one file per format, scalar code only.

mod kind;

pub use kind::Type;
