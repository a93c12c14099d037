//! Properties that hold after every poll: which request holds which pages, where keys and values are written, and which
//! request waits for which.

use crate::fake::Fake;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::plan::{GroupId, PAGE_TOKENS, PageId};
use doorbell_core::token::TokenId;
use std::collections::{HashMap, HashSet};

/// Observations about one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admission {
    /// True while it is admitted.
    is_admitted: bool,
    /// The position that is written next; none before the first one since its admission.
    pub(crate) next: Option<u32>,
    /// The first position that it ever wrote.
    pub(crate) first: Option<u32>,
    /// Tokens since its admission.
    tokens: u32,
    /// Rows that were computed for it.
    pub(crate) rows: u32,
}

/// Watches an engine.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) admissions: HashMap<RequestId, Admission>,
    pooled: HashSet<RequestId>,
    prompts: HashMap<RequestId, Vec<TokenId>>,
    cancelled: HashSet<RequestId>,
    /// True if the step before had pooling rows.
    pooled_last: bool,
}

impl Watch {
    /// Records that this is a pooling request.
    pub(crate) fn pools(&mut self, id: RequestId) {
        self.pooled.insert(id);
    }

    /// Records the prompt of a request that may use the cache.
    pub(crate) fn begins(&mut self, id: RequestId, prompt: &[TokenId]) {
        self.prompts.insert(id, prompt.to_vec());
    }

    /// True if an admitted request may be computing the first page of this one's prompt.
    fn is_being_computed(&self, id: RequestId, tables: &[(RequestId, Vec<PageId>)]) -> bool {
        let Some(prompt) = self.prompts.get(&id) else { return false };
        let admitted = tables.iter().filter(|(_, pages)| !pages.is_empty());
        admitted.filter_map(|(id, _)| self.prompts.get(id).zip(self.admissions.get(id))).any(
            |(other, admission)| {
                let page = (admission.next.unwrap_or(0) as usize / PAGE_TOKENS + 1) * PAGE_TOKENS;
                page < prompt.len() && page <= other.len() && prompt[..page] == other[..page]
            },
        )
    }

    /// Records that this was cancelled.
    pub(crate) fn cancels(&mut self, id: RequestId) {
        self.cancelled.insert(id);
    }

    pub(crate) fn is_cancelled(&self, id: RequestId) -> bool {
        self.cancelled.contains(&id)
    }

    /// Records that there was nothing to do.
    pub(crate) fn idle(&mut self) {
        self.pooled_last = false;
    }

    pub(crate) fn token(&mut self, id: RequestId) {
        self.admissions.entry(id).or_default().tokens += 1;
    }

    /// Checks the engine after a poll, while `held` pages are held outside.
    pub(crate) fn check(&mut self, engine: &mut Engine<'_, '_, Fake>, held: &[PageId]) {
        let mut tables: Vec<(RequestId, Vec<PageId>)> =
            engine.tables(GroupId(0)).map(|(id, pages)| (id, pages.to_vec())).collect();
        // numbers grow as they arrive
        tables.sort_unstable_by_key(|&(id, _)| id);
        let with_pages = tables.iter().filter(|(_, pages)| !pages.is_empty()).count();
        assert!(with_pages as u32 <= engine.config().sequences, "more sequences than slots");
        let flying = core::mem::take(&mut engine.backend().flying);
        Self::count(engine, &tables, held, &flying);
        engine.backend().flying = flying;
        self.admitted_in_order(&tables);
        let rows = self.follow(engine, &tables);
        if !rows.is_empty() {
            let stays = tables.iter().find(|(id, _)| self.cancelled.contains(id));
            assert!(stays.is_none(), "a step begins and {stays:?} is not over");
            self.flow(engine, &tables, &rows);
        }
    }

    /// Asserts that every page is free, cached, or held by as many requests as refer to it.
    fn count(
        engine: &Engine<'_, '_, Fake>,
        tables: &[(RequestId, Vec<PageId>)],
        held: &[PageId],
        flying: &[PageId],
    ) {
        let pool = engine.kv().pool(GroupId(0)).unwrap();
        let mut holders = vec![0; pool.total() as usize];
        let pages = tables.iter().flat_map(|(_, pages)| pages).chain(held);
        pages.for_each(|page| holders[page.0 as usize] += 1);
        for (page, &holders) in (0..).zip(&holders) {
            assert_eq!(pool.ref_count(PageId(page)), holders, "holders of page {page}");
        }
        let used = holders.iter().filter(|&&holders| holders > 0).count() as u32;
        assert_eq!(used + pool.available(), pool.total(), "pages get lost");
        assert!(pool.cached() <= pool.available());
        let given = |page: &&PageId| holders[page.0 as usize] == 0;
        assert_eq!(flying.iter().find(given), None, "a page was given back in the midst of a step");
    }

