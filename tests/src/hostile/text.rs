//! Unusual texts and tokens: encoding, decoding, and streams of pieces.

use crate::gguf_writer::GgufFile;
use crate::vocabulary;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::token::{DetokenizeOptions, Detokenizer, EncodeOptions, TokenId, Tokenizer};
use std::sync::LazyLock;

const HEAP: Heap<'static> = &Global;

/// Vocabularies of every kind, each with its pre-tokenizer.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let rules = ["qwen2", "llama-bpe", "smollm", "gpt-2", "deepseek-llm", "falcon", "gpt-4o", "default"];
    let bpe = rules.map(|rule| vocabulary::bpe(512, rule));
    let all = bpe.into_iter().chain([vocabulary::spm(512)]);
    all.map(|vocabulary| {
        let mut file = GgufFile::new();
        for (key, value) in vocabulary.metadata {
            file.meta(key, value);
        }
        file.to_bytes()
    })
    .collect()
});

static TOKENIZERS: LazyLock<Vec<Tokenizer<'static>>> = LazyLock::new(|| {
    let files = FILES.iter().map(|file| Gguf::parse(file, HEAP).expect("a good file"));
    files.map(|gguf| Tokenizer::new(&gguf, HEAP).expect("a good vocabulary")).collect()
});

/// The tokenizer that the first byte selects, the second byte, and the rest.
fn split(bytes: &[u8]) -> Option<(&'static Tokenizer<'static>, u8, &[u8])> {
    let (&which, rest) = bytes.split_first()?;
    let (&flags, rest) = rest.split_first()?;
    let tokenizers = LazyLock::force(&TOKENIZERS);
    Some((&tokenizers[usize::from(which) % tokenizers.len()], flags, rest))
}

/// A target: two bytes of choice, then text.
///
/// # Panics
/// If a rule is broken.
pub fn token(bytes: &[u8]) {
    let Some((tokenizer, flags, text)) = split(bytes) else { return };
    let options = EncodeOptions { add_special: flags & 1 != 0, parse_special: flags & 2 != 0 };
    let mut tokens = heap::Vec::new_in(HEAP);
    tokenizer.encode(text, options, &mut tokens).expect("any bytes are a text");
    assert!(tokens.iter().all(|token| (token.0 as usize) < tokenizer.vocab_len()));
    // Decoded with control tokens, the tokens are the text: no byte is lost or added.
    let special = options.add_special || options.parse_special;
    let remove_special = options.add_special;
    let mut back = heap::Vec::new_in(HEAP);
    let options = DetokenizeOptions { remove_special, special };
    tokenizer.detokenize(&tokens, options, &mut back).expect("memory");
    // SPM writes U+2581 for spaces, so that character becomes a space, and invalid UTF-8 may take a part of it.
    let faithful = tokenizer.model_name() == "bpe"
        || core::str::from_utf8(text).is_ok_and(|text| !text.contains('\u{2581}'));
    if faithful && !tokenizer.clean_spaces() && !special {
        assert_eq!(&*back, text);
    }
}

/// A target: two bytes of choice, then tokens of two bytes each.
///
/// # Panics
/// If a rule is broken.
pub fn detoken(bytes: &[u8]) {
    let Some((tokenizer, flags, rest)) = split(bytes) else { return };
    let special = flags & 1 != 0;
    let tokens: Vec<TokenId> =
        rest.as_chunks::<2>().0.iter().map(|pair| TokenId(u16::from_le_bytes(*pair).into())).collect();
    let mut detokenizer = Detokenizer::new(special);
    let (mut stream, mut plain) = (heap::Vec::new_in(HEAP), Vec::new());
    for &token in &tokens {
        let before = stream.len();
        detokenizer.push(tokenizer, token, &mut stream).expect("memory");
        assert!(core::str::from_utf8(&stream[before..]).is_ok(), "half a character");
        plain.extend(tokenizer.bytes(token, special));
    }
    detokenizer.finish(&mut stream).expect("memory");
    let stream = core::str::from_utf8(&stream).expect("whole characters");
    if !tokenizer.add_space_prefix() {
        assert_eq!(stream, String::from_utf8_lossy(&plain));
    }
}
