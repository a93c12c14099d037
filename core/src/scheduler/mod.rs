//! Decides which sequences get KV pages and which of their rows are in the next step.
//!
//! The scheduler owns sequences, page pools and pacing. [`Scheduler::schedule`] returns the next [`StepBatch`]. The caller
//! runs it and reports back with [`Scheduler::register_computed`], [`Sequence::append`] and [`Scheduler::remove`].
//! Not here: plans, devices, clocks and sampling ([`crate::engine`]).

mod admission;
mod batch;
mod config;
mod pacing;
mod preemption;
#[expect(clippy::module_inception, reason = "the file of the type that the module is named for")]
mod scheduler;
mod sequence;

pub use batch::{StepBatch, StepKind};
pub use config::Config;
pub(crate) use config::window_pages;
pub use pacing::Pacing;
pub use scheduler::Scheduler;
pub use sequence::{NewSequence, RequestId, Sequence};