    /// Asserts that requests are admitted in order of arrival, and that the last one which has a token is preempted first.
    fn admitted_in_order(&mut self, tables: &[(RequestId, Vec<PageId>)]) {
        let (mut somebody_waits, mut lost) = (None, None);
        for (id, pages) in tables {
            let is_begun = self.is_being_computed(*id, tables);
            let admission = self.admissions.entry(*id).or_default();
            match (admission.is_admitted, !pages.is_empty()) {
                (false, true) => {
                    assert!(somebody_waits.is_none(), "{id:?} overtakes {somebody_waits:?}");
                    let Admission { first, rows, .. } = *admission;
                    *admission = Admission { is_admitted: true, next: None, first, tokens: 0, rows };
                }
                (true, false) => {
                    assert!(admission.tokens > 0, "{id:?} was preempted without a token");
                    admission.is_admitted = false;
                    lost = lost.or(Some(*id));
                }
                (true, true) => {
                    assert!(
                        lost.is_none() || admission.tokens == 0,
                        "{lost:?} gives way before {id:?}, who came later"
                    );
                }
                (false, false) => somebody_waits = somebody_waits.or(Some(*id).filter(|_| !is_begun)),
            }
        }
    }

    /// Asserts that a written page belongs to one sequence, and that positions are written once and in order. Returns the
    /// rows of each request.
    fn follow(
        &mut self,
        engine: &mut Engine<'_, '_, Fake>,
        tables: &[(RequestId, Vec<PageId>)],
    ) -> HashMap<RequestId, u32> {
        let mut rows = HashMap::new();
        let mut owners: HashMap<PageId, Vec<(RequestId, u32)>> = HashMap::new();
        for (id, pages) in tables {
            for (index, &page) in (0..).zip(pages) {
                owners.entry(page).or_default().push((*id, index));
            }
        }
        for (page, offset) in core::mem::take(&mut engine.backend().writes) {
            assert_eq!(
                engine.kv().pool(GroupId(0)).unwrap().ref_count(page),
                1,
                "a written page has one owner"
            );
            let &[(id, index)] = owners[&page].as_slice() else { panic!("{page:?} belongs to several") };
            let position = index * PAGE_TOKENS as u32 + offset;
            let admission = self.admissions.entry(id).or_default();
            match admission.next {
                Some(next) => assert_eq!(position, next, "{id:?} continues"),
                None => assert_eq!(offset, 0, "a cached prefix ends with a page"),
            }
            admission.next = Some(position + 1);
            admission.first = admission.first.or(Some(position));
            admission.rows += 1;
            *rows.entry(id).or_default() += 1;
        }
        rows
    }

    /// Asserts that every streaming request has a row in each step, except in steps of pooling requests, which alternate
    /// with others, and if there is no page for it; and that the earliest prompt advances.
    fn flow(
        &mut self,
        engine: &Engine<'_, '_, Fake>,
        tables: &[(RequestId, Vec<PageId>)],
        rows: &HashMap<RequestId, u32>,
    ) {
        let read_before =
            core::mem::replace(&mut self.pooled_last, rows.keys().any(|id| self.pooled.contains(id)));
        assert!(!self.pooled_last || rows.len() == 1, "a pooling request has steps of its own");
        if self.pooled_last && !read_before {
            return;
        }
        let generating = tables.iter().filter(|(id, pages)| !pages.is_empty() && !self.pooled.contains(id));
        let mut prompt = None;
        for (id, pages) in generating {
            let admission = &self.admissions[id];
            if admission.tokens == 0 {
                prompt = prompt.or(Some(*id));
            } else if !rows.contains_key(id) {
                let full = admission.next == Some((pages.len() * PAGE_TOKENS) as u32);
                assert!(full && engine.kv().available() == 0, "{id:?} makes no progress");
            }
        }
        assert!(prompt.is_none_or(|id| rows.contains_key(&id)), "{prompt:?} makes no progress");
    }
}
