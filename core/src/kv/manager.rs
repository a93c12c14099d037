//! The pools of all KV groups of a model, behind one interface.
//!
//! A sequence has the pages of all its positions in the first pool, from its admission on. In the pool of a window it
//! has those that its next rows see: it gets pages just before rows are computed, and gives them back when the window
//! has passed them. A cached prefix can be used up to a page behind which all that a sequence needs is there: the pages
//! of every window, and for models with recurrent layers a state.

use super::block_pool::BlockPool;
use super::page_pool::{PagePool, Use};
use super::page_table::SequencePages;
use super::pools::KvPools;
use super::prefix_cache::{PageHash, PrefixKey};
use super::state_pool::StatePool;
use super::window_pool::WindowPool;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{GroupId, MAX_GROUPS, PAGE_TOKENS, PageId, StateId, first_page};
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
    pools: KvPools,
    pub(super) full: BlockPool<'a>,
    /// `[windows]`, as in `pools`.
    pub(super) windows: Vec<'a, WindowPool<'a>>,
    /// Recurrent states, for models that have them.
    pub(super) states: Option<StatePool<'a>>,
    pub(super) heap: Heap<'a>,
}

/// A prefix in the cache behind which a sequence can go on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedPrefix {
    /// Its pages.
    pub(super) pages: u32,
    /// Its key; none without pages.
    pub(super) key: Option<PrefixKey>,
    /// Pages before the last checkpoint of a recurrent state before its end.
    pub(super) earlier: u32,
    /// Pages of the longest prefix that the first pool has: what was computed before, whether or not a sequence can go on
    /// behind it.
    pub(super) computed: u32,
}

impl<'a> KvManager<'a> {
    /// Pools of free pages.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new(pools: KvPools, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let full = BlockPool::new(pools.pages(), heap)?;
        let mut windows = heap::with_capacity(heap, pools.windows().len())?;
        for pool in pools.windows() {
            windows.push(WindowPool::new(pool.window, pool.pages, pools.pages(), heap)?);
        }
        Ok(Self { pools, full, windows, states: None, heap })
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

    /// Bytes of heap that [`Self::new`] takes.
    pub fn bytes(pools: &KvPools) -> usize {
        let windows = pools.windows().iter().map(|pool| {
            size_of::<WindowPool<'_>>().saturating_add(WindowPool::bytes(pool.pages, pools.pages()))
        });
        windows.fold(BlockPool::bytes(pools.pages()), usize::saturating_add)
    }

    /// Bytes of heap that the page tables of one sequence take.
    pub fn sequence_bytes(pools: &KvPools, pages: u32) -> usize {
        SequencePages::bytes(pools, pages)
    }

    /// Replaces the hash of the prefix cache; results stay the same. Only before the first sequence.
    pub fn set_hash(&mut self, hash: PageHash) {
        self.full.set_hash(hash);
    }

    /// The pools, and which of them each group has.
    pub fn pools(&self) -> &KvPools {
        &self.pools
    }

    /// Number of pages in the first pool: sequences are admitted by them.
    pub fn total(&self) -> u32 {
        self.full.pages.total()
    }

    /// Number of pages that the first pool can give.
    pub fn available(&self) -> u32 {
        self.full.pages.available()
    }

