//! Damaged files and texts that are slow to tokenize: typed errors or documented leniency, never a panic.

use crate::fixture::{MARKUP, PLAIN, PROMPT, Vocabulary, decode, encode, open, stream};
use arbitrary::{Result, Unstructured};
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::token::{
    DetokenizeOptions, Detokenizer, EncodeError, EncodeOptions, Kind, Scratch, Special, TokenId, Tokenizer,
    TokenizerError,
};
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::property::always;

fn bpe() -> Vocabulary {
    Vocabulary::bytes("qwen2", &["a b", "ab c"], &[("<|im_end|>", 3)])
}

/// The error of `vocabulary`.
fn refused(vocabulary: &Vocabulary) -> TokenizerError {
    open(&vocabulary.file(), |result| result.unwrap_err())
}

/// The file with one key's value replaced, or without the key.
fn with_value(vocabulary: &Vocabulary, key: &str, value: Option<Value>) -> Vec<u8> {
    let full = format!("tokenizer.ggml.{key}");
    let mut file = GgufFile::new();
    let arrays = [
        ("tokenizer.ggml.tokens", Value::strings(vocabulary.tokens.iter().map(|(text, ..)| text))),
        ("tokenizer.ggml.token_type", Value::i32s(vocabulary.tokens.iter().map(|(_, ty, _)| *ty))),
        ("tokenizer.ggml.scores", Value::f32s(vocabulary.tokens.iter().map(|(.., score)| *score))),
        ("tokenizer.ggml.merges", Value::strings(&vocabulary.merges)),
    ];
    let pairs = vocabulary.metadata.iter().map(|(key, value)| (key.as_str(), value.clone())).chain(arrays);
    for (known, present) in pairs.filter(|(known, _)| *known != full) {
        file.meta(known, present);
    }
    if let Some(value) = value {
        file.meta(&full, value);
    }
    file.to_bytes()
}

#[test]
fn missing_and_mistyped_keys_are_named() {
    let cases: [(&str, Option<Value>, &str); 13] = [
        ("tokens", None, "key \"tokenizer.ggml.tokens\" is missing"),
        ("tokens", Some(Value::U32(1)), "should be an array"),
        ("tokens", Some(Value::i32s([1])), "should be an array of strings"),
        ("tokens", Some(Value::strings::<&str>([])), "\"tokenizer.ggml.tokens\" is empty"),
        ("token_type", Some(Value::i32s([1])), "has 1 elements for a vocabulary of 259 tokens"),
        ("token_type", Some(Value::strings(vec!["1"; 300])), "should be an array of integers"),
        ("scores", Some(Value::f32s([1.0])), "has 1 elements for a vocabulary of 259 tokens"),
        ("scores", Some(Value::strings(vec!["1"; 300])), "should be an array of numbers"),
        ("merges", None, "key \"tokenizer.ggml.merges\" is missing"),
        ("merges", Some(Value::i32s([1])), "should be an array of strings"),
        ("model", Some("wordpiece".into()), "unknown tokenizer model \"wordpiece\""),
        ("add_bos_token", Some(Value::U8(1)), "should be a truth value"),
        ("eos_token_id", Some("2".into()), "should be an integer"),
    ];
    for (key, value, expected) in cases {
        open(&with_value(&bpe(), key, value), |result| {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.lines().count(), 1);
        });
    }
}

/// Old files have no types and scores.
#[test]
fn types_and_scores_may_be_missing() {
    for key in ["token_type", "scores"] {
        open(&with_value(&bpe(), key, None), |result| {
            assert_eq!(encode(&result.unwrap(), "abc", PLAIN), [257]);
        });
    }
    open(&with_value(&bpe(), "pre", None), |result| assert_eq!(result.unwrap().pre_name(), Some("default")));
    open(&with_value(&bpe(), "scores", Some(Value::i32s(vec![1; 259]))), |result| assert!(result.is_ok()));
}

