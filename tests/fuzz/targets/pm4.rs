//! libFuzzer's target `pm4`: the bytes are a ring and what it points at. The checks are in `tests/soft/hostile.rs`.
#![no_main]

#[path = "../../soft/hostile.rs"]
#[allow(dead_code, reason = "each target uses one function")]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::pm4(bytes));
