//! libFuzzer's target `bind`: the bytes say how a good model file is changed. What is checked is in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::bind(bytes));
