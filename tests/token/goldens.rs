//! Splits, ids and texts of other libraries, see `goldens/token/*.py`.

use crate::fixture::{MARKUP, PLAIN, Vocabulary, encode, numbers, stream, unhex};
use doorbell_core::token::pre::Pre;
use doorbell_core::token::{Detokenizer, Tokenizer, split};
use doorbell_tests::gguf_writer::Value;
use std::path::Path;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/token").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Compares every line of a file of splits. Returns the number of lines.
pub(crate) fn compare_splits(lines: &str) -> usize {
    let mut count = 0;
    for line in lines.lines() {
        let [rule, text, expected] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let text = unhex(text);
        let mut found = Vec::new();
        split::split::<()>(Pre::named(rule.as_bytes()).unwrap().stages, &text, &mut |piece| {
            found.push(piece.len() as u32);
            Ok(())
        })
        .unwrap();
        assert_eq!(found, numbers(expected), "{rule}: {:?}", String::from_utf8_lossy(&text));
        count += 1;
    }
    count
}

#[test]
fn splits_equal_the_regular_expressions() {
    assert_eq!(compare_splits(&read("splits.txt")), 774);
}

/// The vocabulary of a golden file.
fn vocabulary(lines: &str) -> Vocabulary {
    let mut vocabulary = Vocabulary::default();
    for line in lines.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["token", ty, text] => vocabulary.tokens.push((unhex(text), ty.parse().unwrap(), 0.0)),
            ["token", ty, text, score] => {
                vocabulary.tokens.push((unhex(text), ty.parse().unwrap(), score.parse().unwrap()));
            }
            ["merge", left, right] => vocabulary.merges.push([unhex(left), unhex(right)].join(&b' ')),
            ["key", "add_space_prefix", value] => {
                vocabulary = vocabulary.with("add_space_prefix", Value::Bool(value == "1"));
            }
            ["key", name, value] => vocabulary = vocabulary.with(name, Value::U32(value.parse().unwrap())),
            _ => {}
        }
    }
    vocabulary
}

/// Compares the cases of one pre-tokenizer. Returns their number.
fn compare(lines: &str, pre: &str, tokenizer: &Tokenizer<'_>) -> usize {
    let mut count = 0;
    for line in lines.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["encode", rule, parse, text, expected] if rule == pre => {
                let (text, options) = (unhex(text), if parse == "1" { MARKUP } else { PLAIN });
                let found = encode(tokenizer, &text, options);
                assert_eq!(found, numbers(expected), "{pre} {parse} {:?}", String::from_utf8_lossy(&text));
                count += 1;
            }
            ["decode", skip, ids, expected] => {
                // A stream, since a whole text is also cleaned as only llama.cpp does.
                let pieces =
                    stream(tokenizer, &numbers(ids), Detokenizer::from_start(tokenizer, skip == "0"));
                assert_eq!(pieces.concat(), String::from_utf8(unhex(expected)).unwrap(), "{pre} {ids}");
                count += 1;
            }
            _ => {}
        }
    }
    count
}

/// Eight pre-tokenizers over one byte-level vocabulary, against `tokenizers`.
#[test]
fn byte_level_bpe_equals_tokenizers() {
    let lines = read("bytes.txt");
    let plain = vocabulary(&lines).with("model", "gpt2".into());
    let mut count = 0;
    for pre in ["qwen2", "llama-bpe", "gpt-2", "qwen35", "gpt-4o", "tekken", "starcoder", "deepseek-v3"] {
        let lines = if pre == "qwen2" { lines.clone() } else { lines.replace("decode", "other") };
        count += plain.clone().with("pre", pre.into()).run(|tokenizer| {
            assert_eq!(tokenizer.pre_name(), Some(pre));
            compare(&lines, pre, tokenizer)
        });
    }
    assert!(count > 700, "{count}");
}

/// BPE over characters with byte fallback, against `tokenizers`.
#[test]
fn bpe_over_characters_equals_tokenizers() {
    let lines = read("characters.txt");
    let count = vocabulary(&lines).with("model", "gemma4".into()).run(|tokenizer| {
        assert_eq!(tokenizer.pre_name(), Some("gemma4"));
        compare(&lines, "gemma4", tokenizer)
    });
    assert!(count > 400, "{count}");
}

/// SPM with byte fallback, against SentencePiece.
#[test]
fn spm_equals_sentencepiece() {
    let lines = read("spm.txt");
    let count = vocabulary(&lines).with("model", "llama".into()).run(|tokenizer| {
        assert_eq!(tokenizer.model_name(), "spm");
        compare(&lines, "-", tokenizer)
    });
    assert!(count > 250, "{count}");
}
