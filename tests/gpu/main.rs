//! The GPU backend on the software GPU: the same tokens as the CPU's, one operation at a time, admission, faults.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod admission;
mod bench;
mod faults;
mod operations;
mod tokens;
