//! Vocabularies as GGUF files in memory, and calls without a heap argument. The assertions are in the tests.

use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Global};
use doorbell_core::token::{
    DetokenizeOptions, Detokenizer, EncodeOptions, TokenId, Tokenizer, TokenizerError,
};
use doorbell_tests::gguf_writer::{GgufFile, Value};

/// Neither BOS nor control tokens.
pub(crate) const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
/// Control tokens, but no BOS.
pub(crate) const MARKUP: EncodeOptions = EncodeOptions { add_special: false, parse_special: true };
/// Everything, as for a prompt.
pub(crate) const PROMPT: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

/// A vocabulary that can be written as a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vocabulary {
    pub(crate) tokens: Vec<(Vec<u8>, i32, f32)>,
    pub(crate) merges: Vec<Vec<u8>>,
    pub(crate) metadata: Vec<(String, Value)>,
}

impl Vocabulary {
    /// SPM tokens: texts and types, with score 0 unless `scores` has the text.
    pub(crate) fn spm(tokens: &[(&str, i32)], scores: &[(&str, f32)]) -> Self {
        let score =
            |text: &str| scores.iter().find(|(known, _)| *known == text).map_or(0.0, |(_, score)| *score);
        let tokens = tokens.iter().map(|(text, ty)| (text.as_bytes().to_vec(), *ty, score(text))).collect();
        Self { tokens, ..Self::default() }.with("model", "llama".into())
    }

    /// Byte-level BPE: 256 bytes, the results of the merges, then these further tokens.
    pub(crate) fn bytes(pre: &str, merges: &[&str], further: &[(&str, i32)]) -> Self {
        let mut tokens: Vec<_> = (0..=255).map(|byte| (spell(&[byte]).into_bytes(), 1, 0.0)).collect();
        tokens.extend(merges.iter().map(|merge| (merge.replace(' ', "").into_bytes(), 1, 0.0)));
        tokens.extend(further.iter().map(|(text, ty)| (text.as_bytes().to_vec(), *ty, 0.0)));
        let merges = merges.iter().map(|merge| merge.as_bytes().to_vec()).collect();
        Self { tokens, merges, ..Self::default() }.with("model", "gpt2".into()).with("pre", pre.into())
    }

    /// Sets `tokenizer.ggml.KEY`, replacing an existing value.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        let key = format!("tokenizer.ggml.{key}");
        self.metadata.retain(|(known, _)| *known != key);
        self.metadata.push((key, value));
        self
    }

    /// The file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = GgufFile::new();
        for (key, value) in &self.metadata {
            file.meta(key, value.clone());
        }
        let texts = self.tokens.iter().map(|(text, ..)| text);
        file.meta("tokenizer.ggml.tokens", Value::strings(texts));
        file.meta("tokenizer.ggml.token_type", Value::i32s(self.tokens.iter().map(|(_, ty, _)| *ty)));
        file.meta("tokenizer.ggml.scores", Value::f32s(self.tokens.iter().map(|(.., score)| *score)));
        file.meta("tokenizer.ggml.merges", Value::strings(&self.merges));
        file.to_bytes()
    }

    /// Runs `check` with the tokenizer.
    pub(crate) fn run<T>(&self, check: impl FnOnce(&Tokenizer<'_>) -> T) -> T {
        open(&self.file(), |tokenizer| check(&tokenizer.unwrap()))
    }

    /// The id of a text.
    pub(crate) fn id(&self, text: &str) -> u32 {
        self.tokens.iter().position(|(known, ..)| known == text.as_bytes()).unwrap() as u32
    }
}

/// Runs `check` with the tokenizer of a file, or its error.
pub(crate) fn open<T>(bytes: &[u8], check: impl FnOnce(Result<Tokenizer<'_>, TokenizerError>) -> T) -> T {
    let file = Gguf::parse(bytes, &Global).unwrap();
    check(Tokenizer::new(&file, &Global))
}

/// Byte-level BPE's spelling of these bytes.
pub(crate) fn spell(bytes: &[u8]) -> String {
    let plain = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let char = |byte: &u8| {
        let free = (0..*byte).filter(|other| !plain(*other)).count() as u32;
        if plain(*byte) { char::from(*byte) } else { char::from_u32(256 + free).unwrap() }
    };
    bytes.iter().map(char).collect()
}

/// The ids of a text.
pub(crate) fn encode(tokenizer: &Tokenizer<'_>, text: impl AsRef<[u8]>, options: EncodeOptions) -> Vec<u32> {
    let mut out = heap::Vec::new_in(&Global as heap::Heap<'_>);
    tokenizer.encode(text, options, &mut out).unwrap();
    out.iter().map(|token| token.0).collect()
}

fn tokens(ids: &[u32]) -> Vec<TokenId> {
    ids.iter().copied().map(TokenId).collect()
}

/// The bytes of a whole text.
pub(crate) fn decode(tokenizer: &Tokenizer<'_>, ids: &[u32], options: DetokenizeOptions) -> Vec<u8> {
    let mut out = heap::Vec::new_in(&Global as heap::Heap<'_>);
    tokenizer.detokenize(&tokens(ids), options, &mut out).unwrap();
    out.to_vec()
}

/// The pieces of a stream, one for each token and one for its end.
pub(crate) fn stream(tokenizer: &Tokenizer<'_>, ids: &[u32], mut detokenizer: Detokenizer) -> Vec<String> {
    let mut pieces = Vec::new();
    for token in tokens(ids) {
        let mut out = heap::Vec::new_in(&Global as heap::Heap<'_>);
        detokenizer.push(tokenizer, token, &mut out).unwrap();
        pieces.push(String::from_utf8(out.to_vec()).expect("whole characters"));
    }
    let mut out = heap::Vec::new_in(&Global as heap::Heap<'_>);
    detokenizer.finish(&mut out).unwrap();
    pieces.push(String::from_utf8(out.to_vec()).expect("whole characters"));
    pieces
}

/// The bytes of a hexadecimal number, `-` for none.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim_start_matches('-').as_bytes();
    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| value(&pair[0]) << 4 | value(&pair[1])).collect()
}

/// Numbers between commas, `-` for none.
pub(crate) fn numbers(text: &str) -> Vec<u32> {
    text.split(',').filter(|number| *number != "-").map(|number| number.parse().unwrap()).collect()
}
