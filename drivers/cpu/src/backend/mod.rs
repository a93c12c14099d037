//! Executes plans on a team of threads. The meaning of each operation is defined by `doorbell_core::reference`.
//!
//! A step is one job of the pool: every thread walks the plan, and an operation is one or a few phases whose tasks the
//! threads share out. `crate::phase` sees to it that within a phase a cell of shared memory is written by one task only
//! and read by none of the others; between phases there is a barrier. Few rows are normalized and quantized by every
//! thread for itself, which is cheaper than a barrier, so that a dense layer of one row has five: after query/key/value,
//! attention, output, gate/up and down.

mod attention;
mod context;
mod delta_net;
mod driver;
mod error;
mod head;
mod inputs;
mod local;
mod moe;
mod project;
mod rotate;
mod sizes;
mod states;
mod step;

pub use driver::CpuBackend;
pub use error::CpuError;
