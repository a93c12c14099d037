//! Matrix products of many rows on WMMA: activations rounded to f16 or to codes of eight bits once, weights unpacked to
//! tiles of the same in LDS.
//!
//! Not here: products of few rows (`product`), which keep activations in f32.

mod codes;
mod combine;
mod gemm;
mod group;
mod grouped;
mod halve;
mod halves;
mod launch;
mod multiply;
mod path;
mod quantize;
mod sink;
mod stage;
mod tile;

pub use combine::Combine;
pub use gemm::Gemm;
pub use group::Group;
pub use grouped::Grouped;
pub use halve::Halve;
pub(crate) use launch::{experts, experts_bytes, project, scratch_bytes};
pub(crate) use path::Choice;
pub use path::Path;
pub use quantize::Quantize;
