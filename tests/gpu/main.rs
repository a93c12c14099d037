//! The GPU backend on the software GPU: the same tokens as the CPU's, one operation at a time, admission, faults.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod admission;
mod bench;
mod chain;
mod company;
mod faults;
mod head;
mod kernel_check;
mod pm4_lists;
mod states;
mod cpu_fallback;
mod operations;
mod tokens;

/// The hosts' way to the CPU driver, without the hosts.
#[path = "../../hosts/runtime/src/cpu_fallback.rs"]
mod cpu_driver;
