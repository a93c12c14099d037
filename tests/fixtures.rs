//! The fixtures, checked with core: random blocks have the given deviation, split files the logits of whole ones.
//!
//! Core and the fixtures share no code, so where they agree, both follow the format.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::backend::KvType;
use doorbell_core::engine::score;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::quant;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family, Shape};
use doorbell_tests::{blocks, vocabulary};

const HEAP: Heap<'static> = &Global;

#[test]
fn random_blocks_have_mean_zero_and_the_given_deviation() {
    const ELEMENTS: usize = 65_536;
    let mut random = Random::new(9);
    for ty in blocks::TYPES {
        for std in [0.02, 0.5] {
            let mut data = vec![0; ty.row_bytes(ELEMENTS).unwrap()];
            blocks::fill(ty, std, &mut random, &mut data);
            let mut values = vec![0.0; ELEMENTS];
            quant::dequantize(ty, &data, &mut values).unwrap();
            let mean = values.iter().sum::<f32>() / ELEMENTS as f32;
            let rms = (values.iter().map(|x| x * x).sum::<f32>() / ELEMENTS as f32).sqrt();
            // MXFP4 has powers of two for scales, so it can miss by the square root of two.
            let slack = if ty == quant::Type::MXFP4 { 1.45 } else { 1.05 };
            assert!(mean.abs() < std / 20.0, "{ty} {std}: mean {mean}");
            assert!(rms < std * slack && rms > std / slack, "{ty} {std}: deviation {rms}");
        }
    }
}

fn logits(model: &Model<'_>) -> Vec<f32> {
    let mut backend = Reference::new(model, 1, KvType::F16, Products::Exact, HEAP).unwrap();
    let tokens = [5, 17, 300].map(TokenId);
    let mut logits = Vec::new();
    score(model, &mut backend, &tokens, HEAP, &mut || (), &mut |_, row| logits.extend_from_slice(row))
        .unwrap();
    logits
}

#[test]
fn split_files_compute_what_whole_files_compute() {
    for (family, parts) in [(Family::Llama, 2), (Family::Qwen3Moe, 3), (Family::Gemma3, 5)] {
        let file = tiny::model(family, Shape::NARROW, quant::Type::Q8_0, 4);
        let whole = file.to_bytes();
        let whole =
            Model::new(&Gguf::parse(&whole, HEAP).unwrap(), HEAP).map(|model| logits(&model)).unwrap();
        let parts = file.to_parts(parts);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let gguf = Gguf::parse_split(&parts, HEAP).unwrap();
        assert_eq!(logits(&Model::new(&gguf, HEAP).unwrap()), whole, "{family:?}");
    }
}

#[test]
fn every_quantized_family_computes_finite_logits() {
    for ty in blocks::TYPES {
        for family in Family::ALL {
            let bytes = tiny::model(family, Shape::WIDE, ty, 5).to_bytes();
            let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
            let logits = logits(&model);
            assert!(logits.iter().all(|x| x.is_finite()), "{family:?} {ty}");
            assert!(logits.iter().any(|x| x.abs() > 0.1), "{family:?} {ty}");
        }
    }
}

/// The first merges of llama.cpp for these vocabularies are kept with the ids that llama-tokenize gave.
#[test]
fn small_vocabularies_encode_as_llama_cpp_does() {
    let text = "Hello, the world of water";
    let bpe = [72, 101, 108, 108, 111, 44, 258, 304, 108, 100, 260, 435];
    let spm = [1, 298, 327, 334, 334, 337, 270, 356, 402, 334, 326, 358, 370, 342, 327, 340];
    for (family, expected) in [(Family::Llama, &bpe[..]), (Family::Qwen2, &bpe), (Family::Gemma3, &spm)] {
        let bytes = tiny::f32_model(family, 1);
        let gguf = Gguf::parse(&bytes, HEAP).unwrap();
        let tokenizer = Tokenizer::new(&gguf, HEAP).unwrap();
        assert_eq!(tokenizer.vocab_len(), vocabulary::spm(512).tokens.len());
        let mut ids = doorbell_core::heap::Vec::new_in(HEAP);
        let options = EncodeOptions { add_special: true, parse_special: false };
        tokenizer.encode(text.as_bytes(), options, &mut ids).unwrap();
        assert_eq!(ids.iter().map(|id| id.0).collect::<Vec<_>>(), expected, "{family:?}");
    }
}
