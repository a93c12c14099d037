//! libFuzzer's target `gguf`: the bytes are a model file. The checks are in `doorbell_tests::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| doorbell_tests::hostile::gguf(bytes));