    /// The pages of a group's pool.
    pub fn pool(&self, group: GroupId) -> &PagePool<'a> {
        let window = self.pools.pool_of(group).checked_sub(1).and_then(|index| self.windows.get(index));
        window.map_or(&self.full.pages, |pool| &pool.pages)
    }

    /// The pages of a sequence in a group, in order of position; [`PageId::NONE`] before the group's window.
    pub fn table<'s>(&self, sequence: &'s SequencePages<'_>, group: GroupId) -> &'s [PageId] {
        sequence.tables().nth(self.pools.pool_of(group)).unwrap_or(&[])
    }

    /// Empty tables with room for `pages` pages in each pool.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn empty_tables(&self, pages: u32) -> Result<SequencePages<'a>, OutOfMemory> {
        SequencePages::new(&self.pools, pages, self.heap)
    }

    /// Fills empty tables with the longest cached prefix of `tokens` behind which a sequence can go on, at most `pages`
    /// pages, and returns its pages.
    pub fn acquire_prefix(
        &mut self,
        sequence: &mut SequencePages<'_>,
        tokens: &[TokenId],
        pages: u32,
    ) -> u32 {
        let prefix = self.cached_prefix(tokens, pages);
        for page in tokens.as_chunks().0.iter().take(prefix.pages as usize) {
            let Some((id, key)) = self.full.find(sequence.full.key, page) else { break };
            self.full.pages.acquire(id);
            sequence.full.pages.push(id);
            sequence.full.key = Some(key);
            sequence.full.cached += 1;
        }
        let position = prefix.pages * PAGE_TOKENS as u32;
        for (pool, table) in self.windows.iter_mut().zip(&mut sequence.windows) {
            table.first = first_page(Some(pool.window), position).min(prefix.pages);
            for (index, &id) in (0..).zip(&sequence.full.pages) {
                let page = if index < table.first { None } else { pool.acquire(id) };
                table.pages.push(page.unwrap_or(PageId::NONE));
            }
        }
        sequence.checkpoint_pages = prefix.pages;
        sequence.saved_pages = prefix.pages - prefix.earlier;
        sequence.shared_pages = prefix.computed;
        prefix.pages
    }

    /// The longest cached prefix of `tokens`, of at most `pages` pages, behind which a sequence can go on.
    pub(super) fn cached_prefix(&self, tokens: &[TokenId], pages: u32) -> CachedPrefix {
        let (mut found, mut parent) = (CachedPrefix::default(), None);
        // pages of each window that end with the current one, without a gap
        let mut present = [0; MAX_GROUPS];
        for (count, page) in (1..).zip(tokens.as_chunks().0.iter().take(pages as usize)) {
            let Some((id, key)) = self.full.find(parent, page) else { break };
            parent = Some(key);
            found.computed = count;
            let mut complete = true;
            for (pool, present) in self.windows.iter().zip(&mut present) {
                *present = if pool.find(id).is_some() { *present + 1 } else { 0 };
                complete &= *present >= count - first_page(Some(pool.window), count * PAGE_TOKENS as u32);
            }
            if complete && self.states.as_ref().is_none_or(|states| states.find(key).is_some()) {
                found = CachedPrefix { pages: count, key: parent, earlier: found.pages, computed: count };
            }
        }
        found
    }

    /// Gives a sequence that starts a recurrent state. Returns the copy that brings it behind the cached prefix, if one
    /// is needed; a sequence without a cached prefix begins with an empty state.
    ///
    /// # Errors
    /// [`NoState`] if all states are in use.
    pub fn start_state(&mut self, sequence: &mut SequencePages<'_>) -> Result<Option<StateCopy>, NoState> {
        let Some(states) = self.states.as_mut() else { return Ok(None) };
        let source = sequence.full.key.and_then(|key| states.find(key));
        if let Some(source) = source {
            states.touch(source, sequence.saved_pages);
        }
        let state = states.take_running(source, &|key| self.full.is_cached(key)).ok_or(NoState)?;
        sequence.state = Some(state);
        sequence.checkpoint = None;
        Ok(source.filter(|&source| source != state).map(|from| StateCopy { from, to: state }))
    }

    /// Makes a checkpoint of a running sequence that has computed just the pages that the prefix cache has of it.
    /// `trailing` checkpoints replace the one before. Returns the copy to make, if one is needed.
    pub fn checkpoint(&mut self, sequence: &mut SequencePages<'_>, trailing: bool) -> Option<StateCopy> {
        let states = self.states.as_mut()?;
        let key = sequence.full.key?;
        let replace = sequence.checkpoint.filter(|_| trailing);
        let saved = sequence.full.cached.saturating_sub(sequence.checkpoint_pages);
        if !trailing {
            sequence.checkpoint_pages = sequence.full.cached;
        }
        let to = states.take_checkpoint(key, saved, replace, &|key| self.full.is_cached(key))?;
        sequence.checkpoint = trailing.then_some(key);
        Some(StateCopy { from: sequence.state?, to })
    }

    /// True if the sequences can grow to the given numbers of pages in the first pool, all of them together, and
    /// `reserve` pages are left.
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

    /// Grows a sequence to `pages` pages in the first pool; false, and nothing has changed, if there are too few.
    pub fn grow(&mut self, sequence: &mut SequencePages<'_>, pages: u32) -> bool {
        let missing = pages.saturating_sub(sequence.len());
        if missing > self.available() {
            return false;
        }
        for _ in 0..missing {
            let Some(page) = self.allocate_full() else { break };
            sequence.full.pages.push(page);
        }
        true
    }

    /// True if all of the sequences can get pages of the windows for their rows up to the given numbers of pages.
    pub fn can_grow_windows<'s, 't: 's>(
        &self,
        wanted: impl Iterator<Item = (&'s SequencePages<'t>, u32)>,
    ) -> bool {
        let mut missing = [0_u32; MAX_GROUPS];
        for (sequence, pages) in wanted {
            for (missing, table) in missing.iter_mut().zip(&sequence.windows) {
                *missing = missing.saturating_add(pages.saturating_sub(table.pages.len() as u32));
            }
        }
        self.windows.iter().zip(missing).all(|(pool, missing)| missing <= pool.pages.available())
    }

    /// Takes a page of the first pool.
    pub(super) fn allocate_full(&mut self) -> Option<PageId> {
        let allocated = self.full.allocate()?;
        if allocated.was_cached {
            self.windows.iter_mut().for_each(|pool| pool.forget(allocated.page));
        }
        Some(allocated.page)
    }

    /// Takes pages of the windows for the next rows of a sequence, so that it has `pages` pages in every pool if it can.
    /// Returns the number of pages that it then has in every pool.
    pub fn grow_windows(&mut self, sequence: &mut SequencePages<'_>, pages: u32) -> u32 {
        let pages = pages.min(sequence.len());
        for (pool, table) in self.windows.iter_mut().zip(&mut sequence.windows) {
            let missing = pages.saturating_sub(table.pages.len() as u32);
            table.pages.extend((0..missing).map_while(|_| pool.allocate()));
        }
        sequence.ready()
    }

    /// Gives back the pages that no row of a sequence sees any more, of which `computed` tokens are computed. The pages
    /// before the last page border stay, so that the sequence can go on there if it is preempted. `is_kept` is asked for
    /// a window and the index of a page: pages that are not to be kept are evicted before all others.
    pub fn slide(
        &mut self,
        sequence: &mut SequencePages<'_>,
        computed: u32,
        is_kept: impl Fn(u32, u32) -> bool,
    ) {
        let border = computed / PAGE_TOKENS as u32 * PAGE_TOKENS as u32;
        for (pool, table) in self.windows.iter_mut().zip(&mut sequence.windows) {
            let first = first_page(Some(pool.window), border).min(table.pages.len() as u32);
            for index in table.first..first {
                let page = core::mem::replace(&mut table.pages[index as usize], PageId::NONE);
                if page != PageId::NONE {
                    let usefulness = if is_kept(pool.window, index) { Use::Much } else { Use::Little };
                    pool.release(page, usefulness);
                }
            }
            table.first = first.max(table.first);
        }
    }

    /// Adds the pages of a sequence that are full and computed to the prefix cache; `tokens` are those of the sequence.
    pub fn insert_computed(&mut self, sequence: &mut SequencePages<'_>, tokens: &[TokenId], computed: u32) {
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        let full = &full[..full.len().min(computed as usize / PAGE_TOKENS)];
        let table = &mut sequence.full;
        let first = table.cached as usize;
        for (index, (tokens, &page)) in full.iter().zip(&table.pages).enumerate().skip(first) {
            let (prefix, key) = self.full.insert(page, table.key, tokens);
            table.key = Some(key);
            table.cached += 1;
            for (pool, table) in self.windows.iter_mut().zip(&sequence.windows) {
                let page = table.pages.get(index).filter(|&&page| page != PageId::NONE);
                page.into_iter().for_each(|&page| pool.insert(prefix, page));
            }
        }
    }

    /// Releases all pages of a sequence, the last ones first, and its state.
    pub fn release(&mut self, sequence: &mut SequencePages<'_>) {
        while let Some(page) = sequence.full.pages.pop() {
            self.full.release(page);
        }
        (sequence.full.cached, sequence.full.key) = (0, None);
        for (pool, table) in self.windows.iter_mut().zip(&mut sequence.windows) {
            while let Some(page) = table.pages.pop() {
                if page != PageId::NONE {
                    pool.release(page, Use::Much);
                }
            }
            table.first = 0;
        }
        if let Some((states, state)) = self.states.as_mut().zip(sequence.state.take()) {
            states.release(state);
        }
    }
}
