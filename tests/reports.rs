//! Bugs that were reported for other engines, as tests of model files, tokenizers and numerics.
//!
//! `docs/known-bugs.md` lists all reports with their tests. Reports about the reader alone are in `core/tests/gguf`,
//! those about text in `tests/token/reports.rs`, those about the server in `tests/server/reports.rs`.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::backend::{KvError, KvType};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, GenerationParams, Nanos, Progress, Request, RequestId, score,
};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::model::{Model, ModelError};
use doorbell_core::plan::{Attend, Gating, GroupId, KvSlot, Matrix, PlanError, Route, TensorId, WeightId};
use doorbell_core::quant::{self, Activation, Type};
use doorbell_core::reference::{
    AttendBuffers, Cache, Cached, Heads, Products, Reference, ReferenceError, attend_row, route_row,
};
use doorbell_core::sample::{SampleError, Sampler, SamplerParams, SamplerScope, Scratch};
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer, TokenizerError};
use doorbell_cpu::backend::{CpuBackend, CpuError};
use doorbell_tests::blocks;
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family, Shape};
use doorbell_tests::vocabulary;

const HEAP: Heap<'static> = &Global;

fn with_model<T>(file: &GgufFile, check: impl FnOnce(Result<Model<'_>, ModelError>) -> T) -> T {
    let bytes = file.to_bytes();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    check(Model::new(&gguf, HEAP))
}

fn set(file: &mut GgufFile, key: &str, value: Option<Value>) {
    file.metadata.retain(|(known, _)| known != key.as_bytes());
    if let Some(value) = value {
        file.meta(key, value);
    }
}

/// Runs `check` with the tokenizer of a BPE vocabulary of 300 tokens, after some changes.
fn with_vocabulary<T>(
    changes: &[(&str, Option<Value>)],
    check: impl FnOnce(Result<Tokenizer<'_>, TokenizerError>) -> T,
) -> T {
    let mut file = GgufFile::new();
    for (key, value) in vocabulary::bpe(300, "qwen2").metadata {
        file.meta(key, value);
    }
    for (key, value) in changes {
        set(&mut file, &format!("tokenizer.ggml.{key}"), value.clone());
    }
    let bytes = file.to_bytes();
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    check(Tokenizer::new(&gguf, HEAP))
}

/// llama.cpp#24885.
#[test]
fn the_last_of_two_equal_tokens_is_found() {
    let mut tokens = vocabulary::bpe(300, "qwen2").tokens;
    tokens[280] = tokens[65].clone();
    with_vocabulary(&[("tokens", Some(Value::strings(&tokens)))], |tokenizer| {
        let tokenizer = tokenizer.unwrap();
        assert_eq!(tokenizer.find(tokens[65].as_bytes()), Some(TokenId(280)));
        let mut out = heap::Vec::new_in(HEAP);
        tokenizer.encode("a b c", EncodeOptions::default(), &mut out).unwrap();
    });
}

/// llama.cpp#24885.
#[test]
fn a_required_bos_that_is_missing_is_refused() {
    let changes = [
        ("add_bos_token", Some(Value::Bool(true))),
        ("bos_token_id", None),
        ("eos_token_id", None),
        ("tokens", Some(Value::strings(["a", "b"]))),
        ("token_type", None),
        ("merges", Some(Value::strings::<&str>([]))),
    ];
    with_vocabulary(&changes, |tokenizer| {
        let error = tokenizer.unwrap_err();
        let wanted_by = "tokenizer.ggml.add_bos_token";
        let key = "tokenizer.ggml.bos_token_id";
        assert_eq!(error, TokenizerError::NoToken { wanted_by, key });
    });
    // if it is not required, texts begin without it
    let plain = [changes.as_slice(), &[("add_bos_token", None)]].concat();
    with_vocabulary(&plain, |tokenizer| {
        let tokenizer = tokenizer.unwrap();
        let mut out = heap::Vec::new_in(HEAP);
        let options = EncodeOptions { add_special: true, parse_special: true };
        tokenizer.encode("ab", options, &mut out).unwrap();
        assert_eq!(*out, [TokenId(0), TokenId(1)]);
    });
}

/// mistral.rs PR #2282.
#[test]
fn an_end_token_beyond_the_vocabulary_is_refused() {
    let changes = [
        ("tokens", Some(Value::strings(["a"]))),
        ("token_type", None),
        ("merges", Some(Value::strings::<&str>([]))),
        ("bos_token_id", None),
        ("eos_token_id", Some(Value::U32(u32::MAX))),
    ];
    with_vocabulary(&changes, |tokenizer| {
        let (key, found) = ("tokenizer.ggml.eos_token_id", u32::MAX.into());
        assert_eq!(tokenizer.unwrap_err(), TokenizerError::Beyond { key, found, vocab_len: 1 });
    });
}

/// llama.cpp PR #20735.
#[test]
fn lists_shorter_than_the_vocabulary_are_refused() {
    let short = [("token_type", Value::i32s([1; 299])), ("scores", Value::f32s([0.0; 2]))];
    for (key, value) in short {
        with_vocabulary(&[(key, Some(value))], |tokenizer| {
            let error = tokenizer.unwrap_err();
            assert!(matches!(error, TokenizerError::TooShort { expected: 300, .. }), "{error}");
            assert!(error.to_string().contains(key), "{error}");
        });
    }
}

/// llama.cpp PR #25821, llama.cpp#26051.
#[test]
fn zero_or_too_many_layers_are_refused() {
    for layers in [0, 513, u32::MAX] {
        let mut file = tiny::model(Family::Llama, Shape::TINY, Type::F32, 1);
        set(&mut file, "llama.block_count", Some(Value::U32(layers)));
        with_model(&file, |model| {
            let error = model.unwrap_err();
            assert!(matches!(&error, ModelError::Value { key, .. } if key == "llama.block_count"), "{error}");
        });
    }
}

/// tinygrad#17659.
#[test]
fn a_missing_pre_tokenizer_is_the_default_one() {
    for pre in [None, Some("".into()), Some("default".into())] {
        with_vocabulary(&[("pre", pre)], |tokenizer| {
            assert_eq!(tokenizer.unwrap().pre_name(), Some("default"));
        });
    }
}

/// mistral.rs PR #2425; llama.cpp#17578, qwen38-27b-rtx3090 PR #43.
#[test]
fn an_unknown_or_missing_architecture_is_an_error() {
    for (name, expected) in [
        (Some(Value::from("mamba9")), "\"mamba9\" is not supported; supported are llama"),
        (None, "no text key general.architecture"),
        (Some(Value::U32(1)), "general.architecture"),
    ] {
        let mut file = tiny::model(Family::Llama, Shape::TINY, Type::F32, 1);
        set(&mut file, "general.architecture", name);
        with_model(&file, |model| {
            let error = model.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        });
    }
}

/// llama.cpp#6703.
#[test]
fn heads_of_any_width_can_be_cached() {
    let shape = Shape { hidden: 60, head_dim: 20, heads: 3, ..Shape::TINY };
    for kv in [KvType::F16, KvType::F32] {
        with_model(&tiny::model(Family::Qwen3, shape, Type::F32, 1), |model| {
            let logits = scores(&model.unwrap(), &[TokenId(1), TokenId(2), TokenId(3)], kv);
            assert!(logits.iter().all(|logit| logit.is_finite()));
        });
    }
    with_model(&tiny::model(Family::Qwen3, shape, Type::F32, 1), |model| {
        let model = model.unwrap();
        let refused = KvError { kv: KvType::Q8_0, dim: 20 };
        let reference = Reference::new(&model, 1, KvType::Q8_0, Products::Exact, HEAP);
        assert_eq!(reference.err(), Some(ReferenceError::Kv(refused)));
        let cpu = CpuBackend::new(&model, 1, KvType::Q8_0, 1, HEAP);
        assert_eq!(cpu.err(), Some(CpuError::Kv(refused)));
        let memory = Config::new(64, 1, 32).memory(&model, KvType::Q8_0, HEAP);
        assert_eq!(memory.err(), Some(PlanError::Kv(refused)));
        assert_eq!(
            refused.to_string(),
            "heads of 20 elements are not blocks of 32, in which q8_0 keeps them; use f16"
        );
    });
}

/// LM Studio#2289.
#[test]
fn other_kinds_of_files_obey_the_same_rules() {
    let mut file = GgufFile::new();
    file.meta("general.architecture", "clip".into());
    file.meta("clip.vision.image_size", Value::U32(u32::MAX));
    file.tensor_f32("v.patch_embd.weight", &[4, 4], &[0.0; 16]);
    with_model(&file, |model| {
        let error = model.unwrap_err();
        assert!(matches!(error, ModelError::UnknownArchitecture(_)), "{error}");
    });
    let whole = file.to_bytes();
    assert!((0..whole.len()).all(|len| Gguf::parse(&whole[..len], HEAP).is_err()));
}

/// Logits after every token.
fn scores(model: &Model<'_>, tokens: &[TokenId], kv: KvType) -> Vec<f32> {
    let pages = tokens.len().div_ceil(32) as u32;
    let mut backend = Reference::new(model, pages, kv, Products::Quantized, HEAP).unwrap();
    let mut all = Vec::new();
    score(model, &mut backend, tokens, HEAP, &mut || (), &mut |_, row| all.extend_from_slice(row)).unwrap();
    all
}

/// llama.cpp PR #21652, ik_llama.cpp PR #1659, ik_llama.cpp#292, ik_llama.cpp#194; ds4 PR #484.
#[test]
fn large_activations_of_one_sign_stay_finite() {
    let values: Vec<f32> = (0..256).map(|index| 3000.0 + index as f32).collect();
    let mut random = Random::new(1);
    let minima = blocks::TYPES
        .into_iter()
        .filter(|ty| matches!(ty.activation(), Some(Activation::Q8_1 | Activation::Q8_K | Activation::Q8_0)));
    let mut count = 0;
    for ty in minima {
        let format = ty.activation().unwrap();
        let mut activation = vec![0; format.row_bytes(256).unwrap()];
        format.quantize(&values, &mut activation).unwrap();
        let mut weights = vec![0; ty.row_bytes(256).unwrap()];
        blocks::fill(ty, 0.5, &mut random, &mut weights);
        let mut plain = [0.0; 256];
        quant::dequantize(ty, &weights, &mut plain).unwrap();
        let terms = || plain.iter().zip(&values).map(|(w, x)| f64::from(w * x));
        let (expected, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let found = f64::from(quant::dot(ty, &weights, &activation).unwrap());
        assert!((found - expected).abs() < size * 0.01, "{ty}: {found} instead of {expected}");
        count += 1;
    }
    assert!(count > 8);
}

/// A model whose embedding of token 5 is NaN.
fn poisoned() -> GgufFile {
    let mut file = tiny::model(Family::Llama, Shape::TINY, Type::F32, 2);
    let row = Shape::TINY.hidden * 4;
    file.tensors[0].1[5 * row..6 * row].as_chunks_mut::<4>().0.fill(f32::NAN.to_le_bytes());
    assert_eq!(file.tensors[0].0.name, b"token_embd.weight");
    file
}

/// Tokens and ends of requests that share an engine, submitted one after the other or all at once.
fn answers(model: &Model<'_>, prompts: &[&[u32]], together: bool) -> Vec<(Vec<TokenId>, FinishReason)> {
    let config = Config::new(64, prompts.len() as u32, 8);
    let backend = Reference::new(model, config.pages, KvType::F16, Products::Exact, HEAP).unwrap();
    let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
    let sampler = SamplerParams::greedy();
    let mut answers: Vec<_> = prompts.iter().map(|_| (Vec::new(), None)).collect();
    for (id, prompt) in (0..).zip(prompts) {
        let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
        let id = RequestId(id);
        let request = Request {
            id,
            prompt: &prompt,
            params: GenerationParams {
                max_tokens: 8,
                sampler: sampler.clone(),
                ignore_end: true,
                ..GenerationParams::default()
            },
        };
        engine.submit(&request, Nanos(0)).unwrap();
        let last = id.0 as usize + 1 == prompts.len();
        let mut events = |event: Event<'_>| match event {
            Event::Token { request, token, .. } => answers[request.0 as usize].0.push(token),
            Event::Finished { request, reason, .. } => answers[request.0 as usize].1 = Some(reason),
            _ => {}
        };
        while (!together || last) && engine.poll(Nanos(1), &mut events).unwrap() != Progress::Idle {}
    }
    answers.into_iter().map(|(tokens, reason)| (tokens, reason.unwrap())).collect()
}

/// flash-attention#2374, flash-attention#1745; llama.cpp#23606, llama.cpp#6874.
#[test]
fn nan_logits_end_one_request_and_affect_no_other() {
    with_model(&poisoned(), |model| {
        let model = model.unwrap();
        let good: &[u32] = &[1, 2, 3, 4];
        let alone = answers(&model, &[good], false);
        assert_eq!(alone[0].1, FinishReason::MaxTokens);
        // Before the other request, so that its pages are reused, and in the same steps.
        for together in [false, true] {
            let both = answers(&model, &[&[1, 5, 2], good], together);
            let ended = &both[0];
            assert!(ended.0.is_empty());
            let reason = ended.1;
            assert!(matches!(reason, FinishReason::Sampling(SampleError::NotFinite { .. })), "{reason:?}");
            assert_eq!(both[1], alone[0], "together: {together}");
        }
    });
}

/// Keys and values that are their positions; later positions are NaN.
struct Positions(u32);

impl Cache for Positions {
    fn read(&self, _: Cached, position: u32, _: usize, to: &mut [f32]) {
        to.fill(if position <= self.0 { position as f32 } else { f32::NAN });
    }
}

/// flash-attention#2374, flash-attention#1745; cubecl PR #1070, rten PR #1321.
#[test]
fn a_row_attends_to_its_window_only() {
    let heads = Heads { query: 2, kv: 1, key_dim: 2, value_dim: 2 };
    let kv = KvSlot { group: GroupId(0), layer: 0 };
    let attend = |position, window, scale| {
        let op = Attend {
            gate: None,
            query: TensorId(0),
            kv,
            heads: 2,
            scale,
            window,
            soft_cap: None,
            sinks: None,
            out: TensorId(1),
        };
        let (mut scores, mut vector, mut out) = ([0.0; 16], [0.0; 2], [f32::NAN; 4]);
        let buffers = AttendBuffers { scores: &mut scores, vector: &mut vector, out: &mut out };
        attend_row(&op, heads, position, &[1.0; 4], &Positions(position), None, buffers);
        out
    };
    // A window of one is never empty: a row sees itself.
    assert_eq!(attend(9, Some(1), 1.0), [9.0; 4]);
    assert_eq!(attend(0, None, 1.0), [0.0; 4]);
    // Equal scores: the mean of the window.
    assert_eq!(attend(9, Some(4), 0.0), [7.5; 4]);
    assert_eq!(attend(3, Some(100), 0.0), [1.5; 4]);
}

/// lucebox#128.
#[test]
fn batch_sizes_near_a_page_change_nothing() {
    with_model(&tiny::model(Family::Gemma3, Shape { context: 128, ..Shape::TINY }, Type::F32, 4), |model| {
        let model = model.unwrap();
        for len in [31, 32, 33, 63, 64, 65] {
            let prompt: Vec<TokenId> = (0..len).map(|index| TokenId(index * 7 % 380)).collect();
            let answer = |batch_rows| {
                let config = Config::new(96, 1, batch_rows);
                let backend =
                    Reference::new(&model, config.pages, KvType::F16, Products::Quantized, HEAP).unwrap();
                let mut engine = Engine::new(&model, backend, config, &[], HEAP).unwrap();
                let sampler = SamplerParams::greedy();
                let id = RequestId(0);
                let request = Request {
                    id,
                    prompt: &prompt,
                    params: GenerationParams {
                        max_tokens: 4,
                        sampler: sampler.clone(),
                        ignore_end: true,
                        ..GenerationParams::default()
                    },
                };
                engine.submit(&request, Nanos(0)).unwrap();
                let mut tokens = Vec::new();
                let mut events = |event: Event<'_>| {
                    if let Event::Token { token, .. } = event {
                        tokens.push(token);
                    }
                };
                while engine.poll(Nanos(1), &mut events).unwrap() != Progress::Idle {}
                tokens
            };
            let whole = answer(len);
            assert_eq!(whole.len(), 4);
            for rows in [31, 32, 33, 48] {
                assert_eq!(answer(rows), whole, "{len} tokens in chunks of {rows}");
            }
        }
    });
}

/// sglang PR #31768.
#[test]
fn ties_go_to_the_lower_token_and_only_ties() {
    let scope = SamplerScope { request: 0, vocab_len: 5, context_len: 8, breakers: None };
    let mut sampler = Sampler::new(&SamplerParams::greedy(), &[], scope, HEAP).unwrap();
    let mut scratch = Scratch::new(5, HEAP).unwrap();
    let mut pick = |logits: [f32; 5]| sampler.sample(&logits, 0, None, &mut scratch).unwrap().token;
    assert_eq!(pick([1.0, 3.0, 2.0, 3.0, 3.0]), TokenId(1));
    assert_eq!(pick([1.0, 3.0, 2.0, 3.0_f32.next_up(), 3.0]), TokenId(3));
    assert_eq!(pick([-0.0, 0.0, 0.0, -0.0, -1.0]), TokenId(0));
}

fn route(gating: Gating, renormalize: bool, products: &[f32], top_k: usize) -> (Vec<u32>, Vec<f32>) {
    let router = Matrix { weight: WeightId(0), first_row: 0, rows: 4, scale: None, bias: None };
    let op = Route {
        input: TensorId(0),
        norm: None,
        router,
        gating,
        selection_bias: None,
        groups: None,
        top_k: top_k as u32,
        renormalize,
        scale: 1.0,
        ids: TensorId(1),
        weights: TensorId(2),
    };
    let (mut ids, mut weights) = (vec![0; top_k], vec![0.0; top_k]);
    route_row(&op, None, &mut products.to_vec(), &mut ids, &mut weights);
    (ids, weights)
}

/// AstrAI PR 57.
#[test]
fn experts_that_differ_in_the_last_bit_are_distinguished() {
    let close = [1.0, 1.0_f32.next_up(), 1.0, 0.5];
    for gating in [Gating::SoftmaxOfChosen, Gating::Sigmoid] {
        let (ids, _) = route(gating, false, &close, 2);
        let wanted = if gating == Gating::Sigmoid { [0, 1] } else { [1, 0] };
        // The sigmoid of both is the same number; then the lower expert comes first.
        assert_eq!(ids, wanted, "{gating:?}");
    }
    assert_eq!(route(Gating::Softmax, false, &[2.0; 4], 3).0, [0, 1, 2]);
}

/// litgpt#2013, megablocks PR #87.
#[test]
fn softmax_before_and_after_the_choice_differ() {
    let products = [1.0, 3.0, 2.0, -1.0];
    let shares: Vec<f64> = products.iter().map(|x| f64::from(*x).exp()).collect();
    let all: f64 = shares.iter().sum();
    let near = |found: &[f32], expected: &[f64]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6), "{found:?}");
    };
    let (ids, plain) = route(Gating::Softmax, false, &products, 2);
    assert_eq!(ids, [1, 2]);
    near(&plain, &[shares[1] / all, shares[2] / all]);
    let chosen = shares[1] + shares[2];
    near(&route(Gating::Softmax, true, &products, 2).1, &[shares[1] / chosen, shares[2] / chosen]);
    near(&route(Gating::SoftmaxOfChosen, false, &products, 2).1, &[shares[1] / chosen, shares[2] / chosen]);
    // One expert: all of the weight, or its share.
    near(&route(Gating::Softmax, true, &products, 1).1, &[1.0]);
    near(&route(Gating::SoftmaxOfChosen, false, &products, 1).1, &[1.0]);
    near(&route(Gating::Softmax, false, &products, 1).1, &[shares[1] / all]);
}

