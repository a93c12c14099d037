//! Properties of every text and every vocabulary, on random ones.

use crate::fixture::{MARKUP, PLAIN, PROMPT, Vocabulary, decode, encode, spell, stream};
use arbitrary::{Result, Unstructured};
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::token::{DetokenizeOptions, Detokenizer, Scratch, TokenId};
use doorbell_tests::gguf_writer::Value;
use doorbell_tests::property::always;

const SHOWN: DetokenizeOptions = DetokenizeOptions { remove_special: false, special: true };

/// Few different bytes, so that merges are frequent: letters, spaces, parts of characters.
fn bytes(source: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let pool = b"aabbcc  \n\n'<>\xe4\xb8\xad\xc3\xa9\xff\x00";
    (0..source.int_in_range(0..=40)?)
        .map(|_| if source.ratio(9, 10)? { source.choose(pool).copied() } else { source.arbitrary() })
        .collect()
}

/// Merges of existing tokens, some control tokens, and a pre-tokenizer.
fn byte_level(source: &mut Unstructured<'_>) -> Result<Vocabulary> {
    let pre =
        *source.choose(&["qwen2", "llama-bpe", "gpt-2", "gpt-4o", "starcoder", "deepseek-llm", "tekken"])?;
    let mut texts: Vec<String> = b"abc \n\xe4\xb8\xad".iter().map(|byte| spell(&[*byte])).collect();
    let mut merges = Vec::new();
    for _ in 0..source.int_in_range(0..=12)? {
        let (left, right) = (source.choose(&texts)?.clone(), source.choose(&texts)?.clone());
        if left.len() + right.len() < 24 && !texts.contains(&format!("{left}{right}")) {
            merges.push(format!("{left} {right}"));
            texts.push(format!("{left}{right}"));
        }
    }
    let merges: Vec<&str> = merges.iter().map(String::as_str).collect();
    Ok(Vocabulary::bytes(pre, &merges, &[("<a>", 3), ("a<", 4), ("<|im_end|>", 3)])
        .with("add_space_prefix", Value::Bool(source.arbitrary()?)))
}

fn spm(source: &mut Unstructured<'_>) -> Result<Vocabulary> {
    let hexadecimal: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut tokens = vec![("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<a>", 3), ("  ", 4)];
    tokens.extend(hexadecimal.iter().map(|text| (text.as_str(), 6)));
    let words = ["▁", "a", "b", "c", "▁a", "ab", "aa", "abc", "aaaa", "bc", "c▁", "中", "▁ab", "a中", "\n\n"];
    tokens.extend(words.iter().map(|text| (*text, 1)));
    let mut scores = Vec::new();
    for word in words {
        scores.push((word, f32::from(source.arbitrary::<i8>()?)));
    }
    Ok(Vocabulary::spm(&tokens, &scores).with("add_space_prefix", Value::Bool(source.arbitrary()?)))
}

fn any(source: &mut Unstructured<'_>) -> Result<Vocabulary> {
    if source.arbitrary()? { byte_level(source) } else { spm(source) }
}

/// A byte-level vocabulary encodes every byte string, and decodes it again.
#[test]
fn byte_level_bpe_decodes_any_bytes_it_encoded() {
    always(|source| {
        // Cleaning spaces removes bytes on purpose.
        let vocabulary =
            byte_level(source)?.with("pre", (*source.choose(&["qwen2", "gpt-4o", "smollm"])?).into());
        let text = bytes(source)?;
        vocabulary.run(|tokenizer| {
            for options in [PLAIN, MARKUP] {
                let ids = encode(tokenizer, &text, options);
                assert_eq!(decode(tokenizer, &ids, SHOWN), text);
            }
        });
        Ok(())
    });
}

/// So does SPM with byte tokens, except that it treats U+2581 as a space.
#[test]
fn spm_decodes_any_bytes_it_encoded() {
    always(|source| {
        let vocabulary = spm(source)?;
        let text = bytes(source)?;
        vocabulary.run(|tokenizer| {
            let ids = encode(tokenizer, &text, PLAIN);
            let found = decode(tokenizer, &ids, SHOWN);
            let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('▁', " ");
            assert_eq!(plain(&found), plain(&text));
        });
        Ok(())
    });
}

/// The pieces of a stream are whole characters, and together they are the whole text.
#[test]
fn a_stream_is_the_whole_text() {
    always(|source| {
        let vocabulary = any(source)?.with("pre", "qwen2".into());
        let len = vocabulary.tokens.len() as u32;
        let mut ids = Vec::new();
        for _ in 0..source.int_in_range(0..=30)? {
            ids.push(source.int_in_range(0..=len + 1)?);
        }
        let special = source.arbitrary()?;
        vocabulary.run(|tokenizer| {
            let whole = decode(tokenizer, &ids, DetokenizeOptions { remove_special: false, special });
            let pieces = stream(tokenizer, &ids, Detokenizer::from_start(tokenizer, special));
            assert_eq!(pieces.concat(), String::from_utf8_lossy(&whole));
        });
        Ok(())
    });
}

/// Earlier contents of the scratch do not matter, and ids are valid.
#[test]
fn encoding_does_not_depend_on_what_came_before() {
    always(|source| {
        let vocabulary = any(source)?;
        let texts = [bytes(source)?, bytes(source)?, bytes(source)?];
        vocabulary.run(|tokenizer| {
            let mut scratch = Scratch::new(&Global);
            for text in &texts {
                let mut out = heap::Vec::new_in(&Global as Heap<'_>);
                tokenizer.encode_with(text, PROMPT, &mut scratch, &mut out).unwrap();
                let found: Vec<u32> = out.iter().map(|token| token.0).collect();
                assert_eq!(found, encode(tokenizer, text, PROMPT));
                assert!(out.iter().all(|token| tokenizer.text(*token).is_some()));
                assert!(out.iter().all(|token| *token < TokenId(tokenizer.vocab_len() as u32)));
            }
        });
        Ok(())
    });
}

/// Merging by definition: the lowest rank of all neighbors, the leftmost of equals, until there is none.
#[test]
fn merging_is_as_defined() {
    always(|source| {
        let vocabulary = byte_level(source)?.with("pre", "gemma4".into()).with("model", "gpt2".into());
        // One piece without line ends, of characters: no splitting and no byte spelling.
        let text: String =
            bytes(source)?.iter().map(|byte| ['a', 'b', 'c'][usize::from(*byte % 3)]).collect();
        let mut symbols: Vec<String> = text.chars().map(String::from).collect();
        let rank = |pair: &[String]| {
            let merge = format!("{} {}", pair[0], pair[1]).into_bytes();
            vocabulary.merges.iter().position(|known| *known == merge)
        };
        while let Some((_, at)) =
            symbols.windows(2).enumerate().filter_map(|(at, pair)| Some((rank(pair)?, at))).min()
        {
            let right = symbols.remove(at + 1);
            symbols[at] += &right;
        }
        let expected: Vec<u32> = symbols.iter().map(|symbol| vocabulary.id(symbol)).collect();
        vocabulary.run(|tokenizer| assert_eq!(encode(tokenizer, &text, PLAIN), expected, "{text}"));
        Ok(())
    });
}
