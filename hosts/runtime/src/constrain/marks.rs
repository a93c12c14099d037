//! The tokens between which a model reasons. Their texts in an answer are `crate::answer`'s matter.

use crate::answer::{CallStyle, Style};
use doorbell_core::token::{TokenId, Tokenizer};

/// The channel of gpt-oss that is reasoning, and those that aren't.
const REASONING: &str = "analysis";
const OTHERS: [&str; 2] = ["final", "commentary"];

/// Where reasoning begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Between two tokens, once in an answer.
    Pair {
        /// In front.
        open: TokenId,
        /// Behind.
        close: TokenId,
    },
    /// In messages of a channel, as many as the model likes.
    Channel(Channel),
}

/// The markup of gpt-oss: `<|channel|>analysis<|message|>...<|end|>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub(super) channel: TokenId,
    pub(super) message: TokenId,
    pub(super) end: TokenId,
    /// Tokens of which the name of the channel can consist, with their texts.
    pub(super) pieces: Vec<(TokenId, &'static str)>,
    /// Tokens that begin the names of other channels.
    pub(super) others: Vec<TokenId>,
}

impl Marks {
    /// The marks of a style; `None` if it has none, or if they are no tokens of the vocabulary.
    #[must_use]
    pub fn of(style: Style, tokenizer: &Tokenizer<'_>) -> Option<Self> {
        let find = |text: &str| tokenizer.find(text.as_bytes());
        if let Some(marks) = style.thinking {
            return Some(Self::Pair { open: find(marks.open)?, close: find(marks.close)? });
        }
        if style.calls != CallStyle::Harmony {
            return None;
        }
        let parts = (0..REASONING.len()).flat_map(|from| (from..REASONING.len()).map(move |to| from..=to));
        let pieces = parts.filter_map(|part| Some((find(&REASONING[part.clone()])?, &REASONING[part])));
        let beginnings = OTHERS.iter().flat_map(|name| (1..=name.len()).map(move |end| &name[..end]));
        let others: Vec<TokenId> = beginnings.filter_map(find).collect();
        let [channel, message, end] = [find("<|channel|>")?, find("<|message|>")?, find("<|end|>")?];
        let marks = Channel { channel, message, end, pieces: pieces.collect(), others };
        (!marks.others.is_empty()).then_some(Self::Channel(marks))
    }

    /// What ends reasoning.
    pub(super) fn close(&self) -> TokenId {
        match self {
            Self::Pair { close, .. } => *close,
            Self::Channel(channel) => channel.end,
        }
    }
}

impl Channel {
    /// How many bytes of the name are there with `token`, behind so many; `None` if it's another name.
    pub(super) fn name(&self, read: usize, token: TokenId) -> Option<usize> {
        let rest = REASONING.get(read..)?;
        let mut pieces = self.pieces.iter().filter(|(piece, _)| *piece == token);
        pieces.find(|(_, text)| rest.starts_with(text)).map(|(_, text)| read + text.len())
    }

    /// Whether so many bytes are the whole name.
    pub(super) fn named(read: usize) -> bool {
        read == REASONING.len()
    }
}
