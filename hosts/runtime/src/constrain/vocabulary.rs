//! The vocabulary as a trie of the tokens' bytes, which llguidance searches.

use doorbell_core::token::{Kind, TokenId, Tokenizer};
use llguidance::toktrie::{TokRxInfo, TokTrie};

/// The trie; control tokens are marked, so that text never matches them. `None` if no token ends a turn.
pub(super) fn trie(tokenizer: &Tokenizer<'_>) -> Option<TokTrie> {
    let size = u32::try_from(tokenizer.vocab_len()).ok()?;
    let end_tokens: Vec<u32> = tokenizer.eog().map(|token| token.0).collect();
    let &end = end_tokens.first()?;
    let words: Vec<Vec<u8>> = (0..size).map(|id| word(tokenizer, TokenId(id))).collect();
    Some(TokTrie::from(&TokRxInfo::new(size, end), &words).with_eos_tokens(&end_tokens))
}

fn word(tokenizer: &Tokenizer<'_>, id: TokenId) -> Vec<u8> {
    match tokenizer.kind(id) {
        Kind::Control | Kind::Unknown => {
            let text = tokenizer.text(id).unwrap_or_default();
            core::iter::once(TokTrie::SPECIAL_TOKEN_MARKER).chain(text.iter().copied()).collect()
        }
        Kind::Unused => Vec::new(),
        _ => {
            let bytes: Vec<u8> = tokenizer.bytes(id, false).collect();
            // the marker byte does not occur in UTF-8, so no grammar needs a token that begins with it
            if bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER) { Vec::new() } else { bytes }
        }
    }
}
