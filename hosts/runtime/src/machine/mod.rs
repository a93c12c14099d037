//! What this machine can compute with, and what keeps a GPU from it: the data of `doorbell devices` and `doctor`.
//!
//! Reading only; no device is bound to this process. Which device then runs a model is [`crate::device`]'s matter.

mod devices;
mod diagnosis;
mod kernel_log;
mod read;
mod size;

pub use devices::{Description, Devices};
pub use diagnosis::{Diagnosis, Verdict};
pub use kernel_log::kernel_log;
pub use read::{Host, Machine, MachineError, Wanted};
