//! Tensor types and their block formats: one file per format, scalar code only.
//!
//! These are the reference for every faster implementation: dot products keep their integer sums exact and
//! add them up in f64, so that a SIMD kernel can be compared sum by sum. Interleaved layouts, SIMD and
//! threads are the drivers' matter; how a file declares types is [`crate::gguf`]'s.

mod activation;
mod block;
mod codes;
mod dispatch;
mod error;
mod expand;
mod grids;
mod lattice;
mod quantize;
mod scalar;
mod tensor_type;

pub mod float;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod nvfp4;
pub mod q1_0;
pub mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
pub mod q8_1;
pub mod q8_k;
pub mod tq1_0;
pub mod tq2_0;

pub use activation::{Activation, ActivationBlock};
pub use block::{Block, IntegerDot, Partials};
pub use dispatch::{dequantize, dot, expand, partials};
pub use error::{Buffer, QuantError};
pub use expand::{Expand, Expanded};
pub use scalar::{Half, exponent_half};
pub use tensor_type::Type;