#[test]
fn ids_beyond_the_vocabulary_are_ignored() {
    let vocabulary = bpe()
        .with("mask_token_id", Value::U32(259))
        .with("eom_token_id", Value::U64(u64::MAX >> 1))
        .with("padding_token_id", Value::I32(-1))
        .with("eot_token_id", Value::U32(258))
        .with("add_bos_token", Value::Bool(true))
        .with("suppress_tokens", Value::i32s([-1, 5, 259, 258]));
    vocabulary.run(|tokenizer| {
        assert_eq!(tokenizer.bos(), Some(TokenId(11)), "the default");
        for role in [Special::Padding, Special::Mask, Special::Eom] {
            assert_eq!(tokenizer.special(role), None);
        }
        assert_eq!(tokenizer.special(Special::Eot), Some(TokenId(258)));
        assert_eq!(tokenizer.suppressed(), [TokenId(5), TokenId(258)]);
        for id in [259, u32::MAX] {
            assert_eq!(tokenizer.bytes(TokenId(id), true).count(), 0);
            assert_eq!(tokenizer.kind(TokenId(id)), Kind::Undefined);
            assert!(!tokenizer.is_eog(TokenId(id)));
        }
    });
    // Tokens that begin and end texts are checked.
    for (key, value, id) in [
        ("bos_token_id", Value::U32(259), 259),
        ("eos_token_id", Value::U64(u64::MAX >> 1), i64::MAX),
        ("eot_token_id", Value::I32(-1), -1),
    ] {
        open(&bpe().with(key, value).file(), |tokenizer| {
            let error = tokenizer.unwrap_err();
            assert!(
                matches!(error, TokenizerError::Beyond { found, vocab_len: 259, .. } if found == id),
                "{error}"
            );
        });
    }
    // The defaults are beyond a small vocabulary too.
    let small = Vocabulary::spm(&[("a", 1)], &[]);
    small.run(|tokenizer| {
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (None, None));
        assert_eq!(encode(tokenizer, "a", PROMPT), [0, 0, 0, 0], "three bytes of U+2581 are unknown");
    });
}

#[test]
fn unusual_tokens_are_kept_unchanged() {
    let mut vocabulary = bpe();
    vocabulary.tokens.push((b"\xff\xfe".to_vec(), 1, f32::NAN));
    vocabulary.tokens.push((Vec::new(), 4, f32::INFINITY));
    vocabulary.tokens.push((b"ab".to_vec(), 1, 0.0));
    vocabulary.tokens.push((b"<0xZZ>".to_vec(), 6, 0.0));
    vocabulary.tokens.push((b"odd".to_vec(), 77, 0.0));
    vocabulary.merges.extend([
        b"".to_vec(),
        b" ".to_vec(),
        b"x".to_vec(),
        b"\xff \xfe".to_vec(),
        b"no such".to_vec(),
    ]);
    vocabulary.run(|tokenizer| {
        assert_eq!(tokenizer.bytes(TokenId(259), false).collect::<Vec<_>>(), b"\xff\xfe");
        assert_eq!(encode(tokenizer, "ab", PLAIN), [261], "the last of two");
        assert_eq!(encode(tokenizer, "abc", PLAIN), [257]);
        assert_eq!(tokenizer.bytes(TokenId(262), false).collect::<Vec<_>>(), b"<0xZZ>");
        assert_eq!(tokenizer.kind(TokenId(263)), Kind::Undefined);
        assert_eq!(encode(tokenizer, b"\xff\xfe", MARKUP), [0xff, 0xfe]);
    });
}

