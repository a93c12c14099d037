//! The kernel's side of KFD: files, ioctls with their error numbers, events, memory, queues, by kernel version.
//!
//! Not here: packets (`command`), the driver (doorbell-kfd).

mod calls;
mod events;
mod exceptions;
mod files;
mod host;
mod inject;
mod machine;
mod queues;
mod ranges;
mod soft;

pub use crate::chips::{CHIPS, Chip, Rates, SaveArea, chip};
pub use inject::Injection;
pub use machine::{Gpu, Machine, Release};
pub use soft::SoftKernel;
