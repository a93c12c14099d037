//! The backend on a device. Hosts use it without the drivers' types.
//!
//! Not here: the choice of the device (`crate::device`).

mod any;
mod error;
mod gpu;
mod open;

pub use any::AnyBackend;
pub use doorbell_cpu::bandwidth::read_bandwidth;
pub use doorbell_gpu::estimate::{DispatchEstimate, OpEstimate, PlanEstimate};
pub use doorbell_gpu::{Encoding, Timing, layers};
pub use error::BackendError;
pub(crate) use gpu::{Sleeper, open_gpu, software_machine, software_options};
pub use open::{BackendConfig, estimate, open_backend, scratch_bytes};
