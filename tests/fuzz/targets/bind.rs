//! libFuzzer's target `bind`: the bytes select changes of a valid model file. The checks are in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::bind(bytes));
