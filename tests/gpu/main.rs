//! The GPU backend on the software GPU: the same tokens as the CPU's, one operation at a time, admission, faults.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod admission;
mod bench;
mod chain;
mod company;
mod faults;
mod head;
mod known;
mod lists;
mod offload;
mod operations;
mod tokens;

/// The hosts' way to the CPU driver, without the hosts.
#[path = "../../hosts/runtime/src/offload.rs"]
mod on_cpu;
