//! The stop texts of a request, searched for all at once: a byte of an answer costs the same for one text as for a
//! thousand (Aho and Corasick 1975).

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::{Builder, NFA};
use aho_corasick::{Anchored, MatchKind};
use core::fmt;
use std::collections::HashMap;

/// Texts that end an answer and are not part of it.
#[derive(Debug, Default)]
pub struct StopTexts {
    texts: Vec<String>,
    /// `None` without texts.
    search: Option<Search>,
}

/// There are more stop texts than can be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStopTexts {
    /// Bytes of all texts.
    pub bytes: usize,
}

impl fmt::Display for TooManyStopTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stop texts of {} bytes are more than can be searched for", self.bytes)
    }
}

impl core::error::Error for TooManyStopTexts {}

/// The automaton, and what it does not tell.
#[derive(Debug)]
struct Search {
    automaton: NFA,
    start: StateID,
    /// Bytes of the beginning of a stop text that a state stands for.
    lengths: HashMap<StateID, usize>,
}

/// A position in a text: the state of the search after all bytes before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position(Option<StateID>);

impl StopTexts {
    /// Texts to search for; empty ones are ignored.
    ///
    /// # Errors
    /// There are billions of them.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, TooManyStopTexts> {
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return Ok(Self::default());
        }
        let too_many = TooManyStopTexts { bytes: texts.iter().map(String::len).sum() };
        let automaton = Builder::new().match_kind(MatchKind::Standard).prefilter(false).build(&texts);
        let automaton = automaton.map_err(|_| too_many)?;
        let start = automaton.start_state(Anchored::No).map_err(|_| too_many)?;
        let mut lengths = HashMap::new();
        for text in &texts {
            let mut state = start;
            for (at, &byte) in text.as_bytes().iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                lengths.insert(state, at + 1);
            }
        }
        Ok(Self { texts, search: Some(Search { automaton, start, lengths }) })
    }

    /// The texts, in order.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The position before any byte.
    pub(super) fn start(&self) -> Position {
        Position(self.search.as_ref().map(|search| search.start))
    }

    /// Goes on by a byte. Returns the stop text that is complete now, by index and length: of several the longest, which
    /// begins first.
    pub(super) fn advance(&self, position: &mut Position, byte: u8) -> Option<(usize, usize)> {
        let (Search { automaton, .. }, state) = (self.search.as_ref()?, position.0.as_mut()?);
        *state = automaton.next_state(Anchored::No, *state, byte);
        if !automaton.is_match(*state) {
            return None;
        }
        let found = (0..automaton.match_len(*state)).map(|index| automaton.match_pattern(*state, index));
        let length = |&pattern: &aho_corasick::PatternID| automaton.pattern_len(pattern);
        let stop = found.max_by_key(|pattern| (length(pattern), core::cmp::Reverse(*pattern)))?;
        Some((stop.as_usize(), length(&stop)))
    }

    /// Bytes before a position that are the beginning of a stop text.
    pub(super) fn begun(&self, position: Position) -> usize {
        let length = |search: &Search| search.lengths.get(&position.0?).copied();
        self.search.as_ref().and_then(length).unwrap_or(0)
    }
}
