//! Plans as packets on a KFD queue, on a real GPU or a software one.
//!
//! A plan's operations are lowered by the kernel library, recorded once per size of batch and run again by one
//! doorbell a step. What the library has no kernel for runs on the host with copies at the border. Not here: what
//! kernels compute (`doorbell-kernels`), how the kernel driver is spoken to (`doorbell-kfd`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod card;
mod check;
pub mod chip;
mod convert;
mod driver;
mod error;
mod fallback;
mod host;
mod input;
mod needs;
mod place;
mod programs;
mod record;
mod store;
pub mod survey;

pub use card::Delay;
pub use check::{Verdicts, Wrong};
pub use convert::{Conversion, Conversions};
pub use doorbell_kfd::packet::Encoding;
pub use driver::{GpuBackend, Settings, Timing, Unlisted};
pub use error::GpuError;
pub use fallback::{Fallback, FallbackError, Offload};
pub use needs::{Needs, Shortage};
pub use place::{Division, Placement, Split, layers};
