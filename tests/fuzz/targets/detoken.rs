//! libFuzzer's target `detoken`: two bytes of choice, then tokens. The checks are in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::detoken(bytes));
