//! The command processor: what firmware does with rings of packets.
//!
//! AQL packets, PM4 indirect buffers and SDMA words. Not here: who creates queues (`kernel`), what a dispatch does
//! (`processor`).

mod aql;
mod command_processor;
mod pm4;
mod queue;
mod run_queue;
mod sdma;

pub use command_processor::{CommandProcessor, Notice};
pub use queue::{Queue, QueueKind};
