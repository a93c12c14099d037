//! The pools of all KV groups of a model, behind one interface: pages are taken in every pool or in none.
//!
//! Groups whose pages live equally long share a pool, and then the same page number stands for the pages of all of
//! them. All groups of today's models keep every page of a sequence until it ends, so that they share one pool. A group
//! with another rule, such as a window, gets a pool of its own.

use super::block_pool::BlockPool;
use super::page_table::SequencePages;
use super::prefix_cache::PageHash;
use super::state_pool::StatePool;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{GroupId, PAGE_TOKENS, PageId, StateId};
use crate::token::TokenId;

/// A copy of a recurrent state that the backend has to make before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCopy {
    /// The state to copy.
    pub from: StateId,
    /// The state to replace.
    pub to: StateId,
}

/// There is no recurrent state for another sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoState;

/// The KV pages of a model.
pub struct KvManager<'a> {
    pub(super) pools: Vec<'a, BlockPool<'a>>,
    /// `[groups]`: the index of each group's pool.
    pool_of: Vec<'a, u8>,
    /// Recurrent states, for models that have them.
    states: Option<StatePool<'a>>,
    pub(super) heap: Heap<'a>,
}

impl<'a> KvManager<'a> {
    /// Pools of `pages[i]` free pages each; `pool_of[group]` is the index of a group's pool. An index without a pool
    /// means the last pool.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(pool_of: &[u8], pages: &[u32], heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut pools = heap::with_capacity(heap, pages.len())?;
        for &pages in pages {
            pools.push(BlockPool::new(pages, heap)?);
        }
        Ok(Self { pools, pool_of: heap::copied(heap, pool_of)?, states: None, heap })
    }

    /// One pool of `pages` pages for all of `groups` groups.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn shared(groups: usize, pages: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut pools = heap::with_capacity(heap, 1)?;
        pools.push(BlockPool::new(pages, heap)?);
        Ok(Self { pools, pool_of: heap::filled(heap, groups, 0)?, states: None, heap })
    }

    /// Adds `count` recurrent states, at least one for each running sequence.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn add_states(&mut self, count: u32) -> Result<(), OutOfMemory> {
        self.states = Some(StatePool::new(count, self.heap)?);
        Ok(())
    }

    /// The recurrent states, for models that have them.
    pub fn states(&self) -> Option<&StatePool<'a>> {
        self.states.as_ref()
    }

    /// Bytes of heap that [`Self::shared`] takes.
    pub fn shared_bytes(groups: usize, pages: u32) -> usize {
        BlockPool::bytes(pages).saturating_add(size_of::<BlockPool<'_>>()).saturating_add(groups)
    }

    /// Bytes of heap that the page tables of one sequence take, with one pool.
    pub fn sequence_bytes(pages: u32) -> usize {
        SequencePages::bytes(1, pages)
    }

    /// Replaces the hash of the prefix caches; results stay the same. Only before the first sequence.
    pub fn set_hash(&mut self, hash: PageHash) {
        self.pools.iter_mut().for_each(|pool| pool.set_hash(hash));
    }

    /// Number of pages that every pool has.
    pub fn total(&self) -> u32 {
        self.pools.iter().map(BlockPool::total).min().unwrap_or(0)
    }

    /// Number of pages that every pool can give.
    pub fn available(&self) -> u32 {
        self.pools.iter().map(BlockPool::available).min().unwrap_or(0)
    }

    /// Number of pools.
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// Index of a group's pool.
    pub fn pool_index(&self, group: GroupId) -> usize {
        let index = self.pool_of.get(group.index()).map_or(0, |&index| index.into());
        index.min(self.pools.len().saturating_sub(1))
    }

    /// The pool of a group; `None` if there are no pools.
    pub fn pool(&self, group: GroupId) -> Option<&BlockPool<'a>> {
        self.pools.get(self.pool_index(group))
    }

    /// The pages of a sequence in a group, in order of position.
    pub fn table<'s>(&self, sequence: &'s SequencePages<'_>, group: GroupId) -> &'s [PageId] {
        sequence.tables.get(self.pool_index(group)).map_or(&[], |table| &table.pages)
    }

    /// Empty tables with room for `pages` pages in each pool.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn empty_tables(&self, pages: u32) -> Result<SequencePages<'a>, OutOfMemory> {
        SequencePages::new(self.pools.len(), pages, self.heap)
    }

    /// Fills empty tables with the longest cached prefix of `tokens`, at most `pages` pages, and returns its pages.
    /// Every pool must have a page for it to count; a model with recurrent states also needs a checkpoint behind the
    /// last page.
    pub fn acquire_prefix(
        &mut self,
        sequence: &mut SequencePages<'_>,
        tokens: &[TokenId],
        pages: u32,
    ) -> u32 {
        let pages = self.restorable(tokens, pages);
        for page in tokens.as_chunks().0.iter().take(pages as usize) {
            let mut tables = self.pools.iter().zip(&sequence.tables);
            if !tables.all(|(pool, table)| pool.find(table.key, page).is_some()) {
                break;
            }
            for (pool, table) in self.pools.iter_mut().zip(&mut sequence.tables) {
                let Some((id, key)) = pool.acquire(table.key, page) else { continue };
                table.pages.push(id);
                table.key = Some(key);
                table.cached += 1;
            }
        }
        sequence.cached()
    }

    /// Number of leading pages of `tokens`, at most `pages`, behind which a sequence can go on: all that are cached, or
    /// those up to the last checkpoint.
    fn restorable(&self, tokens: &[TokenId], pages: u32) -> u32 {
        let Some((states, pool)) = self.states.as_ref().zip(self.pools.first()) else { return pages };
        let (mut parent, mut restorable) = (None, 0);
        for (count, page) in (1..).zip(tokens.as_chunks().0.iter().take(pages as usize)) {
            let Some((_, key)) = pool.find(parent, page) else { break };
            if states.find(key).is_some() {
                restorable = count;
            }
            parent = Some(key);
        }
        restorable
    }

    /// Gives a sequence that starts a recurrent state. Returns the copy that brings it behind the cached prefix, if one
    /// is needed; a sequence without a cached prefix begins with an empty state. False if there is no state.
    pub fn start_state(&mut self, sequence: &mut SequencePages<'_>) -> Result<Option<StateCopy>, NoState> {
        let Some((states, pool)) = self.states.as_mut().zip(self.pools.first()) else { return Ok(None) };
        let key = sequence.tables.first().and_then(|table| table.key);
        let source = key.and_then(|key| states.find(key));
        if let Some(source) = source {
            states.touch(source);
        }
        let state = states.take_running(source, &|key| pool.is_cached(key)).ok_or(NoState)?;
        sequence.state = Some(state);
        sequence.checkpoint = None;
        Ok(source.filter(|&source| source != state).map(|from| StateCopy { from, to: state }))
    }

    /// Makes a checkpoint of a running sequence that has computed just the pages that the prefix cache has of it.
    /// `trailing` checkpoints replace the one before. Returns the copy to make, if one is needed.
    pub fn checkpoint(&mut self, sequence: &mut SequencePages<'_>, trailing: bool) -> Option<StateCopy> {
        let (states, pool) = self.states.as_mut().zip(self.pools.first())?;
        let table = sequence.tables.first()?;
        let key = table.key?;
        let replace = sequence.checkpoint.filter(|_| trailing);
        let to = states.take_checkpoint(key, replace, &|key| pool.is_cached(key))?;
        sequence.checkpoint = trailing.then_some(key);
        Some(StateCopy { from: sequence.state?, to })
    }

    /// True if the sequences can grow to the given numbers of pages, all of them together, and `reserve` pages
    /// are left in each pool.
    pub fn can_grow<'s, 't: 's>(
        &self,
        wanted: impl Iterator<Item = (&'s SequencePages<'t>, u32)>,
        reserve: u32,
    ) -> bool {
        let missing = |sequence: &SequencePages<'_>, pages: u32| pages.saturating_sub(sequence.len());
        let wanted =
            wanted.fold(reserve, |sum: u32, (sequence, pages)| sum.saturating_add(missing(sequence, pages)));
        wanted <= self.available()
    }

    /// Grows a sequence to `pages` pages in each pool; false, and nothing has changed, if a pool has too few.
    pub fn grow(&mut self, sequence: &mut SequencePages<'_>, pages: u32) -> bool {
        let missing = pages.saturating_sub(sequence.len());
        if missing > self.available() {
            return false;
        }
        for (pool, table) in self.pools.iter_mut().zip(&mut sequence.tables) {
            table.pages.extend((0..missing).map_while(|_| pool.allocate()));
        }
        true
    }

    /// Adds the pages of a sequence that are full and computed to the prefix caches; `tokens` are those of the sequence.
    pub fn insert_computed(&mut self, sequence: &mut SequencePages<'_>, tokens: &[TokenId], computed: u32) {
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        let full = &full[..full.len().min(computed as usize / PAGE_TOKENS)];
        for (pool, table) in self.pools.iter_mut().zip(&mut sequence.tables) {
            let new = full.iter().zip(&table.pages).skip(table.cached as usize);
            for (tokens, &page) in new {
                table.key = Some(pool.insert(page, table.key, tokens));
                table.cached += 1;
            }
        }
    }

    /// Releases all pages of a sequence, the last ones first.
    pub fn release(&mut self, sequence: &mut SequencePages<'_>) {
        for (pool, table) in self.pools.iter_mut().zip(&mut sequence.tables) {
            while let Some(page) = table.pages.pop() {
                pool.release(page);
            }
            table.cached = 0;
            table.key = None;
        }
        if let Some((states, state)) = self.states.as_mut().zip(sequence.state.take()) {
            states.release(state);
        }
    }
}
