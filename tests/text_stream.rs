//! Streams of text: the parts are the whole text, stop strings never appear, characters are never split.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

use alloc::sync::Arc;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_runtime::serve::{StopTexts, TextStream};
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
    let stops = StopTexts::new(stops.iter().map(|&stop| stop.to_owned())).unwrap();
    let mut stream = TextStream::new(Arc::new(stops), false);
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

/// The parts are the same however the text is divided into tokens; a stop text within another one comes first.
#[test]
fn the_stop_text_that_is_complete_first_ends_the_answer() {
    with_tokenizer(|tokenizer| {
        for (text, stops, expected) in [
            ("xabcd", &["abcd", "bc"][..], "xa"),
            ("xabcd", &["bc", "abc"], "x"),
            ("xabcd", &["c", "bcd"], "xab"),
            ("aaaaab", &["aab", "aaab"], "aa"),
            ("no stop", &["op!", "stops"], "no stop"),
        ] {
            let bytes = split(tokenizer, text);
            let mut whole = doorbell_core::heap::Vec::new_in(HEAP);
            tokenizer.encode(text, doorbell_core::token::EncodeOptions::default(), &mut whole).unwrap();
            for tokens in [&bytes[..], &whole] {
                assert_eq!(stream(tokenizer, tokens, stops).0.concat(), expected, "{text} {stops:?}");
            }
        }
    });
}

/// Of many texts with the same beginning, the search knows the longest beginning without comparing each.
#[test]
fn many_long_stop_texts_hold_back_what_may_become_one() {
    with_tokenizer(|tokenizer| {
        let stops: Vec<String> = (0..250).map(|end| format!("{}{end:03}", "ab".repeat(30))).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let text = format!("{}{}123 rest", "ab".repeat(500), "ab");
        let (parts, stopped) = stream(tokenizer, &split(tokenizer, &text), &stops);
        assert!(stopped);
        assert_eq!(parts.concat(), "ab".repeat(471));
    });
}
