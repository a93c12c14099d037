//! The devices of this machine and the findings about its GPUs: the data of `doorbell devices` and `doorbell doctor`.
//!
//! It only reads; no device is bound to this process. Not here: the choice of the device for a model ([`crate::device`]).

mod devices;
mod diagnosis;
mod kernel_log;
mod read;
mod size;

pub use devices::{DeviceDescription, DeviceList};
pub use diagnosis::{Diagnosis, Verdict};
pub use kernel_log::kernel_log;
pub use read::{Host, Machine, MachineError, ModelFootprint};
