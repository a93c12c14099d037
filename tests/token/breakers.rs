//! DRY sequence breakers, compared with llama.cpp: `goldens/sample/breakers.cpp`.

use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::quant::Type;
use doorbell_core::sample::{DryBreakers, Sampler, SamplerParams, SamplerScope, Scratch};
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use doorbell_tests::tiny::{self, Family, Shape};
use std::collections::BTreeMap;

const HEAP: Heap<'static> = &Global;

/// Tokens and their penalties, from the probabilities of candidates whose logits were equal.
fn penalized(scratch: &Scratch<'_>) -> BTreeMap<u32, f32> {
    let highest = scratch.survivors().iter().fold(0.0_f32, |highest, c| highest.max(c.probability));
    let amounts = scratch.survivors().iter().map(|c| (c.token.0, -c.logit, c.probability));
    amounts.filter(|&(_, _, p)| p < highest).map(|(token, amount, _)| (token, amount)).collect()
}

#[test]
fn texts_end_repetitions_where_llama_cpp_ends_them() {
    let files = [("qwen2", Family::Qwen2), ("gemma3", Family::Gemma3)]
        .map(|(name, family)| (name, tiny::model(family, Shape::NARROW, Type::F32, 1).to_bytes()));
    let mut params = SamplerParams { temperature: 1.0, ..SamplerParams::greedy() };
    params.dry.multiplier = 1.0;
    let mut spared = 0;
    let mut cases = 0;
    for (name, file) in &files {
        let gguf = Gguf::parse(file, HEAP).unwrap();
        let tokenizer = Tokenizer::new(&gguf, HEAP).unwrap();
        let vocab_len = tokenizer.vocab_len();
        let mut scratch = Scratch::new(vocab_len, HEAP).unwrap();
        let lines = include_str!("../goldens/sample/breakers.txt").lines();
        for line in lines.filter(|line| line.starts_with(name)) {
            let parts: Vec<Vec<&str>> =
                line.split('|').map(|part| part.split_whitespace().collect()).collect();
            let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap();
            let text =
                |hex: &&str| (0..hex.len()).step_by(2).map(|at| byte(&hex[at..at + 2])).collect::<Vec<_>>();
            let breakers = DryBreakers::of_texts(parts[1].iter().map(text), &tokenizer, HEAP).unwrap();
            let mut pick = |breakers: Option<&DryBreakers<'_>>| {
                let scope = SamplerScope { request: 0, vocab_len, context_len: 4096, breakers };
                let mut sampler = Sampler::new(&params, &[], scope, HEAP).unwrap();
                parts[2].iter().for_each(|token| sampler.accept(TokenId(token.parse().unwrap())));
                sampler.sample(&vec![0.0; vocab_len], 0, None, &mut scratch).unwrap();
                penalized(&scratch)
            };
            let found = pick(Some(&breakers));
            let expected: BTreeMap<u32, f32> = parts[3]
                .iter()
                .map(|pair| pair.split_once(':').unwrap())
                .map(|(token, amount)| (token.parse().unwrap(), amount.parse().unwrap()))
                .collect();
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{line}");
            for (token, amount) in &expected {
                let ratio = found[token] / amount;
                assert!((ratio - 1.0).abs() < 1e-5, "{line}: {token} {ratio}");
            }
            spared += usize::from(pick(None) != found);
            cases += 1;
        }
    }
    assert_eq!(cases, 112);
    // breakers change the result in many of them
    assert!(spared > cases / 4, "{spared}");
}

/// A text that no token has, and the empty text, are no breakers.
#[test]
fn no_text_is_no_breaker() {
    let file = tiny::f32_model(Family::Qwen2, 1);
    let gguf = Gguf::parse(&file, HEAP).unwrap();
    let tokenizer = Tokenizer::new(&gguf, HEAP).unwrap();
    for texts in [&[][..], &[""], &["", ""]] {
        assert_eq!(DryBreakers::of_texts(texts, &tokenizer, HEAP).unwrap().bytes(), 0);
    }
    let once = DryBreakers::of_texts(["the"], &tokenizer, HEAP).unwrap();
    assert!(once.bytes() > 0);
    assert_eq!(once.copied(HEAP).unwrap().bytes(), once.bytes());
}

/// Bytes of one character can be tokens of their own; the text is found all the same.
#[test]
fn characters_in_pieces_are_breakers() {
    let file = tiny::f32_model(Family::Qwen2, 1);
    let gguf = Gguf::parse(&file, HEAP).unwrap();
    let tokenizer = Tokenizer::new(&gguf, HEAP).unwrap();
    let vocab_len = tokenizer.vocab_len();
    let breakers = DryBreakers::of_texts(["\u{e9}t\u{e9}"], &tokenizer, HEAP).unwrap();
    let mut seen = doorbell_core::heap::Vec::new_in(HEAP);
    tokenizer.encode("the x\u{e9}t\u{e9} the x", EncodeOptions::default(), &mut seen).unwrap();
    let mut params = SamplerParams { temperature: 1.0, ..SamplerParams::greedy() };
    (params.dry.multiplier, params.dry.allowed_length) = (1.0, 1);
    let mut scratch = Scratch::new(vocab_len, HEAP).unwrap();
    let mut pick = |breakers, count| {
        let scope = SamplerScope { request: 0, vocab_len, context_len: 4096, breakers };
        let mut sampler = Sampler::new(&params, &[], scope, HEAP).unwrap();
        seen[..count].iter().for_each(|&token| sampler.accept(token));
        sampler.sample(&vec![0.0; vocab_len], 0, None, &mut scratch).unwrap();
        penalized(&scratch).len()
    };
    // directly after the text, its second half has just been repeated
    let behind = seen.iter().rposition(|token| token.0 == 169).unwrap() + 1;
    assert_eq!((pick(None, behind), pick(Some(&breakers), behind)), (1, 0));
}
