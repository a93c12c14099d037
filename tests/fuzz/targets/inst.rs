//! libFuzzer's target `inst`: the bytes are instructions. The checks are in `tests/soft/hostile.rs`.
#![no_main]

#[path = "../../soft/hostile.rs"]
#[allow(dead_code, reason = "each target uses one function")]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::inst(bytes));
