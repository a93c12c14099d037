//! A library to preload: unmodified programs find the software GPU behind `/dev/kfd`, `/dev/dri` and sysfs.
//!
//! What the environment sets is in `settings.rs`. Nothing here knows what the kernel or the GPU answers: that is
//! doorbell-soft.
#![expect(unsafe_code, reason = "stands in for functions of libc and libdrm")]

extern crate alloc;

mod calls;
mod card;
mod files;
mod hooks;
mod report;
mod settings;
mod tree;
mod user_memory;
