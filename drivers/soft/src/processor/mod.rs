//! The processor: waves, workgroups and dispatches of RDNA machine code.
//!
//! Not here: packets and queues (`command`), the kernel's calls (`kernel`), file formats (`code`).

mod cache;
mod check;
mod unit;
mod dispatch;
mod fault;
mod float;
mod group;
mod memory_ops;
mod meter;
mod mode;
mod model;
mod ordering;
mod parallel;
mod program;
mod reach;
mod scalar;
mod scalar_hazard;
mod step;
mod tracker;
mod trap;
mod undefined;
mod vector;
mod watch;
mod wave;

pub use check::{Finding, Kind as FindingKind, Party};
pub use dispatch::{Dispatch, Engine, Level, Lists, Options, Report};
pub use fault::{Cause, Fault};
pub use meter::{Profile, Traffic};
pub use model::{Model, Modelled};
pub use program::supports;
pub use trap::{Message, Trap};
