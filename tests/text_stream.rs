//! Streams of text: the parts are the whole text, stop strings never appear, characters are never split.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::engine::TextStream;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_tests::tiny::{self, Family};

const HEAP: Heap<'static> = &Global;

fn with_tokenizer(test: impl FnOnce(&Tokenizer<'_>)) {
    let bytes = tiny::f32_model(Family::Qwen3, 1);
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    test(&Tokenizer::new(&gguf, HEAP).unwrap());
}

/// The tokens of a text, byte by byte: every character of more than one byte is split.
fn split(tokenizer: &Tokenizer<'_>, text: &str) -> Vec<TokenId> {
    let byte_token = |byte: u8| {
        let id = (0..tokenizer.vocab_len() as u32).map(TokenId);
        let id = id.into_iter().find(|&id| tokenizer.bytes(id, false).eq([byte]));
        id.expect("a byte-level vocabulary has every byte")
    };
    text.bytes().map(byte_token).collect()
}

fn stream(tokenizer: &Tokenizer<'_>, tokens: &[TokenId], stops: &[&str]) -> (Vec<String>, bool) {
    let mut stream = TextStream::new(stops, false, HEAP).unwrap();
    let mut parts = Vec::new();
    for &token in tokens {
        parts.push(stream.push(tokenizer, token).unwrap().to_owned());
        if stream.stopped() {
            break;
        }
    }
    parts.push(stream.finish().unwrap().to_owned());
    (parts, stream.stopped())
}

#[test]
fn parts_add_up_to_the_text_before_the_first_stop() {
    with_tokenizer(|tokenizer| {
        let cases: [(&str, &[&str], &str); 9] = [
            ("plain text", &[], "plain text"),
            ("ABC...K O P Q rest", &["O P Q"], "ABC...K "),
            ("begins O P but goes on", &["O P Q"], "begins O P but goes on"),
            ("ends in O P", &["O P Q"], "ends in O P"),
            ("aaab", &["aab"], "a"),
            ("two stops", &["stops", "two s"], ""),
            ("北京 is whole", &["京 is"], "北"),
            ("empty stops do nothing", &[""], "empty stops do nothing"),
            ("overlap ababac", &["abac"], "overlap ab"),
        ];
        for (text, stops, expected) in cases {
            let (parts, stopped) = stream(tokenizer, &split(tokenizer, text), stops);
            assert_eq!(parts.concat(), expected, "{text:?}");
            assert_eq!(stopped, expected != text, "{text:?}");
        }
    });
}

#[test]
fn nothing_that_may_become_a_stop_is_shown_early() {
    with_tokenizer(|tokenizer| {
        let (parts, _) = stream(tokenizer, &split(tokenizer, "x</s>"), &["</s>"]);
        assert_eq!(parts, ["x", "", "", "", "", ""]);
        let (parts, _) = stream(tokenizer, &split(tokenizer, "x</b>"), &["</s>"]);
        assert_eq!(parts.concat(), "x</b>");
        assert_eq!(parts[3], "</b", "what can't become a stop any more is shown at once");
    });
}

#[test]
fn a_cut_character_becomes_a_replacement_at_the_end_only() {
    with_tokenizer(|tokenizer| {
        let tokens = split(tokenizer, "a北");
        let (parts, _) = stream(tokenizer, &tokens, &[]);
        assert_eq!(parts, ["a", "", "", "北", ""]);
        let (parts, _) = stream(tokenizer, &tokens[..3], &[]);
        assert_eq!(parts, ["a", "", "", "\u{fffd}"]);
    });
}
