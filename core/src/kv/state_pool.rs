//! Recurrent states: one for each running sequence, and in the others checkpoints of computed prefixes.
//!
//! A recurrent state can't be cut back, so a cached prefix helps a model with recurrent layers only as far as there is
//! a checkpoint: the state behind the last token of a full page. A checkpoint belongs to the page's key in the prefix
//! cache and is of no use once the page is evicted. When a state is needed, the checkpoints that are of no use go
//! first, then the least recently used one.

use super::prefix_cache::PrefixKey;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::StateId;

/// Use of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Running,
    Checkpoint { key: PrefixKey, used: u64 },
}

/// The states and their uses; the contents are the backend's.
pub struct StatePool<'a> {
    uses: Vec<'a, Use>,
    clock: u64,
}

impl<'a> StatePool<'a> {
    /// A pool of `count` free states.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self { uses: heap::filled(heap, count as usize, Use::Free)?, clock: 0 })
    }

    /// Bytes of heap of a pool of `count` states.
    pub fn bytes(count: u32) -> usize {
        size_of::<Use>().saturating_mul(count as usize)
    }

    /// Number of all states.
    pub fn total(&self) -> u32 {
        self.uses.len() as u32
    }

    /// Number of states of running sequences.
    pub fn running(&self) -> u32 {
        self.uses.iter().filter(|kind| **kind == Use::Running).count() as u32
    }

    /// Number of checkpoints.
    pub fn checkpoints(&self) -> u32 {
        self.uses.iter().filter(|kind| matches!(kind, Use::Checkpoint { .. })).count() as u32
    }

    /// The checkpoint behind a prefix.
    pub(super) fn find(&self, prefix: PrefixKey) -> Option<StateId> {
        let has = |kind: &Use| matches!(kind, Use::Checkpoint { key, .. } if *key == prefix);
        self.uses.iter().position(has).map(|index| StateId(index as u32))
    }

    /// Marks a checkpoint as just used.
    pub(super) fn touch(&mut self, state: StateId) {
        self.clock += 1;
        if let Some(Use::Checkpoint { used, .. }) = self.uses.get_mut(state.0 as usize) {
            *used = self.clock;
        }
    }

    /// Takes a state of undefined contents for a running sequence; `source` is the checkpoint that will be copied to it
    /// and is taken itself if there is no other.
    pub(super) fn take_running(
        &mut self,
        source: Option<StateId>,
        is_cached: &dyn Fn(PrefixKey) -> bool,
    ) -> Option<StateId> {
        let state = self.victim(source, is_cached).or(source)?;
        self.uses[state.0 as usize] = Use::Running;
        Some(state)
    }

    /// Takes a state for a checkpoint behind a prefix that ends with a page of the prefix cache. `replace` is an earlier
    /// checkpoint of the same sequence that the new one makes superfluous. `None` if all states are of running
    /// sequences, or if there is a checkpoint of this prefix already.
    pub(super) fn take_checkpoint(
        &mut self,
        key: PrefixKey,
        replace: Option<PrefixKey>,
        is_cached: &dyn Fn(PrefixKey) -> bool,
    ) -> Option<StateId> {
        if let Some(known) = self.find(key) {
            self.touch(known);
            return None;
        }
        let replaced = replace.and_then(|key| self.find(key));
        let state = replaced.or_else(|| self.victim(None, is_cached))?;
        self.clock += 1;
        self.uses[state.0 as usize] = Use::Checkpoint { key, used: self.clock };
        Some(state)
    }

    /// Gives back the state of a sequence that no longer runs.
    pub(super) fn release(&mut self, state: StateId) {
        if let Some(kind) = self.uses.get_mut(state.0 as usize) {
            *kind = Use::Free;
        }
    }

    /// A free state, else the checkpoint that is missed least, but not `spared`.
    fn victim(&self, spared: Option<StateId>, is_cached: &dyn Fn(PrefixKey) -> bool) -> Option<StateId> {
        let rank = |kind: &Use| match *kind {
            Use::Free => Some((0, 0)),
            Use::Running => None,
            Use::Checkpoint { key, .. } if !is_cached(key) => Some((1, 0)),
            Use::Checkpoint { used, .. } => Some((2, used)),
        };
        let states = (0..).map(StateId).zip(&self.uses).filter(|(state, _)| Some(*state) != spared);
        let ranked = states.filter_map(|(state, kind)| Some((rank(kind)?, state)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, state)| state)
    }
}