/// A model without a tokenizer runs on token ids.
#[test]
fn a_model_without_tokenizer_loads() {
    for (metadata, expected) in [
        (vec![("tokenizer.ggml.model", "none".into()), ("llama.vocab_size", Value::U32(128))], 128),
        (vec![("tokenizer.ggml.model", "no_vocab".into())], 7),
        (vec![("qwen3.vocab_size", Value::U32(128))], 7),
        (vec![], 7),
    ] {
        let mut file = GgufFile::new();
        file.meta("general.architecture", "llama".into());
        for (key, value) in metadata {
            file.meta(key, value);
        }
        file.tensor_f32("token_embd.weight", &[2, 7], &[0.0; 14]);
        open(&file.to_bytes(), |result| {
            let tokenizer = result.unwrap();
            assert_eq!((tokenizer.vocab_len(), tokenizer.model_name()), (expected, "none"));
            assert!(!tokenizer.has_text());
            let mut out = heap::Vec::new_in(&Global as Heap<'_>);
            let error = tokenizer.encode("a", EncodeOptions::default(), &mut out).unwrap_err();
            assert_eq!(error, EncodeError::NoTokenizer);
            assert_eq!(decode(&tokenizer, &[1, 2], DetokenizeOptions::default()), b"");
        });
    }
    let mut file = GgufFile::new();
    file.meta("general.architecture", "llama".into()).meta("llama.vocab_size", "many".into());
    open(&file.to_bytes(), |result| assert!(matches!(result, Err(TokenizerError::Key(_)))));
}

#[test]
fn an_unknown_pre_tokenizer_is_refused_only_if_it_is_used() {
    let odd = |vocabulary: Vocabulary| vocabulary.with("pre", "\u{1b}[31m".into());
    let error = refused(&odd(bpe()));
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    odd(Vocabulary::spm(&[("a", 1)], &[])).run(|tokenizer| assert_eq!(tokenizer.pre_name(), None));
}

/// A heap that counts, and refuses beyond a budget.
struct Budget {
    left: AtomicUsize,
    calls: AtomicUsize,
}

#[expect(unsafe_code, reason = "an allocator of the standard interface, for tests")]
// SAFETY: every request goes to `Global` as it is or is refused.
unsafe impl allocator_api2::alloc::Allocator for Budget {
    fn allocate(
        &self,
        layout: Layout,
    ) -> core::result::Result<NonNull<[u8]>, allocator_api2::alloc::AllocError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let take = |left: usize| left.checked_sub(layout.size());
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_err(|_| allocator_api2::alloc::AllocError)?;
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, at: NonNull<u8>, layout: Layout) {
        self.left.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `Global` with this layout.
        unsafe { Global.deallocate(at, layout) }
    }
}

fn budget(bytes: usize) -> Budget {
    Budget { left: AtomicUsize::new(bytes), calls: AtomicUsize::new(0) }
}

