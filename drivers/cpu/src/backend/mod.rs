//! Executes plans on a team of threads. What an operation means is `doorbell_core::reference`'s to say.
//!
//! A step is one job of the pool: every thread walks the plan, and an operation is one or a few phases whose tasks the
//! threads share out. Within a phase a cell of a shared buffer is written by one task only and read by none of the
//! others; between phases there is a barrier. Few rows are normalized and quantized by every thread for itself, which
//! is cheaper than a barrier, so that a dense layer of one row has five: after query/key/value, attention, output,
//! gate/up and down.

mod attention;
mod driver;
mod error;
mod head;
mod local;
mod moe;
mod project;
mod shared;
mod sizes;
mod step;

pub use driver::CpuBackend;
pub use error::CpuError;
