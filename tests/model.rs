//! Every golden model on the scalar reference: its logits are those that NumPy computes from the published equations and
//! that llama.cpp confirms (`goldens/model/make.py`).
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::backend::KvType;
use doorbell_core::engine::score;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::{self, Model};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::TokenId;
use doorbell_tests::gguf_writer::GgufFile;
use doorbell_tests::tiny::{self, Family, Shape};
use std::path::{Path, PathBuf};

const HEAP: Heap<'static> = &Global;

const SHAPE: Shape = Shape::NARROW;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(name)
}

/// The models of both folders by name, with their expected `[tokens, vocabulary]` logits.
fn goldens() -> Vec<(String, Vec<u8>, Vec<f32>)> {
    let folders = ["model", "family"].into_iter();
    let files = folders.flat_map(|name| std::fs::read_dir(folder(name)).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let mut models: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|x| x == "gguf")).collect();
    models.sort();
    let read = |path: PathBuf| {
        let logits = std::fs::read(path.with_extension("f32")).unwrap();
        let logits = logits.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap(), logits)
    };
    models.into_iter().map(read).collect()
}

fn tokens() -> Vec<TokenId> {
    let text = std::fs::read_to_string(folder("model").join("tokens.txt")).unwrap();
    text.split_whitespace().map(|id| TokenId(id.parse().unwrap())).collect()
}

/// The logits of the tokens by the reference.
fn logits(name: &str, file: &[u8], kv: KvType) -> Vec<f32> {
    let gguf = Gguf::parse(file, HEAP).unwrap_or_else(|error| panic!("{name}: {error}"));
    let model = Model::new(&gguf, HEAP).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut backend = Reference::new(&model, 1, kv, Products::Exact, HEAP).unwrap();
    let mut logits = Vec::new();
    score(&model, &mut backend, &tokens(), HEAP, &mut || (), &mut |_, row| logits.extend_from_slice(row))
        .unwrap();
    logits
}

/// The largest difference as a share of the largest expected logit, after checking the length.
fn difference(name: &str, file: &[u8], expected: &[f32], kv: KvType) -> f32 {
    let logits = logits(name, file, kv);
    assert_eq!(logits.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0_f32, |most, x| most.max(x.abs()));
    let worst = logits.iter().zip(expected).fold(0_f32, |most, (a, b)| most.max((a - b).abs()));
    worst / largest
}

#[test]
fn every_family_has_a_golden() {
    let families: Vec<String> = goldens()
        .iter()
        .map(|(_, file, _)| {
            let gguf = Gguf::parse(file, HEAP).unwrap();
            gguf.get("general.architecture").and_then(|value| value.text()).unwrap().to_owned()
        })
        .collect();
    let missing = model::Family::all().iter().find(|family| !families.iter().any(|name| name == family.name));
    assert_eq!(missing.map(|family| family.name), None);
}

#[test]
fn logits_equal_those_of_the_equations() {
    let goldens = goldens();
    assert_eq!(goldens.len(), 58);
    let differences: Vec<(&str, f32)> = goldens
        .iter()
        .map(|(name, file, expected)| (name.as_str(), difference(name, file, expected, KvType::F32)))
        .collect();
    assert!(differences.iter().all(|(_, difference)| *difference < 1e-5), "{differences:?}");
}

/// Half-precision keys and values change only a few bits.
#[test]
fn half_precision_keys_and_values_stay_close() {
    for (name, file, expected) in &goldens() {
        let difference = difference(name, file, expected, KvType::F16);
        assert!(difference < 1e-2, "{name}: {difference:e}");
    }
}

/// Joins gate and up, whose names end in `suffix`, into one tensor; the gate comes first for every expert.
fn fuse(file: &mut GgufFile, suffix: &str, experts: usize) {
    for layer in 0..SHAPE.layers {
        for part in ["weight", "bias"] {
            let mut take = |name: &str| {
                let name = format!("blk.{layer}.ffn_{name}{suffix}.{part}").into_bytes();
                let at = file.tensors.iter().position(|(info, _)| info.name == name).unwrap();
                file.tensors.remove(at)
            };
            let ((mut info, gate), (_, up)) = (take("gate"), take("up"));
            let each = gate.len() / experts;
            let data = gate.chunks(each).zip(up.chunks(each)).flat_map(|(gate, up)| [gate, up].concat());
            info.dims[usize::from(part == "weight")] *= 2;
            info.name = format!("blk.{layer}.ffn_gate_up{suffix}.{part}").into_bytes();
            file.tensors.push((info, data.collect()));
        }
    }
}

#[test]
fn gate_and_up_in_one_keep_their_biases() {
    for (family, suffix, experts, rows) in
        [(Family::Llama, "", 1, SHAPE.ff), (Family::Qwen3Moe, "_exps", SHAPE.experts, SHAPE.expert_ff)]
    {
        let mut file = tiny::model(family, SHAPE, Type::F32, 1);
        let plain = logits("no biases", &file.to_bytes(), KvType::F32);
        for layer in 0..SHAPE.layers {
            for (part, sign) in [("gate", 1.0), ("up", -1.0)] {
                let bias: Vec<f32> = (0..rows * experts).map(|at| sign * (at % 7) as f32).collect();
                let dims = if experts == 1 { vec![rows as u64] } else { vec![rows as u64, experts as u64] };
                file.tensor_f32(&format!("blk.{layer}.ffn_{part}{suffix}.bias"), &dims, &bias);
            }
        }
        let apart = logits("apart", &file.to_bytes(), KvType::F32);
        assert!(apart != plain, "{family:?}");
        fuse(&mut file, suffix, experts);
        assert!(logits("in one", &file.to_bytes(), KvType::F32) == apart, "{family:?}");
    }
}
