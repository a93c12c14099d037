//! The command processor: what firmware does with rings of packets.
//!
//! AQL packets, PM4 indirect buffers and SDMA words. Not here: who creates queues (`kernel`), what a dispatch does
//! (`processor`).

mod aql;
mod engine;
mod pm4;
mod queue;
mod sdma;

pub use engine::{CommandProcessor, Notice};
pub use queue::{Queue, QueueKind};
