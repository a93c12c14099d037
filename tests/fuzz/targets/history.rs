//! libFuzzer's target `history`: bytes that choose a conversation. The checks are in the driver of `hosts/runtime/tests`.
#![no_main]

#[path = "../../../hosts/runtime/tests/driver/history.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    driver::history(bytes);
});
