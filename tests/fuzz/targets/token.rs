//! libFuzzer's target `token`: two bytes of choice, then text. The checks are in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::token(bytes));
