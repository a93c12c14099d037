//! Memory that the software GPU sees: the GPU's address space and the local data share.
//!
//! Not here: accesses of instructions (`processor`), allocation (`kernel`).

mod random;
mod shadow;
mod simd;
mod space;

pub use random::Random;
pub(crate) use shadow::Shadow;
pub(crate) use simd::Simd;
pub use space::{Access, MemoryFault, Region, Space};
