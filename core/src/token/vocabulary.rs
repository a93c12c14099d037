//! The tokens of a model: text, kind and score by id, and the id by text.
//!
//! Texts are borrowed from the file. The effect of kinds on a prompt is in `markup`, the ends of answers in
//! `special`.

use super::{TokenId, TokenizerError};
use crate::heap::{self, Heap, OutOfMemory};
use hashbrown::HashTable;

/// The kind of a token, by `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    #[default]
    Normal,
    /// For text that the vocabulary can't express.
    Unknown,
    /// Markup that no text may produce.
    Control,
    /// Text that is one token wherever it occurs.
    UserDefined,
    /// Reserved and unused.
    Unused,
    /// A single byte.
    Byte,
    /// None of these.
    Undefined,
}

impl Kind {
    /// The kind by its number in files.
    pub fn from_id(id: i64) -> Self {
        match id {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Undefined,
        }
    }
}

/// Further properties of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) kind: Kind,
    /// Generation ends with it.
    pub(super) ends: bool,
    /// It absorbs the white space before it.
    pub(super) strips_left: bool,
    /// It absorbs the white space after it.
    pub(super) strips_right: bool,
}

/// Tokens by id and by text.
#[derive(Debug)]
pub(super) struct Vocabulary<'a> {
    texts: heap::Vec<'a, &'a [u8]>,
    traits: heap::Vec<'a, Traits>,
    scores: heap::Vec<'a, f32>,
    by_text: HashTable<u32, Heap<'a>>,
    longest: usize,
}

/// Average comparisons per text above which a vocabulary is refused, as made for collisions; about one is usual.
const COMPARED: usize = 16;

/// Comparisons that are always accepted.
const SMALL: usize = 4096;

/// FNV-1a over the concatenation, then mixed, because the table uses both ends of the word.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in *part {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    mix(state)
}

/// Spreads every bit over the whole word.
pub(super) fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word = (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ word >> 32
}

impl<'a> Vocabulary<'a> {
    /// No tokens.
    pub(super) fn empty(heap: Heap<'a>) -> Self {
        Self {
            texts: heap::Vec::new_in(heap),
            traits: heap::Vec::new_in(heap),
            scores: heap::Vec::new_in(heap),
            by_text: HashTable::new_in(heap),
            longest: 0,
        }
    }

    /// Tokens by ascending id, of which there must be less than 2^32 - 1.
    ///
    /// If texts repeat, the last id is found. An empty text is never found.
    ///
    /// Texts can be chosen so that all share one bucket of the table, and each would be compared with all before it. Such
    /// vocabularies are refused.
    pub(super) fn new(
        heap: Heap<'a>,
        texts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Self, TokenizerError> {
        let mut this = Self::empty(heap);
        let count = texts.len();
        heap::reserve(&mut this.texts, count)?;
        heap::reserve(&mut this.traits, count)?;
        let refused = OutOfMemory { bytes: count.saturating_mul(size_of::<u32>()) };
        this.by_text.try_reserve(count, |_| 0).map_err(|_| refused)?;
        let (mut compared, most) = (0_usize, count.saturating_mul(COMPARED).saturating_add(SMALL));
        for (text, id) in texts.zip(0_u32..) {
            if compared > most {
                return Err(TokenizerError::Collisions { vocab_len: count });
            }
            heap::push(&mut this.texts, text)?;
            heap::push(&mut this.traits, Traits::default())?;
            this.longest = this.longest.max(text.len());
            if text.is_empty() {
                continue;
            }
            let known = &this.texts;
            let code = hash(&[text]);
            let same = |other: &u32| {
                compared += 1;
                known[*other as usize] == text
            };
            match this.by_text.find_mut(code, same) {
                Some(present) => *present = id,
                None => {
                    // The capacity is reserved above.
                    this.by_text.insert_unique(code, id, |other| hash(&[known[*other as usize]]));
                }
            }
        }
        Ok(this)
    }

    /// Gives every token its score.
    pub(super) fn set_scores(&mut self, scores: impl Iterator<Item = f32>) -> Result<(), OutOfMemory> {
        heap::reserve(&mut self.scores, self.texts.len())?;
        for score in scores.take(self.texts.len()) {
            heap::push(&mut self.scores, score)?;
        }
        Ok(())
    }

    /// Bytes taken from the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = heap::held(&self.texts) + heap::held(&self.traits) + heap::held(&self.scores);
        lists + self.by_text.allocation_size()
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The text as it is in the file.
    pub(super) fn text(&self, id: TokenId) -> Option<&'a [u8]> {
        self.texts.get(usize::try_from(id.0).ok()?).copied()
    }

