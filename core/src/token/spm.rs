//! SPM: neighbors join while their text is a token, the highest score first.
//!
//! Source: `llm_tokenizer_spm` of llama.cpp (2026). As in SentencePiece itself, and unlike there, text never
//! joins to a control, unknown or byte token, so that text can never produce `</s>` by its letters.

use super::TokenId;
use super::merge::{Joined, Symbol};
use super::vocabulary::{Kind, Vocabulary};

/// The token with this text, if text may be encoded as it.
pub(super) fn find(vocabulary: &Vocabulary<'_>, text: &[u8]) -> Option<TokenId> {
    let id = vocabulary.find(text)?;
    let reserved = matches!(vocabulary.traits(id).kind, Kind::Control | Kind::Unknown | Kind::Byte);
    (!reserved).then_some(id)
}

/// The token that two neighbors in `text` join to.
pub(super) fn pair(
    vocabulary: &Vocabulary<'_>,
    text: &[u8],
    left: &Symbol,
    right: &Symbol,
) -> Option<Joined> {
    let start = left.start as usize;
    let token = find(vocabulary, text.get(start..start + (left.len + right.len) as usize)?)?;
    Some(Joined { order: descending(vocabulary.score(token)), token })
}

/// A number that is smaller for a higher score; no score at all comes last.
fn descending(score: f32) -> u32 {
    // Adding 0 turns -0 into 0: the two scores are equal.
    let bits = if score.is_nan() { f32::NEG_INFINITY } else { score + 0.0 }.to_bits();
    if bits >> 31 == 0 { !(bits | 1 << 31) } else { bits }
}

/// Bytes of the character that starts with this byte, by its first bits alone.
pub(super) fn char_len(first: u8) -> usize {
    match first {
        0..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_scores_come_first() {
        let scores =
            [f32::INFINITY, 2.0, 1.0, f32::MIN_POSITIVE, 0.0, -1e-40, -1.0, -1e10, f32::NEG_INFINITY];
        for pair in scores.windows(2) {
            assert!(descending(pair[0]) < descending(pair[1]), "{pair:?}");
        }
        assert_eq!(descending(0.0), descending(-0.0));
        assert_eq!(descending(f32::NAN), descending(f32::NEG_INFINITY));
    }
}
