//! Building a tokenizer from a model file's metadata.
//!
//! Defaults, overrides and leniency are llama.cpp's (`llama_vocab::impl::load`, 2026): ids beyond the
//! vocabulary and merges of unknown tokens are ignored, arrays of the wrong type or length are errors.

use super::alphabet;
use super::bpe::Merges;
use super::markup::Markup;
use super::pre::{Alphabet, Pre};
use super::special::{self, KEYS, Roles, Special};
use super::tokenizer::Model;
use super::vocabulary::{Kind, Vocabulary};
use super::{TokenId, Tokenizer, TokenizerError};
use crate::gguf::{self, Array, Gguf, KeyError, Label, Value};
use crate::heap::{self, Heap};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";

impl<'a> Tokenizer<'a> {
    /// The tokenizer of a model file; its texts stay in the file.
    ///
    /// For a file that names no tokenizer, or `none`, the result has only the number of tokens.
    ///
    /// # Errors
    /// If the kind of tokenizer or its pre-tokenizer is not known, if keys are missing or of another type, or the
    /// heap is used up.
    pub fn new(file: &Gguf<'a>, heap: Heap<'a>) -> Result<Self, TokenizerError> {
        let (model, pre_name) = model(file)?;
        let mut this = Self::without_text(heap, model);
        this.pre_name = pre_name;
        if matches!(model, Model::None) {
            this.len = declared_len(file)?;
            return Ok(this);
        }
        this.vocabulary = vocabulary(file, heap)?;
        this.len = this.vocabulary.len();
        if let Model::Bpe(_) = model {
            let merges: Array<'a> = file.require(MERGES)?;
            this.merges = Merges::new(heap, strings(MERGES, merges)?, &this.vocabulary)?;
        }
        this.bytes = byte_tokens(model, &this.vocabulary);
        this.roles = roles(file, model, &this.vocabulary)?;
        this.flags(file)?;
        special::settle(&mut this.roles, &mut this.vocabulary, &this.merges);
        special::set_stripping(
            file.find::<&[u8]>("general.name").ok().flatten().unwrap_or_default(),
            &mut this.vocabulary,
        );
        this.check_wanted(file)?;
        this.markup = Markup::new(heap, &this.vocabulary)?;
        this.suppressed = suppressed(file, heap, &this.vocabulary)?;
        Ok(this)
    }

    fn without_text(heap: Heap<'a>, model: Model) -> Self {
        Self {
            heap,
            model,
            pre_name: None,
            vocabulary: Vocabulary::empty(heap),
            len: 0,
            merges: Merges::empty(heap),
            markup: Markup::empty(heap),
            bytes: [None; 256],
            roles: Roles::default(),
            add_bos: false,
            add_eos: false,
            add_space_prefix: false,
            clean_spaces: false,
            suppressed: heap::Vec::new_in(heap),
        }
    }

    /// Refuses a file that asks for a token around texts and has none.
    fn check_wanted(&self, file: &Gguf<'a>) -> Result<(), TokenizerError> {
        let wants = [
            ("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", self.bos()),
            ("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", self.eos()),
        ];
        for (wanted_by, key, token) in wants {
            if token.is_none() && file.find(wanted_by)?.unwrap_or(false) {
                return Err(TokenizerError::NoToken { wanted_by, key });
            }
        }
        Ok(())
    }

