//! The CPU driver: golden logits, the reference's results on quantized weights, and results that do not depend on batch,
//! chunks or threads.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, HeadResult, PAGE_TOKENS, PageId, PageSpan, PageTables, RowRun, Shape, StateId,
};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use doorbell_cpu::features::Isa;
use doorbell_tests::tiny::{self, Family};
use std::path::{Path, PathBuf};

const HEAP: Heap<'static> = &Global;

/// Rows of a sequence in one step: sequence, tokens, position of the first.
type Piece<'t> = (u32, &'t [TokenId], u32);

/// Runs a batch of pieces of up to three sequences, each with its own pages, and returns all rows' logits.
fn step<B: Backend>(
    model: &Model<'_>,
    backend: &mut B,
    pieces: &[Piece<'_>],
    result: HeadResult,
) -> Vec<f32> {
    const PAGES: u32 = 24;
    let tokens: Vec<TokenId> = pieces.iter().flat_map(|piece| piece.1.iter().copied()).collect();
    let mut runs = Vec::new();
    for &(sequence, tokens, position) in pieces {
        let first_row = runs.iter().map(|run: &RowRun| run.rows).sum();
        runs.push(RowRun { sequence, first_row, rows: tokens.len() as u32, position });
    }
    let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
    // Sequence s has every third page, backwards.
    let pages: Vec<PageId> =
        (0..3).flat_map(|sequence| (0..PAGES).rev().map(move |page| PageId(3 * page + sequence))).collect();
    let spans: Vec<PageSpan> = (0..3)
        .flat_map(|sequence| {
            model.groups.iter().map(move |_| PageSpan { start: sequence * PAGES, len: PAGES })
        })
        .collect();
    let tables = PageTables { pages: &pages, spans: &spans, groups: model.groups.len(), states: &STATES };
    let shape = Shape { rows: tokens.len() as u32, outputs: tokens.len() as u32 };
    let plan = model.plan(shape, result, HEAP).unwrap();
    let batch = Batch { tokens: &tokens, runs: &runs, outputs: &outputs, tables };
    backend.submit(&plan, &batch).unwrap();
    match backend.poll().unwrap().unwrap() {
        Output::Logits(values) | Output::Hidden(values) => values.to_vec(),
        Output::Tokens(tokens) => tokens.iter().map(|token| token.0 as f32).collect(),
    }
}

/// The recurrent states of the three sequences.
const STATES: [StateId; 3] = [StateId(2), StateId(0), StateId(1)];

const ALL_PAGES: u32 = 72;

fn reference<'m, 'a>(model: &'m Model<'a>, kv: KvType) -> Reference<'m, 'a> {
    let mut backend = Reference::new(model, ALL_PAGES, kv, Products::Exact, HEAP).unwrap();
    backend.reserve_states(3).unwrap();
    backend
}

fn cpu<'m, 'a>(model: &'m Model<'a>, kv: KvType, threads: usize, isa: Isa) -> CpuBackend<'m, 'a> {
    let mut backend = CpuBackend::with_isa(model, ALL_PAGES, kv, threads, isa, HEAP).unwrap();
    backend.reserve_states(3).unwrap();
    backend
}

fn prompt(seed: u32, len: u32) -> Vec<TokenId> {
    (0..len).map(|i| TokenId((seed * 7919 + i * i * 31 + i) % 250)).collect()
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0_f32, |most, x| most.max(x.abs()));
    found.iter().zip(expected).fold(0_f32, |most, (a, b)| most.max((a - b).abs())) / largest
}

fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / pairs().map(|(_, b)| b * b).sum::<f64>()
}

const FAMILIES: [Family; 8] = Family::ALL;

fn goldens() -> Vec<(String, Vec<u8>, Vec<f32>)> {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let folders = ["model", "family"].into_iter();
    let files = folders.flat_map(|name| std::fs::read_dir(goldens.join(name)).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let models = files.filter(|path: &PathBuf| path.extension().is_some_and(|x| x == "gguf"));
    let read = |path: PathBuf| {
        let logits = std::fs::read(path.with_extension("f32")).unwrap();
        let logits = logits.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap(), logits)
    };
    models.map(read).collect()
}

fn golden_tokens() -> Vec<TokenId> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join("model").join("tokens.txt");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|id| TokenId(id.parse().unwrap())).collect()
}

