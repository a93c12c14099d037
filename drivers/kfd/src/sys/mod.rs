//! The line between this crate and the kernel: ABI structs, request numbers, system calls, mapped memory.
//!
//! The only `unsafe` code of the crate. Policy (which buffer, which flags, which order) is not here.
#![expect(unsafe_code, reason = "system calls and memory shared with devices")]

mod abi;
mod bus_error;
mod call;
mod errno;
mod kernel;
mod linux;
pub mod request;
mod retry;
mod shared;
mod window;

pub use abi::*;
pub use bus_error::BusGuard;
pub(crate) use call::call_devices;
pub use call::{Arg, call, call_pointed};
pub use errno::Errno;
pub use kernel::{Fd, Kernel, Stat};
pub use linux::Linux;
pub use request::{PointerField, Request};
pub use shared::Shared;
pub use window::{MapAddress, Span, Window, store_fence};