/// llama.cpp#27993.
#[test]
fn logits_far_into_a_text_are_finite_and_not_zero() {
    let shape = Shape { context: 4096, ..Shape::TINY };
    let wide = Shape { head_dim: 32, ..shape };
    let cases = [
        (Family::Llama, shape, KvType::F16),
        (Family::Gemma3, shape, KvType::F16),
        (Family::Llama, wide, KvType::Q8_0),
    ];
    for (family, shape, kv) in cases {
        with_model(&tiny::model(family, shape, Type::F32, 5), |model| {
            let model = model.unwrap();
            let tokens: Vec<TokenId> = (0..2176).map(|index| TokenId(index * 31 % 380)).collect();
            let logits = scores(&model, &tokens, kv);
            for row in logits.chunks_exact(model.vocabulary as usize).skip(2000) {
                let size = row.iter().fold(0_f32, |size, logit| size.max(logit.abs()));
                assert!(size.is_finite() && size > 0.1, "{family:?} {kv}: {size}");
            }
        });
    }
}

/// llama.cpp#25382, llama.cpp#23044, llama.cpp PR #27742.
#[test]
fn quantized_keys_and_values_suit_every_attention() {
    for family in Family::ALL {
        with_model(&tiny::model(family, Shape::NARROW, Type::F32, 4), |model| {
            let model = model.unwrap();
            let tokens: Vec<TokenId> = (0..100).map(|index| TokenId(index * 31 % 380)).collect();
            let [plain, blocks] = [KvType::F32, KvType::Q8_0].map(|kv| scores(&model, &tokens, kv));
            let difference = plain.iter().zip(&blocks).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
            let size = plain.iter().map(|logit| f64::from(*logit).powi(2)).sum::<f64>();
            // A router may choose another expert.
            assert!(difference > 0.0 && difference < 2e-2 * size, "{family:?}: {}", difference / size);
        });
    }
}

/// strix-llama.cpp PR #18.
#[test]
fn rows_of_zeros_are_quantized_to_zeros() {
    let formats = [Activation::F32, Activation::Q8_0, Activation::Q8_1, Activation::Q8_K];
    for format in formats {
        let mut out = vec![0xff; format.row_bytes(256).unwrap()];
        format.quantize(&[0.0; 256], &mut out).unwrap();
        let types = blocks::TYPES.into_iter().filter(|ty| ty.activation() == Some(format));
        for ty in types {
            let mut weights = vec![0; ty.row_bytes(256).unwrap()];
            blocks::fill(ty, 0.5, &mut Random::new(3), &mut weights);
            assert_eq!(quant::dot(ty, &weights, &out).unwrap(), 0.0, "{ty}");
        }
    }
}
