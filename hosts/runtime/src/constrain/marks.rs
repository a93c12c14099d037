//! The tokens that open and close reasoning.
//!
//! Not here: the same marks as text (`crate::answer`).

use crate::answer::{CallStyle, Style};
use doorbell_core::token::{TokenId, Tokenizer};

/// The reasoning channel of gpt-oss, and its other channels.
const REASONING: &str = "analysis";
const OTHERS: [&str; 2] = ["final", "commentary"];

/// The marks around reasoning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReasoningMarks {
    /// A pair of tokens, once in an answer.
    Pair {
        /// The opening token.
        open: TokenId,
        /// The closing token.
        close: TokenId,
    },
    /// Messages in a channel, any number of them.
    Channel(HarmonyChannel),
}

/// The markup of gpt-oss: `<|channel|>analysis<|message|>...<|end|>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarmonyChannel {
    pub(super) channel: TokenId,
    pub(super) message: TokenId,
    pub(super) end: TokenId,
    /// Tokens that the name of the channel can consist of, with their texts.
    pub(super) pieces: Vec<(TokenId, &'static str)>,
    /// Tokens that begin the names of other channels.
    pub(super) others: Vec<TokenId>,
}

impl ReasoningMarks {
    /// The marks of a style; `None` if it has none, or if the vocabulary has no tokens for them.
    #[must_use]
    pub fn of(style: Style, tokenizer: &Tokenizer<'_>) -> Option<Self> {
        let find = |text: &str| tokenizer.find(text.as_bytes());
        if let Some(marks) = style.thinking {
            let open = find(marks.open).or_else(|| find(marks.opening_token()))?;
            return Some(Self::Pair { open, close: find(marks.close)? });
        }
        if style.calls != CallStyle::Harmony {
            return None;
        }
        let parts = (0..REASONING.len()).flat_map(|from| (from..REASONING.len()).map(move |to| from..=to));
        let pieces = parts.filter_map(|part| Some((find(&REASONING[part.clone()])?, &REASONING[part])));
        let beginnings = OTHERS.iter().flat_map(|name| (1..=name.len()).map(move |end| &name[..end]));
        let others: Vec<TokenId> = beginnings.filter_map(find).collect();
        let [channel, message, end] = [find("<|channel|>")?, find("<|message|>")?, find("<|end|>")?];
        let marks = HarmonyChannel { channel, message, end, pieces: pieces.collect(), others };
        (!marks.others.is_empty()).then_some(Self::Channel(marks))
    }

    /// The token that ends reasoning.
    pub(super) fn close(&self) -> TokenId {
        match self {
            Self::Pair { close, .. } => *close,
            Self::Channel(channel) => channel.end,
        }
    }
}

impl HarmonyChannel {
    /// The length of the name's prefix after `token` extends a prefix of `read` bytes; `None` if the name differs.
    pub(super) fn name(&self, read: usize, token: TokenId) -> Option<usize> {
        let rest = REASONING.get(read..)?;
        let mut pieces = self.pieces.iter().filter(|(piece, _)| *piece == token);
        pieces.find(|(_, text)| rest.starts_with(text)).map(|(_, text)| read + text.len())
    }

    /// True if a prefix of `read` bytes is the whole name.
    pub(super) fn named(read: usize) -> bool {
        read == REASONING.len()
    }
}
