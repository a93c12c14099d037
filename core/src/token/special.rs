//! Tokens with a role: begin, end of text, of turn, of message, fill-in-the-middle; and the ones that end an
//! answer.
//!
//! Source: `llama_vocab::impl::load` of llama.cpp (2026): keys, texts and corrections. Files often miss
//! roles, so most are found by text as well. Unlike there, a text that merges can make is text and has no role:
//! Qwen's `</s>` closes a struck-through word of HTML.

use super::TokenId;
use super::bpe::Merges;
use super::vocabulary::{Kind, Vocabulary};

/// A role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Special {
    /// Begin of text.
    Bos,
    /// End of text.
    Eos,
    /// End of turn.
    Eot,
    /// End of message.
    Eom,
    /// Unknown token.
    Unknown,
    /// Separator.
    Separator,
    /// Padding.
    Padding,
    /// Mask.
    Mask,
    /// Fill in the middle: before the prefix.
    FimPrefix,
    /// Fill in the middle: before the suffix.
    FimSuffix,
    /// Fill in the middle: before the middle.
    FimMiddle,
    /// Fill in the middle: padding.
    FimPadding,
    /// Fill in the middle: repository.
    FimRepository,
    /// Fill in the middle: between files.
    FimSeparator,
}

/// The number of roles.
pub(super) const ROLES: usize = 14;

/// Roles by key; a later key of the same role wins.
pub(super) const KEYS: [(&str, Special); 17] = [
    ("tokenizer.ggml.bos_token_id", Special::Bos),
    ("tokenizer.ggml.eos_token_id", Special::Eos),
    ("tokenizer.ggml.eot_token_id", Special::Eot),
    ("tokenizer.ggml.eom_token_id", Special::Eom),
    ("tokenizer.ggml.unknown_token_id", Special::Unknown),
    // The misspelling is part of the format.
    ("tokenizer.ggml.seperator_token_id", Special::Separator),
    ("tokenizer.ggml.padding_token_id", Special::Padding),
    ("tokenizer.ggml.mask_token_id", Special::Mask),
    ("tokenizer.ggml.fim_pre_token_id", Special::FimPrefix),
    ("tokenizer.ggml.fim_suf_token_id", Special::FimSuffix),
    ("tokenizer.ggml.fim_mid_token_id", Special::FimMiddle),
    ("tokenizer.ggml.fim_pad_token_id", Special::FimPadding),
    ("tokenizer.ggml.fim_rep_token_id", Special::FimRepository),
    ("tokenizer.ggml.fim_sep_token_id", Special::FimSeparator),
    // Deprecated.
    ("tokenizer.ggml.prefix_token_id", Special::FimPrefix),
    ("tokenizer.ggml.suffix_token_id", Special::FimSuffix),
    ("tokenizer.ggml.middle_token_id", Special::FimMiddle),
];

