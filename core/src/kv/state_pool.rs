//! Recurrent states: one for each running sequence, and in the others checkpoints of computed prefixes.
//!
//! A recurrent state can't be cut back, so a cached prefix helps a model with recurrent layers only as far as there is
//! a checkpoint: the state behind the last token of a full page. A checkpoint belongs to the page's key in the prefix
//! cache and is of no use once the page is evicted.
//!
//! When a state is needed, the checkpoints that are of no use go first, then the least useful one: its value is the
//! number of pages that would have to be computed again without it, and ages with every eviction (GreedyDual, Young
//! 1991). Among equals the least recently used one goes.

use super::prefix_cache::PrefixKey;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::StateId;

/// A state behind a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checkpoint {
    key: PrefixKey,
    /// The age of the pool when it was used last, plus the pages between it and the checkpoint before it.
    value: u64,
    /// Counts uses of all checkpoints.
    used: u64,
    /// Holders outside of the engine; it stays as long as there are any.
    holders: u32,
}

/// Use of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Running,
    /// Waits for its contents to come from outside of the engine.
    Allocated,
    Checkpoint(Checkpoint),
}

/// The states and their uses; the contents are the backend's.
pub struct StatePool<'a> {
    uses: Vec<'a, Use>,
    clock: u64,
    /// Value of the last checkpoint that was evicted.
    age: u64,
}

impl<'a> StatePool<'a> {
    /// A pool of `count` free states.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(count: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self { uses: heap::filled(heap, count as usize, Use::Free)?, clock: 0, age: 0 })
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
        self.uses.iter().filter(|kind| matches!(kind, Use::Checkpoint(_))).count() as u32
    }

    /// The checkpoint behind a prefix.
    pub(super) fn find(&self, prefix: PrefixKey) -> Option<StateId> {
        let has = |kind: &Use| matches!(kind, Use::Checkpoint(Checkpoint { key, .. }) if *key == prefix);
        self.uses.iter().position(has).map(|index| StateId(index as u32))
    }

    /// Marks a checkpoint as just used; it is now `saved` pages behind the one before.
    pub(super) fn touch(&mut self, state: StateId, saved: u32) {
        self.clock += 1;
        if let Some(Use::Checkpoint(checkpoint)) = self.uses.get_mut(state.0 as usize) {
            checkpoint.used = self.clock;
            checkpoint.value = self.age + u64::from(saved);
        }
    }

    /// Takes a state of undefined contents for a running sequence; `source` is the checkpoint that will be copied to it
    /// and is taken itself if there is no other.
    pub(super) fn take_running(
        &mut self,
        source: Option<StateId>,
        is_cached: &dyn Fn(PrefixKey) -> bool,
    ) -> Option<StateId> {
        let source_itself = || source.filter(|&source| self.holders(source) == 0);
        let state = self.victim(source, is_cached).or_else(source_itself)?;
        self.replace(state, Use::Running);
        Some(state)
    }

    /// Takes a state for a checkpoint behind a prefix that ends with a page of the prefix cache, `saved` pages behind the
    /// checkpoint before. `replace` is an earlier checkpoint of the same sequence that the new one makes superfluous.
    /// `None` if all states are in use, or if there is a checkpoint of this prefix already.
    pub(super) fn take_checkpoint(
        &mut self,
        key: PrefixKey,
        saved: u32,
        replace: Option<PrefixKey>,
        is_cached: &dyn Fn(PrefixKey) -> bool,
    ) -> Option<StateId> {
        if let Some(known) = self.find(key) {
            self.touch(known, saved);
            return None;
        }
        let replaced = replace.and_then(|key| self.find(key)).filter(|&state| self.holders(state) == 0);
        let state = match replaced {
            Some(state) => state,
            None => self.victim(None, is_cached)?,
        };
        if replaced.is_none() {
            self.grow_older(state);
        }
        self.make_checkpoint(state, key, saved);
        Some(state)
    }

    /// Takes a state whose contents will come from outside of the engine.
    pub(super) fn allocate(&mut self, is_cached: &dyn Fn(PrefixKey) -> bool) -> Option<StateId> {
        let state = self.victim(None, is_cached)?;
        self.replace(state, Use::Allocated);
        Some(state)
    }

    /// Makes an allocated state the checkpoint behind a prefix; it becomes free if there is one already.
    pub(super) fn insert(&mut self, state: StateId, key: PrefixKey, saved: u32) {
        if self.find(key).is_none() && self.uses.get(state.0 as usize) == Some(&Use::Allocated) {
            self.make_checkpoint(state, key, saved);
        } else {
            self.give_up(state);
        }
    }

    /// Keeps a checkpoint until it is given up.
    pub(super) fn hold(&mut self, state: StateId) {
        if let Some(Use::Checkpoint(checkpoint)) = self.uses.get_mut(state.0 as usize) {
            checkpoint.holders += 1;
        }
    }

    /// Gives back a checkpoint that was held, or a state that was allocated.
    pub(super) fn give_up(&mut self, state: StateId) {
        match self.uses.get_mut(state.0 as usize) {
            Some(Use::Checkpoint(checkpoint)) => checkpoint.holders = checkpoint.holders.saturating_sub(1),
            Some(kind) if *kind == Use::Allocated => *kind = Use::Free,
            _ => {}
        }
    }

    /// Gives back the state of a sequence that no longer runs.
    pub(super) fn release(&mut self, state: StateId) {
        if let Some(kind) = self.uses.get_mut(state.0 as usize) {
            *kind = Use::Free;
        }
    }

    fn make_checkpoint(&mut self, state: StateId, key: PrefixKey, saved: u32) {
        self.clock += 1;
        let value = self.age + u64::from(saved);
        let checkpoint = Checkpoint { key, value, used: self.clock, holders: 0 };
        self.uses[state.0 as usize] = Use::Checkpoint(checkpoint);
    }

    /// Holders of a checkpoint outside of the engine.
    fn holders(&self, state: StateId) -> u32 {
        match self.uses.get(state.0 as usize) {
            Some(Use::Checkpoint(checkpoint)) => checkpoint.holders,
            _ => 0,
        }
    }

    /// Gives a victim another use.
    fn replace(&mut self, state: StateId, kind: Use) {
        self.grow_older(state);
        self.uses[state.0 as usize] = kind;
    }

    /// Lets all checkpoints age by the value of one that is evicted.
    fn grow_older(&mut self, evicted: StateId) {
        if let Some(Use::Checkpoint(checkpoint)) = self.uses.get(evicted.0 as usize) {
            self.age = self.age.max(checkpoint.value);
        }
    }

    /// A free state, else the checkpoint that is missed least, but not `spared`, and none that is held.
    fn victim(&self, spared: Option<StateId>, is_cached: &dyn Fn(PrefixKey) -> bool) -> Option<StateId> {
        let rank = |kind: &Use| match *kind {
            Use::Free => Some((0, 0, 0)),
            Use::Running | Use::Allocated => None,
            Use::Checkpoint(checkpoint) if checkpoint.holders > 0 => None,
            Use::Checkpoint(checkpoint) if !is_cached(checkpoint.key) => Some((1, 0, 0)),
            Use::Checkpoint(checkpoint) => Some((2, checkpoint.value, checkpoint.used)),
        };
        let states = (0..).map(StateId).zip(&self.uses).filter(|(state, _)| Some(*state) != spared);
        let ranked = states.filter_map(|(state, kind)| Some((rank(kind)?, state)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, state)| state)
    }
}