    /// Sets the defaults of the kind of tokenizer, then the values of the file.
    fn flags(&mut self, file: &Gguf<'a>) -> Result<(), TokenizerError> {
        let (add_bos, clean_spaces) = match self.model {
            Model::Bpe(pre) => (pre.add_bos, pre.clean_spaces),
            _ => (true, false),
        };
        self.clean_spaces = clean_spaces;
        self.add_bos = file.find("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos);
        self.add_eos = file.find("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        // Files with vocabularies of characters wrongly declare none.
        self.add_bos |= matches!(self.model, Model::Bpe(pre) if pre.alphabet == Alphabet::Characters);
        let space = file.find("tokenizer.ggml.add_space_prefix")?;
        self.add_space_prefix = matches!(self.model, Model::Spm) && space.unwrap_or(true);
        Ok(())
    }
}

/// The kind of tokenizer with the row of its rules, and the name of the row in the file.
fn model(file: &Gguf<'_>) -> Result<(Model, Option<&'static str>), TokenizerError> {
    let Some(name) = file.find::<&[u8]>(MODEL)? else { return Ok((Model::None, None)) };
    let pre = file.find::<&[u8]>(PRE)?.filter(|name| !name.is_empty());
    let pre = match name {
        b"none" | b"no_vocab" => return Ok((Model::None, None)),
        b"llama" => return Ok((Model::Spm, None)),
        b"gpt2" => pre.unwrap_or(b"default"),
        b"gemma4" => b"gemma4",
        _ => return Err(TokenizerError::UnknownModel { found: Label::new(name) }),
    };
    let row = Pre::named(pre).ok_or_else(|| TokenizerError::UnknownPre { found: Label::new(pre) })?;
    Ok((Model::Bpe(row), row.own_name(pre)))
}

/// The number of tokens of a model without a vocabulary: as declared, else the rows of its embedding.
fn declared_len(file: &Gguf<'_>) -> Result<usize, TokenizerError> {
    let architecture = file.find::<&[u8]>("general.architecture").ok().flatten().unwrap_or_default();
    let declared = file
        .metadata()
        .iter()
        .find(|entry| entry.key.strip_prefix(architecture).is_some_and(|rest| rest == b".vocab_size"));
    let len = match declared {
        Some(entry) => Some(entry.value.as_u32().ok_or_else(|| KeyError::Unfit {
            key: Label::new(entry.key),
            expected: "an integer in 0..2^32",
            found: entry.value.kind(),
        })?),
        None => file.tensor("token_embd.weight").and_then(|tensor| u32::try_from(tensor.dims[1]).ok()),
    };
    Ok(len.and_then(|len| usize::try_from(len).ok()).unwrap_or(0))
}

fn strings<'a>(key: &'static str, array: Array<'a>) -> Result<gguf::Strings<'a>, TokenizerError> {
    let found = array.kind();
    array.strings().ok_or(TokenizerError::Elements { key, expected: "strings", found })
}

fn vocabulary<'a>(file: &Gguf<'a>, heap: Heap<'a>) -> Result<Vocabulary<'a>, TokenizerError> {
    let tokens = file.require(TOKENS)?;
    let texts = strings(TOKENS, tokens)?;
    if texts.len() == 0 {
        return Err(TokenizerError::Empty);
    }
    let mut vocabulary = Vocabulary::new(heap, texts)?;
    let count = vocabulary.len();
    if let Some(types) = by_token(file, TYPES, "integers", count, Value::as_i64)? {
        for (id, kind) in vocabulary.ids().zip(types) {
            if let Some(traits) = vocabulary.traits_mut(id) {
                traits.kind = Kind::from_id(kind);
            }
        }
    }
    let number = |value: Value<'_>| value.as_f32().or_else(|| value.as_i64().map(|score| score as f32));
    if let Some(scores) = by_token(file, SCORES, "numbers", count, number)? {
        vocabulary.set_scores(scores)?;
    }
    Ok(vocabulary)
}

/// The numbers of an array indexed by token ids, if the file has it.
fn by_token<'a, T>(
    file: &Gguf<'a>,
    key: &'static str,
    expected: &'static str,
    count: usize,
    number: fn(Value<'a>) -> Option<T>,
) -> Result<Option<impl Iterator<Item = T> + use<'a, T>>, TokenizerError> {
    let Some(array) = file.find::<Array<'a>>(key)? else { return Ok(None) };
    if array.len() < count {
        return Err(TokenizerError::TooShort { key, expected: count, found: array.len() });
    }
    // All elements have one type.
    if array.iter().next().is_some_and(|first| number(first).is_none()) {
        return Err(TokenizerError::Elements { key, expected, found: array.kind() });
    }
    Ok(Some(array.iter().filter_map(number)))
}

/// The tokens that stand for single bytes.
fn byte_tokens(model: Model, vocabulary: &Vocabulary<'_>) -> [Option<TokenId>; 256] {
    let spelt = matches!(model, Model::Bpe(pre) if pre.alphabet == Alphabet::Bytes);
    core::array::from_fn(|byte| {
        let byte = u8::try_from(byte).ok()?;
        if spelt {
            vocabulary.find(alphabet::spell(byte).encode_utf8(&mut [0; 4]).as_bytes())
        } else {
            vocabulary.find(&alphabet::hexadecimal(byte)).or_else(|| vocabulary.find(&[byte]))
        }
    })
}

/// Roles by default, then those that the file names.
fn roles(file: &Gguf<'_>, model: Model, vocabulary: &Vocabulary<'_>) -> Result<Roles, TokenizerError> {
    let mut roles = Roles::default();
    let defaults: &[(Special, u32)] = match model {
        Model::Spm => &[(Special::Bos, 1), (Special::Eos, 2), (Special::Unknown, 0)],
        Model::Bpe(pre) if pre.alphabet == Alphabet::Characters => &[],
        Model::Bpe(pre) if pre.without_bos => &[(Special::Eos, 11)],
        Model::Bpe(_) => &[(Special::Bos, 11), (Special::Eos, 11)],
        Model::None => &[],
    };
    let known = |id: i64| {
        let id = TokenId(u32::try_from(id).ok()?);
        vocabulary.text(id).map(|_| id)
    };
    for (role, id) in defaults {
        roles.set(*role, known((*id).into()));
    }
    for (key, role) in KEYS {
        let Some(found) = file.find::<i64>(key)? else { continue };
        match known(found) {
            Some(id) => roles.set(role, Some(id)),
            // an answer would not end without this token; other roles may be absent
            None if matches!(role, Special::Bos | Special::Eos | Special::Eot) => {
                return Err(TokenizerError::Beyond { key, found, vocab_len: vocabulary.len() });
            }
            None => {}
        }
    }
    Ok(roles)
}

fn suppressed<'a>(
    file: &Gguf<'a>,
    heap: Heap<'a>,
    vocabulary: &Vocabulary<'_>,
) -> Result<heap::Vec<'a, TokenId>, TokenizerError> {
    let mut tokens = heap::Vec::new_in(heap);
    if let Some(ids) = by_token(file, SUPPRESSED, "integers", 0, Value::as_i64)? {
        for id in ids.filter_map(|id| u32::try_from(id).ok()).map(TokenId) {
            if vocabulary.text(id).is_some() {
                heap::push(&mut tokens, id)?;
            }
        }
    }
    Ok(tokens)
}
