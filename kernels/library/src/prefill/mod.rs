//! Matrix products of many rows on WMMA: activations rounded to f16 once, weights unpacked to f16 tiles in LDS.
//!
//! Not here: products of few rows (`product`), which keep activations in f32.

mod combine;
mod gemm;
mod group;
mod grouped;
mod halve;
mod launch;
mod stage;
mod tile;

pub use combine::Combine;
pub use gemm::Gemm;
pub use group::Group;
pub use grouped::Grouped;
pub use halve::Halve;
pub(crate) use launch::{experts, experts_bytes, project, scratch_bytes};
