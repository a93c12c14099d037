//! The command processor: runs rings of packets, as firmware does.
//!
//! AQL packets, PM4 indirect buffers and SDMA words. Not here: creating queues (`kernel`), running a dispatch
//! (`processor`).

mod aql;
mod command_processor;
mod pm4;
mod queue;
mod run_queue;
mod sdma;

pub use command_processor::{CommandProcessor, Notice};
pub use queue::{Queue, QueueKind};
