//! The processor: waves, workgroups and dispatches of RDNA machine code.
//!
//! Not here: packets and queues (`command`), the kernel's calls (`kernel`), file formats (`code`).

mod check;
mod unit;
mod dispatch;
mod fault;
mod float;
mod group;
mod memory_ops;
mod mode;
mod parallel;
mod program;
mod reach;
mod scalar;
mod step;
mod tracker;
mod undefined;
mod vector;
mod watch;
mod wave;

pub use check::{Finding, Kind as FindingKind};
pub use dispatch::{Dispatch, Engine, Level, Options, Report};
pub use fault::{Cause, Fault};
pub use program::supports;
