//! A library to preload: unmodified programs find the software GPU behind `/dev/kfd`, `/dev/dri` and sysfs.
//!
//! `settings.rs` lists the environment variables. Calls of a client go from `hooks` through `calls.rs` to the software
//! kernel in `soft_gpu.rs`. Not here: the results of calls (doorbell-soft).
#![expect(unsafe_code, reason = "stands in for functions of libc and libdrm")]

extern crate alloc;

mod calls;
mod files;
mod hooks;
mod report;
mod settings;
mod soft_gpu;
mod tree;
mod user_memory;
