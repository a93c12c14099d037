//! Operations that the device does not run, run on the host between submissions: the values that they read are copied
//! out of device memory, computed, and copied back.

mod device_kv;
mod lent;
mod memory;
mod run;

pub(crate) use lent::Border;
pub use lent::{BoxedCpuFallback, CpuFallback, CpuFallbackError};
pub(crate) use memory::{Memory, read_words};
pub(crate) use run::Host;