    /// The properties of a token; an id beyond the vocabulary is undefined.
    pub(super) fn traits(&self, id: TokenId) -> Traits {
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.traits.get(index).copied().unwrap_or(Traits { kind: Kind::Undefined, ..Traits::default() })
    }

    /// The same, mutable.
    pub(super) fn traits_mut(&mut self, id: TokenId) -> Option<&mut Traits> {
        self.traits.get_mut(usize::try_from(id.0).ok()?)
    }

    /// The score, 0 if the file has none.
    pub(super) fn score(&self, id: TokenId) -> f32 {
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.scores.get(index).copied().unwrap_or(0.0)
    }

    /// The token with this text.
    pub(super) fn find(&self, text: &[u8]) -> Option<TokenId> {
        if text.len() > self.longest {
            return None;
        }
        self.by_text.find(hash(&[text]), |id| self.texts[*id as usize] == text).map(|id| TokenId(*id))
    }

    /// The token whose text is `left` and then `right`.
    pub(super) fn find_joined(&self, left: &[u8], right: &[u8]) -> Option<TokenId> {
        if left.len().saturating_add(right.len()) > self.longest {
            return None;
        }
        let same = |id: &u32| self.texts[*id as usize].strip_prefix(left) == Some(right);
        self.by_text.find(hash(&[left, right]), same).map(|id| TokenId(*id))
    }

    /// True if the text of this token is `left` and then `right`; false if several tokens have that text.
    pub(super) fn is_joined(&self, id: TokenId, left: &[u8], right: &[u8]) -> bool {
        let unique = self.by_text.len() == self.texts.len();
        unique && self.text(id).and_then(|text| text.strip_prefix(left)) == Some(right)
    }

    /// Every id.
    pub(super) fn ids(&self) -> impl Iterator<Item = TokenId> + use<> {
        // The constructor limits the number.
        (0..u32::try_from(self.texts.len()).unwrap_or(0)).map(TokenId)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn vocabulary(texts: &'static [&'static str]) -> Vocabulary<'static> {
        Vocabulary::new(&heap::Global, texts.iter().map(|text| text.as_bytes())).unwrap()
    }

    #[test]
    fn texts_are_found_whole_and_in_parts() {
        let vocabulary = vocabulary(&["a", "ab", "abc", "", "ab"]);
        assert_eq!(vocabulary.find(b"a"), Some(TokenId(0)));
        assert_eq!(vocabulary.find(b"ab"), Some(TokenId(4)), "the last of two");
        assert_eq!(vocabulary.find_joined(b"ab", b"c"), Some(TokenId(2)));
        assert_eq!(vocabulary.find_joined(b"", b"abc"), Some(TokenId(2)));
        assert_eq!(vocabulary.find_joined(b"abc", b"c"), None);
        assert!(!vocabulary.is_joined(TokenId(2), b"ab", b"c"), "texts repeat");
        assert_eq!(vocabulary.find(b""), None);
        assert_eq!(vocabulary.find(b"abcd"), None);
        assert_eq!((vocabulary.len(), vocabulary.longest()), (5, 3));
        assert_eq!(vocabulary.traits(TokenId(9)).kind, Kind::Undefined);
        assert_eq!(vocabulary.score(TokenId(9)), 0.0);
    }

    #[test]
    fn texts_that_share_one_hash_slot_are_refused() {
        let crowded = |count: usize| {
            // Of 256 buckets the first, and one tag.
            let index = |text: &String| hash(&[text.as_bytes()]) & 0xfe00_0000_0000_00ff == 0;
            let texts: Vec<String> = (0..).map(|n: u32| format!("{n}")).filter(index).take(count).collect();
            Vocabulary::new(&heap::Global, texts.iter().map(|text| text.as_bytes())).err()
        };
        assert_eq!(crowded(30), None);
        assert_eq!(crowded(200), Some(TokenizerError::Collisions { vocab_len: 200 }));
    }

    /// Counts comparisons instead of time: a text is compared with few others, for any number of texts.
    #[test]
    fn work_does_not_grow_with_the_vocabulary() {
        for count in [75_968, 151_936, 303_872] {
            // As merges make them: many share prefixes and suffixes.
            let texts: Vec<String> =
                (0..count).map(|id| format!("\u{120}{:x} {}", id % 251, id / 251)).collect();
            let vocabulary =
                Vocabulary::new(&heap::Global, texts.iter().map(|text| text.as_bytes())).unwrap();
            let compared = |text: &String| vocabulary.by_text.iter_hash(hash(&[text.as_bytes()])).count();
            let all: usize = texts.iter().map(compared).sum();
            assert!((count..count + count / 4).contains(&all), "{all} comparisons for {count} texts");
            assert!(texts.iter().map(compared).max() < Some(8));
        }
    }
}
