//! Small vocabularies as metadata pairs: byte-level BPE and SPM.
//!
//! Every text can be tokenized with them. Reading them is in core.

use crate::gguf_writer::Value;

/// Common English words, whose merges the vocabularies have.
const WORDS: &str = " the of and to in is that it was for on are with as his they at be this have from or \
one had by word but not what all were we when your can said there use an each which she do how their if \
will up other about out many then them these so some her would make like him into time has look two more \
write go see number no way could people my than first water been call who oil its now find long down day";

/// Control tokens in the order of their ids.
const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// A ChatML template, as Qwen-like files have it.
pub const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}\
{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Token texts, types, and the other metadata of a tokenizer.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Token texts by id.
    pub tokens: Vec<String>,
    /// Metadata pairs, `tokenizer.*` keys only.
    pub metadata: Vec<(String, Value)>,
}

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// The printable character that byte-level BPE writes for a byte: the byte itself if it is printable
/// Latin-1, else the next free one from U+0100 on.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|b| !printable(*b)).count() as u32;
    char::from_u32(256 + rank).unwrap_or('?')
}

/// The prefixes of `words` that joining from left to right makes, each with its two halves, without repeats.
fn joins<'w>(words: impl Iterator<Item = &'w str>) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for word in words {
        let mut left = String::new();
        for letter in word.chars() {
            if !left.is_empty() {
                let pair = (left.clone(), letter.to_string());
                if !seen.contains(&pair) {
                    seen.push(pair);
                }
            }
            left.push(letter);
        }
    }
    seen
}

fn pair(key: &str, value: Value) -> (String, Value) {
    (format!("tokenizer.{key}"), value)
}

/// A byte-level BPE vocabulary of exactly `len` tokens (at least 259): 256 bytes, as many merges as fit,
/// three control tokens, then unused ones. End of text is `<|im_end|>`, nothing is added in front.
pub fn bpe(len: usize, pre: &str) -> Vocabulary {
    let mut tokens: Vec<String> = (0..=255).map(|byte| byte_char(byte).to_string()).collect();
    let free = len.saturating_sub(tokens.len() + SPECIAL.len());
    let spaced: Vec<String> = WORDS.split_whitespace().map(|word| format!("\u{120}{word}")).collect();
    let words = spaced.iter().map(String::as_str).chain(WORDS.split_whitespace());
    let merges: Vec<(String, String)> = joins(words).into_iter().take(free).collect();
    tokens.extend(merges.iter().map(|(left, right)| format!("{left}{right}")));
    let first_special = tokens.len();
    tokens.extend(SPECIAL.map(String::from));
    let mut types = vec![NORMAL; first_special];
    types.resize(tokens.len(), CONTROL);
    let id = |index: usize| Value::U32((first_special + index) as u32);
    fill_up(&mut tokens, &mut types, len);
    let metadata = vec![
        pair("ggml.model", "gpt2".into()),
        pair("ggml.pre", pre.into()),
        pair("ggml.tokens", Value::strings(&tokens)),
        pair("ggml.token_type", Value::i32s(types)),
        pair("ggml.merges", Value::strings(merges.iter().map(|(left, right)| format!("{left} {right}")))),
        pair("ggml.bos_token_id", id(0)),
        pair("ggml.padding_token_id", id(0)),
        pair("ggml.eos_token_id", id(2)),
        pair("ggml.add_bos_token", Value::Bool(false)),
        pair("chat_template", CHATML.into()),
    ];
    Vocabulary { tokens, metadata }
}

/// An SPM vocabulary of exactly `len` tokens (at least 353): unknown, begin, end, 256 bytes, printable ASCII,
/// as many word pieces as fit (a longer one scores higher), then unused ones. Begin of text is added.
pub fn spm(len: usize) -> Vocabulary {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    let mut types = vec![UNKNOWN, CONTROL, CONTROL];
    tokens.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    types.resize(tokens.len(), BYTE);
    tokens.extend((33..=126).map(|byte: u8| char::from(byte).to_string()).chain(["\u{2581}".into()]));
    let free = len.saturating_sub(tokens.len());
    let spaced: Vec<String> = WORDS.split_whitespace().map(|word| format!("\u{2581}{word}")).collect();
    for (left, right) in joins(spaced.iter().map(String::as_str)).into_iter().take(free) {
        tokens.push(left + &right);
    }
    types.resize(tokens.len(), NORMAL);
    fill_up(&mut tokens, &mut types, len);
    let scores = tokens.iter().zip(&types).map(|(text, ty)| match *ty {
        NORMAL => text.chars().count() as f32 - 100.0,
        _ => -1000.0,
    });
    let metadata = vec![
        pair("ggml.model", "llama".into()),
        pair("ggml.pre", "default".into()),
        pair("ggml.scores", Value::f32s(scores)),
        pair("ggml.tokens", Value::strings(&tokens)),
        pair("ggml.token_type", Value::i32s(types)),
        pair("ggml.bos_token_id", Value::U32(1)),
        pair("ggml.eos_token_id", Value::U32(2)),
        pair("ggml.unknown_token_id", Value::U32(0)),
        pair("ggml.add_bos_token", Value::Bool(true)),
        pair("ggml.add_space_prefix", Value::Bool(false)),
    ];
    Vocabulary { tokens, metadata }
}

fn fill_up(tokens: &mut Vec<String>, types: &mut Vec<i32>, len: usize) {
    while tokens.len() < len {
        tokens.push(format!("[PAD{}]", tokens.len()));
        types.push(UNUSED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_map_to_printable_characters() {
        assert_eq!(byte_char(b'a'), 'a');
        assert_eq!(byte_char(0), '\u{100}');
        assert_eq!(byte_char(b' '), '\u{120}');
        assert_eq!(byte_char(173), '\u{143}');
    }

    #[test]
    fn vocabularies_have_the_given_size_and_no_repeats() {
        for vocabulary in [bpe(512, "qwen2"), bpe(300, "smollm"), spm(512)] {
            let mut tokens = vocabulary.tokens.clone();
            tokens.sort();
            tokens.dedup();
            assert_eq!(tokens.len(), vocabulary.tokens.len());
            assert!([512, 300].contains(&tokens.len()), "{}", tokens.len());
        }
    }
}