/// With any heap, the result is a tokenizer or a typed error.
#[test]
fn running_out_of_memory_is_an_error() {
    let file = bpe().file();
    let (mut refusals, mut built) = (0, false);
    for bytes in (0..60_000).step_by(500) {
        let heap = budget(bytes);
        let heap: Heap<'_> = &heap;
        let Ok(parsed) = Gguf::parse(&file, heap) else { continue };
        match Tokenizer::new(&parsed, heap) {
            Ok(tokenizer) => {
                built = true;
                let mut out = heap::Vec::new_in(heap);
                let long = "abc<|im_end|> ".repeat(1000);
                let result = tokenizer.encode(&long, MARKUP, &mut out);
                assert!(matches!(result, Ok(()) | Err(EncodeError::OutOfMemory(_))));
            }
            Err(TokenizerError::OutOfMemory(_)) => refusals += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refusals > 5 && built);
}

/// With a scratch that is kept, encoding the same text again allocates nothing.
#[test]
fn encoding_allocates_nothing_after_warming_up() {
    for vocabulary in
        [bpe(), Vocabulary::spm(&[("<unk>", 2), ("<s>", 3), ("a", 1), ("ab", 1), ("▁", 1)], &[])]
    {
        let heap = budget(usize::MAX);
        let text = "abc ab\n\n<|im_end|> <s>é \u{2581}\t1234".repeat(50);
        vocabulary.run(|tokenizer| {
            let mut scratch = Scratch::new(&heap);
            let mut out = heap::Vec::new_in(&heap as Heap<'_>);
            tokenizer.encode_with(text.as_bytes(), PROMPT, &mut scratch, &mut out).unwrap();
            let warm = heap.calls.load(Ordering::Relaxed);
            for _ in 0..3 {
                out.clear();
                tokenizer.encode_with(text.as_bytes(), PROMPT, &mut scratch, &mut out).unwrap();
            }
            assert_eq!(heap.calls.load(Ordering::Relaxed), warm);
        });
    }
}

/// Megabytes of one character, alone and in pairs that all merge: a square of the length would take hours.
#[test]
fn long_runs_are_not_slow() {
    let doubling: Vec<String> = (0..8).map(|power| format!("{0} {0}", "a".repeat(1 << power))).collect();
    let doubling: Vec<&str> = doubling.iter().map(String::as_str).collect();
    let count = 1 << 20;
    let vocabulary = Vocabulary::bytes("gpt-2", &doubling, &[("=", 4), ("==", 4), ("====", 4)]);
    vocabulary.run(|tokenizer| {
        assert_eq!(encode(tokenizer, "a".repeat(count), PLAIN).len(), count / 256);
        assert_eq!(encode(tokenizer, "=".repeat(count), PLAIN).len(), count / 4);
        assert_eq!(encode(tokenizer, " ".repeat(count), PLAIN).len(), count);
        assert_eq!(encode(tokenizer, "\n ".repeat(count / 2), PLAIN).len(), count);
    });
    let lines = "deepseek-llm";
    vocabulary.with("pre", lines.into()).run(|tokenizer| {
        assert_eq!(encode(tokenizer, " ".repeat(count) + "b", PLAIN).len(), count + 1);
    });
    let words: Vec<String> = (0..8).map(|power| "a".repeat(1 << power)).collect();
    let words: Vec<(&str, i32)> = words.iter().map(|word| (word.as_str(), 1)).collect();
    Vocabulary::spm(&words, &[]).with("add_space_prefix", Value::Bool(false)).run(|tokenizer| {
        assert_eq!(encode(tokenizer, "a".repeat(count), PLAIN).len(), count / 128);
    });
}

/// A vocabulary of random texts, types, scores and merges, with a random model and pre-tokenizer.
fn nonsense(source: &mut Unstructured<'_>) -> Result<Vocabulary> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for _ in 0..source.int_in_range(1..=24)? {
        let pool: [&[u8]; 12] = [
            b"a",
            b"b",
            b" ",
            b"\xe2\x96\x81",
            b"<",
            b"\xc4\xa0",
            b"\xff",
            b"<0x41>",
            b"</s>",
            b"\n",
            b"",
            b"ab",
        ];
        let parts = [*source.choose(&pool)?, *source.choose(&pool)?, *source.choose(&pool)?];
        texts.push(parts[..source.int_in_range(0..=3)?].concat());
    }
    let mut vocabulary = Vocabulary::default();
    for text in &texts {
        let score = f32::from_bits(source.arbitrary()?);
        vocabulary.tokens.push((text.clone(), source.int_in_range(-1..=8)?, score));
    }
    for _ in 0..source.int_in_range(0..=12)? {
        let pair = [source.choose(&texts)?.clone(), source.choose(&texts)?.clone()];
        vocabulary.merges.push(pair.join(&b' '));
    }
    for key in ["bos", "eos", "eot", "unknown", "fim_pad", "prefix"] {
        if source.arbitrary()? {
            vocabulary =
                vocabulary.with(&format!("{key}_token_id"), Value::I32(source.int_in_range(-2..=30)?));
        }
    }
    for key in ["add_bos_token", "add_eos_token", "add_space_prefix"] {
        if source.arbitrary()? {
            vocabulary = vocabulary.with(key, Value::Bool(source.arbitrary()?));
        }
    }
    let pre = *source.choose(&["default", "llama-bpe", "gemma4", "deepseek-v3", "falcon", "glm4"])?;
    let model = *source.choose(&["gpt2", "llama", "gemma4"])?;
    if source.arbitrary()? {
        vocabulary.metadata.push(("general.name".into(), "phi-3".into()));
    }
    Ok(vocabulary.with("model", model.into()).with("pre", pre.into()))
}

/// Nothing panics on a random tokenizer, and its output has valid ids.
#[test]
fn random_tokenizers_do_not_panic() {
    always(|source| {
        let vocabulary = nonsense(source)?;
        let len = vocabulary.tokens.len() as u32;
        let text: Vec<u8> = source.arbitrary()?;
        let more: &[u8] = source.choose(&[&b"a ab</s> <\n\n b"[..], b"\xe2\x96\x81a\xc4\xa0", b"  a  "])?;
        let text = [&text, more].concat();
        open(&vocabulary.file(), |tokenizer| {
            let tokenizer = match &tokenizer {
                Ok(tokenizer) => tokenizer,
                Err(TokenizerError::Beyond { .. } | TokenizerError::NoToken { .. }) => return,
                Err(error) => panic!("{error}"),
            };
            for options in [PLAIN, MARKUP, PROMPT] {
                let mut ids = encode(tokenizer, &text, options);
                assert!(ids.iter().all(|id| *id < len));
                ids.push(len);
                let special = options.parse_special;
                decode(tokenizer, &ids, DetokenizeOptions { remove_special: special, special });
                stream(tokenizer, &ids, Detokenizer::from_start(tokenizer, special));
            }
            assert!(tokenizer.eog().all(|token| token.0 < len));
            let mut out = heap::Vec::new_in(&Global as Heap<'_>);
            let content = [0..1, 2..text.len()];
            tokenizer.encode_chat(&text, &content, &mut Scratch::new(&Global), &mut out).unwrap();
        });
        Ok(())
    });
}
