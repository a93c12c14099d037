//! Comparisons with files that are not in the repository; each test prints that it is skipped without them.
//!
//! - `DOORBELL_VOCABS`: a folder of vocabulary-only `*.gguf` with `.inp` (texts between lines
//!   `__ggml_vocab_test__`) and `.out` (ids, a line for each; `.special.out` with markup), as llama.cpp's `models/`.
//!   `goldens/token/qwen3.py` makes another one from a tokenizer.json.
//! - `DOORBELL_SPLITS`: the output of `goldens/token/splits.py` with a large number.

use crate::fixture::{MARKUP, PLAIN, encode, open};
use crate::goldens::compare_splits;
use std::path::Path;

/// Vocabularies that llama.cpp has vectors for and doorbell does not support.
const UNSUPPORTED: [&str; 2] = ["ggml-vocab-bert-bge.gguf", "ggml-vocab-nomic-bert-moe.gguf"];

#[test]
fn vectors_of_vocabulary_files() {
    let Some(folder) = std::env::var_os("DOORBELL_VOCABS") else {
        println!("skipped: DOORBELL_VOCABS is not set");
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    files.sort();
    let mut compared = 0;
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (texts, expected) = (with_suffix(&path, ".inp"), with_suffix(&path, ".out"));
        if UNSUPPORTED.contains(&name.as_str()) || !texts.exists() {
            println!("{name}: no vectors");
            continue;
        }
        let texts = std::fs::read_to_string(texts).unwrap();
        let count = open(&std::fs::read(&path).unwrap(), |tokenizer| {
            let tokenizer = tokenizer.unwrap();
            let compare = |expected: &Path, options| {
                let expected = std::fs::read_to_string(expected).unwrap();
                let mut count = 0;
                for (text, line) in texts.split("\n__ggml_vocab_test__\n").zip(expected.split('\n')) {
                    let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
                    assert_eq!(encode(&tokenizer, text, options), expected, "{name}: {text:?}");
                    count += 1;
                }
                count
            };
            let special = with_suffix(&path, ".special.out");
            compare(&expected, PLAIN) + if special.exists() { compare(&special, MARKUP) } else { 0 }
        });
        println!("{name}: {count} vectors");
        compared += count;
    }
    assert!(compared > 0, "no vectors in {}", folder.display());
}

fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[test]
fn splits_of_many_random_texts() {
    let Some(file) = std::env::var_os("DOORBELL_SPLITS") else {
        println!("skipped: DOORBELL_SPLITS is not set");
        return;
    };
    println!("{} texts", compare_splits(&std::fs::read_to_string(file).unwrap()));
}