#[test]
fn golden_models_give_their_logits() {
    let goldens = goldens();
    assert_eq!(goldens.len(), 58);
    for (name, file, expected) in &goldens {
        let gguf = Gguf::parse(file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        for isa in Isa::available() {
            let mut backend = cpu(&model, KvType::F32, 2, isa);
            let found = step(&model, &mut backend, &[(0, &golden_tokens(), 0)], HeadResult::Logits);
            let difference = difference(&found, expected);
            assert!(difference < 1e-4, "{name} {}: {difference:e}", isa.name());
        }
    }
}

/// Weight types of the tiny models; the tests of the products cover all types.
const TYPES: [Type; 3] = [Type::Q8_0, Type::Q4_K, Type::F16];

#[test]
fn quantized_models_agree_with_the_reference() {
    for family in FAMILIES {
        for kind in TYPES {
            let file = tiny::model(family, tiny::Shape::WIDE, kind, 3).to_bytes();
            let gguf = Gguf::parse(&file, HEAP).unwrap();
            let model = Model::new(&gguf, HEAP).unwrap();
            let tokens = prompt(1, 40);
            let mut reference = reference(&model, KvType::F16);
            let expected = step(&model, &mut reference, &[(0, &tokens, 0)], HeadResult::Logits);
            for isa in Isa::available() {
                let mut backend = cpu(&model, KvType::F16, 2, isa);
                let found = step(&model, &mut backend, &[(0, &tokens, 0)], HeadResult::Logits);
                let error = nmse(&found, &expected);
                // Two terms of eight bits are as exact as f32; a half-precision key may round the other way.
                assert!(error < 1e-6, "{} {} {}: NMSE {error:e}", family.name(), kind.name(), isa.name());
            }
        }
    }
}

/// Both quantize to the same blocks, except for values between two codes; the error against F32 is small.
#[test]
fn keys_and_values_in_blocks_agree_with_the_reference() {
    for family in FAMILIES {
        let file = tiny::model(family, tiny::Shape::WIDE, Type::F16, 3).to_bytes();
        let gguf = Gguf::parse(&file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        let tokens = prompt(1, 100);
        let [plain, blocks] = [KvType::F32, KvType::Q8_0].map(|kv| {
            let mut reference = reference(&model, kv);
            step(&model, &mut reference, &[(0, &tokens, 0)], HeadResult::Logits)
        });
        let cost = nmse(&blocks, &plain);
        assert!(cost > 1e-8 && cost < 1e-3, "{}: NMSE {cost:e} to plain numbers", family.name());
        for isa in Isa::available() {
            let mut backend = cpu(&model, KvType::Q8_0, 2, isa);
            let found = step(&model, &mut backend, &[(0, &tokens, 0)], HeadResult::Logits);
            let error = nmse(&found, &blocks);
            assert!(error < cost / 10.0, "{} {}: NMSE {error:e} of {cost:e}", family.name(), isa.name());
        }
    }
}

/// Asserts that the bits of a text's logits do not depend on its chunks. Every other chunk is computed between rows of
/// other sequences.
fn bits_stay<B: Backend>(
    model: &Model<'_>,
    backend: &mut B,
    [tokens, other]: [&[TokenId]; 2],
    whole: &[u32],
    what: &str,
) {
    let vocabulary = model.vocabulary as usize;
    let mut position = 0;
    let mut found = Vec::new();
    for chunk in [1, 1, 3, 59, 1, 200, 300, 5, 29, 1].iter().cycle() {
        let end = tokens.len().min(position + chunk);
        let piece = (1, &tokens[position..end], position as u32);
        // Every other step has rows of other sequences before and after.
        let alone = position % 2 == 0;
        let logits = if alone {
            step(model, backend, &[piece], HeadResult::Logits)
        } else {
            let pieces = [(0, &other[..7], 0), piece, (2, other, 0)];
            let all = step(model, backend, &pieces, HeadResult::Logits);
            all[7 * vocabulary..(7 + end - position) * vocabulary].to_vec()
        };
        found.extend(bits(&logits));
        position = end;
        if position == tokens.len() {
            break;
        }
    }
    assert!(found == whole, "{what}");
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// One row alone, chunks, a batch with other sequences, any number of threads: the same bits.
#[test]
fn a_rows_logits_depend_on_its_sequence_alone() {
    let plain = FAMILIES.map(|family| (family, KvType::F16));
    let others = [KvType::Q8_0, KvType::F32]
        .map(|kv| [Family::Llama, Family::Gemma3, Family::Qwen3Next].map(|family| (family, kv)));
    for (family, kv) in plain.into_iter().chain(others.concat()) {
        let file = tiny::model(family, tiny::Shape::WIDE, Type::Q4_K, 5).to_bytes();
        let gguf = Gguf::parse(&file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        let (tokens, other) = (prompt(2, 600), prompt(3, 70));
        let mut backend = cpu(&model, kv, 1, Isa::best());
        let whole = bits(&step(&model, &mut backend, &[(0, &tokens, 0)], HeadResult::Logits));
        for threads in [1, 2, 3] {
            let mut backend = cpu(&model, kv, threads, Isa::best());
            let what = format!("{} {kv} with {threads} threads", family.name());
            bits_stay(&model, &mut backend, [&tokens, &other], &whole, &what);
        }
    }
}

/// A text cut in two at every position: the second part begins with the state, the window and the pages that the first
/// has left, and gives the bits of the whole.
#[test]
fn any_cut_of_a_text_gives_the_same_logits() {
    const LEN: usize = 72;
    for family in FAMILIES.into_iter().filter(|family| family.is_hybrid() || *family == Family::Gemma3) {
        let file = tiny::model(family, tiny::Shape::NARROW, Type::Q8_0, 5).to_bytes();
        let gguf = Gguf::parse(&file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        let tokens = prompt(2, LEN as u32);
        let mut backend = cpu(&model, KvType::F32, 1, Isa::best());
        let whole = bits(&step(&model, &mut backend, &[(0, &tokens, 0)], HeadResult::Logits));
        for cut in 1..LEN {
            let (first, second) = tokens.split_at(cut);
            let mut found = step(&model, &mut backend, &[(1, first, 0)], HeadResult::Logits);
            found.extend(step(&model, &mut backend, &[(1, second, cut as u32)], HeadResult::Logits));
            assert!(bits(&found) == whole, "{} cut at {cut}", family.name());
        }
        let mut stepwise = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            stepwise.extend(step(&model, &mut backend, &[(2, &[*token], at as u32)], HeadResult::Logits));
        }
        assert!(bits(&stepwise) == whole, "{} token by token", family.name());
    }
}

/// The same for the reference, with which everything else is compared.
#[test]
fn the_references_logits_depend_on_the_sequence_alone() {
    for (family, kv) in FAMILIES.iter().zip(KvType::ALL.iter().cycle()) {
        let file = tiny::model(*family, tiny::Shape::WIDE, Type::Q8_0, 5).to_bytes();
        let gguf = Gguf::parse(&file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        let (tokens, other) = (prompt(2, 70), prompt(3, 9));
        let reference = || reference(&model, *kv);
        let whole = bits(&step(&model, &mut reference(), &[(0, &tokens, 0)], HeadResult::Logits));
        bits_stay(&model, &mut reference(), [&tokens, &other], &whole, &format!("{} {kv}", family.name()));
    }
}

#[test]
fn the_best_token_is_the_largest_logit() {
    for family in [Family::Llama, Family::Gemma3, Family::Qwen3Next, Family::Qwen35Moe] {
        let file = tiny::model(family, tiny::Shape::WIDE, Type::Q8_0, 8).to_bytes();
        let gguf = Gguf::parse(&file, HEAP).unwrap();
        let model = Model::new(&gguf, HEAP).unwrap();
        let mut backend = cpu(&model, KvType::F16, 3, Isa::best());
        let tokens = prompt(4, 21);
        let logits = step(&model, &mut backend, &[(0, &tokens, 0)], HeadResult::Logits);
        let best = step(&model, &mut backend, &[(1, &tokens, 0)], HeadResult::ArgMax);
        for (row, best) in logits.chunks_exact(model.vocabulary as usize).zip(best) {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(row.iter().position(|&x| x == largest), Some(best as usize));
        }
    }
}

#[test]
fn a_bad_batch_is_refused_and_the_next_one_runs() {
    let file = tiny::f32_model(Family::Llama, 1);
    let gguf = Gguf::parse(&file, HEAP).unwrap();
    let model = Model::new(&gguf, HEAP).unwrap();
    let mut backend = cpu(&model, KvType::F16, 2, Isa::best());
    let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
    let bad = [TokenId(model.vocabulary)];
    let runs = [RowRun { sequence: 0, first_row: 0, rows: 1, position: 0 }];
    let tables = PageTables {
        states: &STATES,
        pages: &[PageId(0)],
        spans: &[PageSpan { start: 0, len: 1 }; 4],
        groups: model.groups.len(),
    };
    assert!(backend.submit(&plan, &Batch { tokens: &bad, runs: &runs, outputs: &[0], tables }).is_err());
    assert!(backend.poll().unwrap().is_none());
    assert!(
        !step(&model, &mut backend, &[(0, &prompt(1, PAGE_TOKENS as u32 + 1), 0)], HeadResult::Logits)
            .is_empty()
    );
}
