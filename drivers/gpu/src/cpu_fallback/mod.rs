//! The CPU fallback: operations that the device does not run are run on the host, between submissions. Their operands
//! are copied out of device memory and their results back.
//!
//! Two implementations compute them: a [`CpuFallback`] that the caller lends (the CPU driver, which keeps keys and
//! values of its own), and without one core's reference interpreter, with keys and values in device memory. The
//! interpreter is also what kernels are checked against.

mod device_kv;
mod interface;
mod reference;
mod step_memory;

pub(crate) use device_kv::DeviceKv;
pub use interface::{BoxedCpuFallback, CpuFallback, CpuFallbackError};
pub(crate) use reference::ReferenceFallback;
pub(crate) use step_memory::{StepMemory, read_words};
