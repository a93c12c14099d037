//! Damaged model files: reading, binding, tokenizing and computing, within a budget of memory.

use crate::hostile::edited;
use doorbell_core::backend::KvType;
use doorbell_core::engine::{Config, score};
use doorbell_core::gguf::{Gguf, Value};
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use doorbell_cpu::budget::Budget;

/// Bytes that may be allocated in addition to the file's own size.
const ALLOWANCE: usize = 64 << 20;

/// Largest bytes of keys, values and activations for which a step is computed.
const SMALL: u64 = 8 << 20;

/// The last stage that a file passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// It was not read.
    #[default]
    Nothing,
    /// It was read, and is no model.
    File,
    /// It was bound.
    Model,
    /// Logits were computed.
    Logits,
}

/// A target: the bytes are a file.
pub fn gguf(bytes: &[u8]) {
    open(bytes);
}

/// A target: the bytes select changes of a valid file.
pub fn bind(bytes: &[u8]) {
    open(&edited(bytes));
}

/// Uses a file as a host would, and checks that no memory beyond the allowance is requested.
///
/// # Panics
/// If a rule is broken.
pub fn open(bytes: &[u8]) -> Reached {
    let budget = Budget::new(Global, usize::MAX);
    let reached = walk(bytes, &budget);
    let limit = ALLOWANCE + bytes.len();
    assert!(budget.peak() <= limit, "{} bytes for a file of {}", budget.peak(), bytes.len());
    assert!(budget.largest() <= limit, "{} bytes at once for a file of {}", budget.largest(), bytes.len());
    assert_eq!(budget.live(), 0, "memory was not given back");
    reached
}

fn walk(bytes: &[u8], heap: Heap<'_>) -> Reached {
    let gguf = match Gguf::parse(bytes, heap) {
        Ok(gguf) => gguf,
        Err(error) => {
            one_line(&error);
            return Reached::Nothing;
        }
    };
    read_all(&gguf, bytes);
    match Tokenizer::new(&gguf, heap) {
        Ok(tokenizer) => tokenize(&tokenizer, heap),
        Err(error) => one_line(&error),
    }
    match Model::new(&gguf, heap) {
        Ok(model) => compute(&model, heap),
        Err(error) => {
            one_line(&error);
            Reached::File
        }
    }
}

/// Asserts that an error is one line of text, whatever the file contains.
fn one_line(error: &dyn core::error::Error) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains(['\n', '\r', '\u{1b}']), "{text:?}");
}

fn read_all(gguf: &Gguf<'_>, bytes: &[u8]) {
    for entry in gguf.metadata() {
        if let Value::Array(array) = entry.value {
            assert_eq!(array.iter().count(), array.len());
        }
        if let Ok(key) = core::str::from_utf8(entry.key) {
            assert!(gguf.get(key).is_some());
        }
    }
    for tensor in gguf.tensors() {
        let elements = usize::try_from(tensor.elements()).expect("elements fit the file");
        assert_eq!(tensor.ty.row_bytes(elements), Some(tensor.data.len()));
        let at = usize::try_from(tensor.at).expect("data is in the file");
        assert!(tensor.data.is_empty() || bytes[at..].starts_with(tensor.data));
    }
    // Keys of split files may be damaged too; the reader must only return.
    let _ = gguf.split();
}

fn tokenize(tokenizer: &Tokenizer<'_>, heap: Heap<'_>) {
    let text = "a<|im_end|> \u{e9}\u{4e16} 12345\n\n</s><0x41>\u{2581}";
    let mut tokens = heap::Vec::new_in(heap);
    for (add_special, parse_special) in [(true, true), (false, false)] {
        if tokenizer.encode(text, EncodeOptions { add_special, parse_special }, &mut tokens).is_err() {
            return;
        }
    }
    let count = tokenizer.vocab_len();
    assert!(tokens.iter().all(|token| (token.0 as usize) < count), "a token beyond the vocabulary");
    let beyond = TokenId(u32::try_from(count).unwrap_or(u32::MAX));
    for token in tokens.iter().copied().chain([TokenId(0), beyond, TokenId(u32::MAX)]) {
        assert!(tokenizer.bytes(token, true).count() <= tokenizer.text(token).map_or(0, <[u8]>::len));
        let _ = (tokenizer.is_eog(token), tokenizer.kind(token));
    }
    assert_eq!(tokenizer.eog().filter(|token| !tokenizer.is_eog(*token)).count(), 0);
}

/// Three rows, if that is little work.
fn compute(model: &Model<'_>, heap: Heap<'_>) -> Reached {
    let config = Config::new(64, 1, 32);
    let Ok(memory) = config.memory(model, KvType::F16, heap) else { return Reached::Model };
    let all: u64 = model.weights.iter().map(|weight| (weight.rows * weight.cols) as u64).sum();
    if memory.heap() > SMALL || all > SMALL {
        return Reached::Model;
    }
    // `score` returns logits for every row of a chunk.
    let tokens = [0, 1, model.vocabulary - 1].map(|id| TokenId(id % model.vocabulary));
    let blocks = if KvType::Q8_0.check(model).is_ok() { KvType::Q8_0 } else { KvType::F16 };
    for (products, kv) in [(Products::Quantized, KvType::F16), (Products::Exact, blocks)] {
        let backend = Reference::new(model, config.pages, kv, products, heap);
        let Ok(mut backend) = backend else { return Reached::Model };
        let mut rows = 0;
        let done = score(model, &mut backend, &tokens, heap, &mut || (), &mut |_, logits| {
            assert_eq!(logits.len(), model.vocabulary as usize);
            rows += 1;
        });
        if let Err(error) = done {
            one_line(&error);
            return Reached::Model;
        }
        assert_eq!(rows, tokens.len());
    }
    Reached::Logits
}
