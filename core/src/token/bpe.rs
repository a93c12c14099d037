//! Byte pair encoding by merges: the table of merges and the encoding of one word.
//!
//! Words come from `split`. Source: `llm_tokenizer_bpe` of llama.cpp (2026).

use super::TokenId;
use super::merge::Joined;
use super::vocabulary::{Vocabulary, mix};
use crate::heap::{Heap, OutOfMemory};
use hashbrown::HashTable;

/// Pairs of tokens and the tokens that they merge into.
#[derive(Debug)]
pub(super) struct Merges<'a>(HashTable<Merge, Heap<'a>>);

#[derive(Clone, Copy, Debug)]
struct Merge {
    left: TokenId,
    right: TokenId,
    joined: Joined,
}

fn hash(left: TokenId, right: TokenId) -> u64 {
    mix(u64::from(left.0) << 32 | u64::from(right.0))
}

impl<'a> Merges<'a> {
    /// No merges.
    pub(super) fn empty(heap: Heap<'a>) -> Self {
        Self(HashTable::new_in(heap))
    }

    /// Merges in the order of their rank, each "left right".
    ///
    /// The split is at the first blank that is not the first character. A merge is ignored if it has no
    /// blank, if a text of it is no token, or if its result is no token. Of two equal merges the first is used.
    pub(super) fn new(
        heap: Heap<'a>,
        lines: impl ExactSizeIterator<Item = &'a [u8]>,
        vocabulary: &Vocabulary<'a>,
    ) -> Result<Self, OutOfMemory> {
        let mut table = HashTable::new_in(heap);
        let refused = OutOfMemory { bytes: lines.len().saturating_mul(size_of::<Merge>()) };
        table.try_reserve(lines.len(), |_| 0).map_err(|_| refused)?;
        // Most vocabularies have the results in the order of the merges.
        let mut next = None;
        for (line, order) in lines.zip(0_u32..) {
            let Some(merge) = read(line, order, next, vocabulary) else { continue };
            next = merge.joined.token.0.checked_add(1).map(TokenId);
            let code = hash(merge.left, merge.right);
            if table.find(code, |other| same(other, merge.left, merge.right)).is_none() {
                // The capacity is reserved above.
                table.insert_unique(code, merge, |other| hash(other.left, other.right));
            }
        }
        Ok(Self(table))
    }

    /// Bytes taken from the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.allocation_size()
    }

    /// True if a merge makes this token; linear in the number of merges.
    pub(super) fn make(&self, token: TokenId) -> bool {
        self.0.iter().any(|merge| merge.joined.token == token)
    }

    /// The token that two tokens merge into.
    pub(super) fn get(&self, left: TokenId, right: TokenId) -> Option<Joined> {
        self.0.find(hash(left, right), |other| same(other, left, right)).map(|merge| merge.joined)
    }
}

fn same(merge: &Merge, left: TokenId, right: TokenId) -> bool {
    merge.left == left && merge.right == right
}

/// The merge of a line; its result is first looked up at `guess`.
fn read(line: &[u8], order: u32, guess: Option<TokenId>, vocabulary: &Vocabulary<'_>) -> Option<Merge> {
    let blank = 1 + line.get(1..)?.iter().position(|byte| *byte == b' ')?;
    let (left, right) = (&line[..blank], &line[blank + 1..]);
    let token = match guess.filter(|guess| vocabulary.is_joined(*guess, left, right)) {
        Some(guess) => guess,
        None => vocabulary.find_joined(left, right)?,
    };
    let joined = Joined { order, token };
    Some(Merge { left: vocabulary.find(left)?, right: vocabulary.find(right)?, joined })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap;

    /// Lines without a merge, and the split at the first blank after the first character.
    #[test]
    fn merges_that_cannot_be_are_left_out() {
        let texts: [&[u8]; 5] = [b"a", b"b", b"ab", b" ", b" a"];
        let vocabulary = Vocabulary::new(&heap::Global, texts.into_iter()).unwrap();
        let lines: [&[u8]; 9] = [b"", b"a", b" ", b"a c", b"b a", b"a b", b"a b", b"  a", b"\xff \xfe"];
        let merges = Merges::new(&heap::Global, lines.into_iter(), &vocabulary).unwrap();
        let found = |left, right| merges.get(TokenId(left), TokenId(right));
        assert_eq!(found(0, 1), Some(Joined { order: 5, token: TokenId(2) }));
        assert_eq!(found(3, 0), Some(Joined { order: 7, token: TokenId(4) }));
        assert_eq!(merges.0.len(), 2);
        assert_eq!(found(9, 9), None);
    }
}
