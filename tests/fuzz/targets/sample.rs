//! libFuzzer's target `sample`: parameters, tokens of the past, logits. The checks are in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::sample(bytes));
