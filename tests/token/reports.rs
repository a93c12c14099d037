//! Bugs that were reported for other engines' tokenizers, each as a test. `docs/known-bugs.md` lists all reports.
#![expect(clippy::single_range_in_vec_init, reason = "one range of a list of ranges is meant")]

use crate::fixture::{MARKUP, PLAIN, PROMPT, Vocabulary, decode, encode, open, spell, stream};
use core::ops::Range;
use doorbell_core::heap::{self, Global};
use doorbell_core::token::pre::Pre;
use doorbell_core::token::{
    DetokenizeOptions, Detokenizer, Scratch, Special, Tokenizer, TokenizerError, split,
};
use doorbell_tests::gguf_writer::Value;

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

/// Unknown, begin, end, every byte, and these words, the later ones with higher scores.
fn spm(words: &[&str]) -> Vocabulary {
    let bytes: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut tokens = vec![("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)];
    tokens.extend(bytes.iter().map(|text| (text.as_str(), BYTE)));
    tokens.extend(words.iter().map(|text| (*text, NORMAL)));
    let scores: Vec<_> = words.iter().enumerate().map(|(index, text)| (*text, index as f32)).collect();
    Vocabulary::spm(&tokens, &scores)
}

fn chat(tokenizer: &Tokenizer<'_>, text: &str, content: &[Range<usize>]) -> Vec<u32> {
    let mut out = heap::Vec::new_in(&Global as heap::Heap<'_>);
    tokenizer.encode_chat(text.as_bytes(), content, &mut Scratch::new(&Global), &mut out).unwrap();
    out.iter().map(|token| token.0).collect()
}

/// llama.cpp#3502. The report also has digits split from the space before them; the model's test vectors disagree.
#[test]
fn falcon_splits_punctuation_and_groups_of_three_digits() {
    let mut pieces = Vec::new();
    let rule = Pre::named(b"falcon").unwrap();
    split::split::<()>(rule.stages, b"x=1234!! it's", &mut |piece| {
        pieces.push(String::from_utf8(piece.to_vec()).unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(pieces, ["x", "=", "123", "4", "!!", " it", "'", "s"]);
}

/// llama.cpp#4772
#[test]
fn text_after_a_control_token_starts_with_a_space() {
    let vocabulary = spm(&["▁", "G", "▁G"]);
    vocabulary.run(|tokenizer| {
        assert_eq!(encode(tokenizer, "<s>G", MARKUP), [1, vocabulary.id("▁G")]);
    });
}

/// llama.cpp#8584
#[test]
fn gemma_adds_no_space() {
    let vocabulary = spm(&["▁", "t", "e", "x", "te", "xt", "text", "▁text"])
        .with("add_space_prefix", Value::Bool(false))
        .with("add_bos_token", Value::Bool(false));
    vocabulary.run(|tokenizer| {
        assert_eq!(encode(tokenizer, "<unk>text</s>", PROMPT), [0, vocabulary.id("text"), 2]);
    });
}

/// llama.cpp#7938
#[test]
fn decoded_text_encodes_to_the_same_tokens() {
    let mut phi = spm(&["▁", "a", "b", "▁a", "▁b"]);
    phi.tokens.push((b"<|end|>".to_vec(), CONTROL, 0.0));
    phi.metadata.push(("general.name".into(), "Phi3".into()));
    phi.run(|tokenizer| {
        let options = DetokenizeOptions { remove_special: true, special: true };
        for text in ["a b", " a<|end|>b", "<|end|>\n a  b<|end|><|end|> ", "", "a<|end|>"] {
            let mut ids = encode(tokenizer, text, PROMPT);
            // The first decoding lacks the white space that control tokens absorb.
            ids = encode(tokenizer, decode(tokenizer, &ids, options), PROMPT);
            for _ in 0..3 {
                let again = encode(tokenizer, decode(tokenizer, &ids, options), PROMPT);
                assert_eq!(again, ids, "{text:?}");
            }
        }
    });
}

/// llama.cpp#23840
#[test]
fn a_space_after_a_control_token_stays_apart() {
    let vocabulary = spm(&["▁", "▁▁", "w", "o", "▁w", "▁wo"]);
    vocabulary.run(|tokenizer| {
        let expected = [2, vocabulary.id("▁"), vocabulary.id("▁wo")];
        assert_eq!(encode(tokenizer, "</s> wo", MARKUP), expected);
    });
}

/// llama.cpp#8691
#[test]
fn bytes_of_an_incomplete_character_are_encoded() {
    let merge = format!("{} {}", spell(&[0xe6]), spell(&[0xad]));
    let vocabulary = Vocabulary::bytes("llama-bpe", &[&merge], &[]);
    vocabulary.run(|tokenizer| {
        assert_eq!(encode(tokenizer, [0xe6, 0xad], PLAIN), [256]);
        assert_eq!(encode(tokenizer, [0xe6, 0xad, 0xaa], PLAIN), [256, 0xaa]);
        assert_eq!(decode(tokenizer, &[256, 0xaa], DetokenizeOptions::default()), "\u{6b6a}".as_bytes());
    });
}

/// llama.cpp PR #5478
#[test]
fn a_missing_byte_token_does_not_fail() {
    let tokens = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), ("▁", NORMAL), ("\n", BYTE)];
    let vocabulary = Vocabulary::spm(&tokens, &[]);
    vocabulary.run(|tokenizer| {
        assert_eq!(encode(tokenizer, "\n", PLAIN), [3, 4], "the byte as it is");
        assert_eq!(encode(tokenizer, "é", PLAIN), [3, 0, 0], "two unknown bytes");
        assert_eq!(decode(tokenizer, &[3, 4], DetokenizeOptions::default()), b"\n");
    });
}

/// llama.cpp#12021, #11341, ollama#4529
#[test]
fn an_unknown_pre_tokenizer_is_refused_with_the_known_ones() {
    let vocabulary = Vocabulary::bytes("deepseek-r1-qwen", &[], &[]);
    vocabulary.run(|tokenizer| assert_eq!(tokenizer.pre_name(), Some("deepseek-r1-qwen")));
    assert!(core::ptr::eq(Pre::named(b"deepseek-r1-qwen").unwrap(), Pre::named(b"qwen2").unwrap()));
    open(&vocabulary.with("pre", "qwen99".into()).file(), |result| {
        let error = result.unwrap_err();
        assert!(matches!(&error, TokenizerError::UnknownPre { found } if found.bytes() == b"qwen99"));
        let text = error.to_string();
        for part in ["\"qwen99\"", "deepseek-r1-qwen", "llama-bpe", "tekken"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.lines().count(), 1);
    });
}

/// llama-cpp-python#1501, #1537, drama_llama#93
#[test]
fn a_chat_has_exactly_one_bos() {
    let vocabulary = spm(&["▁", "a", "▁a"]).with("add_bos_token", Value::Bool(true));
    vocabulary.run(|tokenizer| {
        let expected = [1, vocabulary.id("▁a")];
        assert_eq!(chat(tokenizer, "<s>a", &[]), expected);
        assert_eq!(chat(tokenizer, "a", &[]), expected);
        assert_eq!(chat(tokenizer, "", &[]), [1]);
        assert_eq!(chat(tokenizer, "<s>a", &[0..4])[..2], [1, vocabulary.id("▁")], "written by the user");
    });
    vocabulary.with("add_bos_token", Value::Bool(false)).run(|tokenizer| {
        assert_eq!(chat(tokenizer, "<s>", &[]), [1]);
        assert_eq!(chat(tokenizer, "", &[]), [0_u32; 0]);
    });
}

/// llama.cpp PR #14783
#[test]
fn control_tokens_are_text_unless_requested() {
    let merges = ["i m", "_ s", "_s t", "_st a", "_sta r", "_star t"];
    let vocabulary = Vocabulary::bytes("qwen2", &merges, &[("<|im_start|>", CONTROL)]);
    vocabulary.run(|tokenizer| {
        let byte = |byte: u8| u32::from(byte);
        let start = vocabulary.id("_start");
        let expected = [byte(b'<'), byte(b'|'), vocabulary.id("im"), start, byte(b'|'), byte(b'>')];
        assert_eq!(encode(tokenizer, "<|im_start|>", PLAIN), expected);
        assert_eq!(encode(tokenizer, "<|im_start|>", MARKUP), [vocabulary.id("<|im_start|>")]);
    });
}

/// llama.cpp#24382, ollama PR #17262, ramblr#78
#[test]
fn user_text_never_becomes_control_tokens() {
    let markup = [("<turn|>", CONTROL), ("</think>", USER_DEFINED)];
    let vocabulary = Vocabulary::bytes("qwen2", &[], &markup);
    let (turn, think) = (vocabulary.id("<turn|>"), vocabulary.id("</think>"));
    vocabulary.run(|tokenizer| {
        let text = "<turn|>A<turn|>B</think><turn|>";
        let found = chat(tokenizer, text, &[7..24]);
        assert_eq!(found.iter().filter(|id| **id == turn).count(), 2);
        assert!(!found.contains(&think));
        assert_eq!((found[0], *found.last().unwrap()), (turn, turn));
        let all = chat(tokenizer, text, &[]);
        assert_eq!(all, [turn, u32::from(b'A'), turn, u32::from(b'B'), think, turn]);
        assert_eq!(
            decode(tokenizer, &found, DetokenizeOptions { special: true, remove_special: false }),
            text.as_bytes()
        );
    });
    // SPM merges to any token, but never to a control token.
    let vocabulary = spm(&["▁", "<", "/", "s", ">", "</", "s>", "▁</"]);
    vocabulary.run(|tokenizer| {
        let found = encode(tokenizer, "</s>", PLAIN);
        assert_eq!(found, [vocabulary.id("▁</"), vocabulary.id("s>")]);
        assert!(!encode(tokenizer, "a</s><s><unk><0x41>", PLAIN).iter().any(|id| *id < 3));
    });
}

/// outlines PR #892
#[test]
fn a_token_may_be_the_replacement_character() {
    let text = " \u{fffd}";
    let vocabulary = Vocabulary::bytes("qwen2", &[], &[(&spell(text.as_bytes()), NORMAL)]);
    vocabulary.run(|tokenizer| {
        assert_eq!(decode(tokenizer, &[256], DetokenizeOptions::default()), text.as_bytes());
        assert_eq!(stream(tokenizer, &[256], Detokenizer::new(false)), [text, ""]);
    });
}

/// llama.cpp#11738, PR #14937: a character in two tokens, and one that never ends.
#[test]
fn a_stream_holds_back_an_incomplete_character() {
    let vocabulary = Vocabulary::bytes("qwen2", &[], &[]);
    vocabulary.run(|tokenizer| {
        let pieces = |ids| stream(tokenizer, ids, Detokenizer::new(false));
        assert_eq!(pieces(&[0xe5, 0x8c, 0x97]), ["", "", "北", ""]);
        assert_eq!(pieces(&[0xe5, 0x8c]), ["", "", "\u{fffd}"]);
        assert_eq!(pieces(&[0xe5, 0x41]), ["", "\u{fffd}A", ""]);
        assert_eq!(pieces(&[0xff, 0x41]), ["\u{fffd}", "A", ""]);
        assert_eq!(pieces(&[0xf0, 0x9f, 0x98, 0x80]), ["", "", "", "😀", ""]);
    });
}

/// Qwen has a token `</s>` that is made by merges; it is text and does not end an answer.
#[test]
fn html_does_not_end_an_answer() {
    let merges = ["< /", "s >", "</ s>"];
    let vocabulary = Vocabulary::bytes("qwen2", &merges, &[("<|im_end|>", CONTROL)]);
    vocabulary.run(|tokenizer| {
        let ends: Vec<_> = tokenizer.eog().map(|token| token.0).collect();
        assert_eq!(ends, [11, vocabulary.id("<|im_end|>")], "the default and the known one");
        assert_eq!(tokenizer.special(Special::Eot).unwrap().0, vocabulary.id("<|im_end|>"));
    });
}