/// Roles by text, for files that name none; the first text that the vocabulary has is used.
#[rustfmt::skip]
const TEXTS: [(Special, &[&str]); 8] = [
    (Special::Eot, &[
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
        "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
    ]),
    (Special::Eom, &["<|eom_id|>"]),
    (Special::FimPrefix, &[
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>",
    ]),
    (Special::FimSuffix, &[
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>",
    ]),
    (Special::FimMiddle, &[
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>",
    ]),
    (Special::FimPadding, &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"]),
    (Special::FimRepository, &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"]),
    (Special::FimSeparator, &["<|file_sep|>"]),
];

/// Texts that end an answer in every model that has them.
const ENDS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// gpt-oss: markup of the channels, which is always shown.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Roles whose tokens end an answer.
const ENDING_ROLES: [Special; 6] = [
    Special::Eos,
    Special::Eot,
    Special::Eom,
    Special::FimPadding,
    Special::FimRepository,
    Special::FimSeparator,
];

/// The tokens by role.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Roles([Option<TokenId>; ROLES]);

impl Roles {
    pub(super) fn get(&self, role: Special) -> Option<TokenId> {
        self.0[role as usize]
    }

    pub(super) fn set(&mut self, role: Special, token: Option<TokenId>) {
        self.0[role as usize] = token;
    }
}

/// Finds the roles that the file does not name, corrects the kinds of tokens, and marks those that end an answer.
pub(super) fn settle(roles: &mut Roles, vocabulary: &mut Vocabulary<'_>, merges: &Merges<'_>) {
    let markup = |vocabulary: &Vocabulary<'_>, text: &str| {
        let id = vocabulary.find(text.as_bytes())?;
        (vocabulary.traits(id).kind != Kind::Normal || !merges.make(id)).then_some(id)
    };
    for (role, texts) in TEXTS {
        if roles.get(role).is_none()
            && let Some(id) = texts.iter().find_map(|text| markup(vocabulary, text))
        {
            roles.set(role, Some(id));
            retype(vocabulary, id, Kind::Control);
        }
    }
    for text in ENDS {
        if let Some(id) = markup(vocabulary, text) {
            retype(vocabulary, id, Kind::Control);
            set_end(vocabulary, id, true);
        }
    }
    for text in SHOWN {
        if let Some(id) = vocabulary.find(text.as_bytes()) {
            retype(vocabulary, id, Kind::UserDefined);
        }
    }
    for role in ENDING_ROLES {
        if let Some(id) = roles.get(role) {
            set_end(vocabulary, id, true);
        }
    }
    correct(vocabulary);
}

/// Removes end marks from tokens that some families use for another purpose.
fn correct(vocabulary: &mut Vocabulary<'_>) {
    let ends = |text: &str| {
        let id = vocabulary.find(text.as_bytes());
        id.filter(|id| vocabulary.traits(*id).ends)
    };
    let has = |text| ends(text).is_some();
    // gpt-oss and solar-open end a channel with it, not the answer.
    let called = has("<|call|>") || has("<|calls|>");
    let channels = called && (has("<|return|>") || has("<|flush|>"));
    let channel_end = ends("<|end|>").filter(|_| channels);
    // gemma4 and plamo have it as text.
    let text = ends("</s>").filter(|_| has("<|tool_response>") || has("<|plamo:eos|>"));
    if let Some(id) = channel_end {
        set_end(vocabulary, id, false);
        retype(vocabulary, id, Kind::UserDefined);
    }
    if let Some(id) = text {
        set_end(vocabulary, id, false);
        retype(vocabulary, id, Kind::Normal);
    }
}

fn retype(vocabulary: &mut Vocabulary<'_>, id: TokenId, kind: Kind) {
    if let Some(traits) = vocabulary.traits_mut(id) {
        traits.kind = kind;
    }
}

fn set_end(vocabulary: &mut Vocabulary<'_>, id: TokenId, ends: bool) {
    if let Some(traits) = vocabulary.traits_mut(id) {
        traits.ends = ends;
    }
}

/// Tokens that absorb white space, by a part of the model's name in lower case; files do not declare it.
pub(super) fn set_stripping(name: &[u8], vocabulary: &mut Vocabulary<'_>) {
    let contains = |part: &[u8]| name.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    if contains(b"phi-3") || contains(b"phi3") {
        for id in vocabulary.ids() {
            let text = vocabulary.text(id).unwrap_or_default();
            let kept = matches!(text, b"<unk>" | b"<s>" | b"<|endoftext|>");
            let kind = vocabulary.traits(id).kind;
            let special =
                matches!(kind, Kind::Control | Kind::UserDefined | Kind::Unknown) || text == b"</s>";
            if let Some(traits) = vocabulary.traits_mut(id) {
                traits.strips_right = special && !kept;
            }
        }
    } else if contains(b"modern-bert")
        && let Some(traits) = vocabulary.find(b"[MASK]").and_then(|id| vocabulary.traits_mut(id))
    {
        traits.strips_left = true;
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::super::vocabulary::Traits;
    use super::*;
    use crate::heap;

    /// The `texts` that end an answer, all normal tokens at first, and their kinds afterwards.
    fn check(texts: &'static [&'static str], expected: &[&str]) -> alloc::vec::Vec<Kind> {
        let bytes = texts.iter().map(|text| text.as_bytes());
        let mut vocabulary = Vocabulary::new(&heap::Global, bytes).unwrap();
        settle(&mut Roles::default(), &mut vocabulary, &Merges::empty(&heap::Global));
        let ends = vocabulary.ids().filter(|id| vocabulary.traits(*id).ends);
        let ends: alloc::vec::Vec<_> = ends.map(|id| texts[id.0 as usize]).collect();
        assert_eq!(ends, expected);
        vocabulary.ids().map(|id| vocabulary.traits(id).kind).collect()
    }

    #[test]
    fn known_texts_end_an_answer() {
        let kinds = check(
            &["a", "<|im_end|>", "<|endoftext|>", "<|file_sep|>", "x"],
            &["<|im_end|>", "<|endoftext|>", "<|file_sep|>"],
        );
        assert_eq!(kinds, [Kind::Normal, Kind::Control, Kind::Control, Kind::Control, Kind::Normal]);
    }

    #[test]
    fn what_merges_make_is_text() {
        let texts: [&[u8]; 4] = [b"</", b"s>", b"</s>", b"<|im_end|>"];
        let mut vocabulary = Vocabulary::new(&heap::Global, texts.into_iter()).unwrap();
        let merges = Merges::new(&heap::Global, [&b"</ s>"[..]].into_iter(), &vocabulary).unwrap();
        settle(&mut Roles::default(), &mut vocabulary, &merges);
        assert_eq!(vocabulary.traits(TokenId(2)), Traits::default());
        assert!(vocabulary.traits(TokenId(3)).ends);
    }

    #[test]
    fn channels_of_gpt_oss_do_not_end_it() {
        let kinds = check(&["<|end|>", "<|return|>", "<|call|>", "<|channel|>"], &["<|return|>", "<|call|>"]);
        assert_eq!(kinds[0], Kind::UserDefined);
        assert_eq!(kinds[3], Kind::UserDefined);
        check(&["<|end|>", "<|call|>"], &["<|end|>", "<|call|>"]);
        check(&["<|end|>", "<|calls|>", "<|flush|>"], &["<|calls|>", "<|flush|>"]);
        check(&["<|end|>", "<|return|>"], &["<|end|>", "<|return|>"]);
    }

    #[test]
    fn gemma_has_the_end_of_others_as_text() {
        let kinds = check(&["</s>", "<|tool_response>", "<eos>"], &["<|tool_response>", "<eos>"]);
        assert_eq!(kinds[0], Kind::Normal);
        check(&["</s>", "<eos>"], &["</s>", "<eos>"]);
    }

    #[test]
    fn phi_3_swallows_space_behind_markup() {
        let texts = ["<s>", "</s>", "<|user|>", "a"];
        let mut vocabulary =
            Vocabulary::new(&heap::Global, texts.iter().map(|text| text.as_bytes())).unwrap();
        for id in 0..3 {
            retype(&mut vocabulary, TokenId(id), Kind::Control);
        }
        set_stripping(b"Microsoft Phi-3 mini", &mut vocabulary);
        let stripping: alloc::vec::Vec<_> =
            vocabulary.ids().map(|id| vocabulary.traits(id).strips_right).collect();
        assert_eq!(stripping, [false, true, true, false]);
    }
}
