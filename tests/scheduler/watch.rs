//! Properties that hold after every poll: which request holds which pages, where keys and values are written, and which
//! request waits for which.

use crate::fake::Fake;
use doorbell_core::engine::{Engine, KvPart, RequestId};
use doorbell_core::plan::{GroupId, MAX_GROUPS, PAGE_TOKENS, PageId};
use doorbell_core::token::TokenId;
use std::collections::{HashMap, HashSet};

/// Stands for the groups that keep all pages, also where a model has none: by the first pool sequences are admitted.
const FULL: GroupId = GroupId(MAX_GROUPS as u8 - 1);

/// The pages of all requests in a group.
type Tables = Vec<(RequestId, Vec<PageId>)>;

fn tables_of(engine: &Engine<'_, '_, Fake>, group: GroupId) -> Tables {
    let mut tables: Tables = engine.tables(group).map(|(id, pages)| (id, pages.to_vec())).collect();
    // numbers grow as they arrive
    tables.sort_unstable_by_key(|&(id, _)| id);
    tables
}

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

    /// Checks the engine after a poll, while `held` parts are held outside.
    pub(crate) fn check(&mut self, engine: &mut Engine<'_, '_, Fake>, held: &[KvPart]) {
        let tables = tables_of(engine, FULL);
        let with_pages = tables.iter().filter(|(_, pages)| !pages.is_empty()).count();
        assert!(with_pages as u32 <= engine.config().sequences, "more sequences than slots");
        if let Some(states) = engine.kv().states() {
            assert_eq!(states.running() as usize, with_pages, "a state for each sequence that runs");
            assert!(states.running() + states.checkpoints() <= states.total());
        }
        let flying = core::mem::take(&mut engine.backend().flying);
        Self::count(engine, FULL, &tables, held, &[]);
        for group in (0..).map(GroupId).take(engine.model().groups.len()) {
            let flying = flying.iter().filter(|(of, _)| *of == group).map(|(_, page)| *page);
            Self::count(engine, group, &tables_of(engine, group), held, &flying.collect::<Vec<_>>());
        }
        engine.backend().flying = flying;
        self.admitted_in_order(&tables);
        let rows = self.follow(engine);
        if !rows.is_empty() {
            let stays = tables.iter().find(|(id, _)| self.cancelled.contains(id));
            assert!(stays.is_none(), "a step begins and {stays:?} is not over");
            self.flow(engine, &tables, &rows);
        }
    }

    /// Asserts that every page is free, cached, or held by as many requests as refer to it.
    fn count(
        engine: &Engine<'_, '_, Fake>,
        group: GroupId,
        tables: &[(RequestId, Vec<PageId>)],
        held: &[KvPart],
        flying: &[PageId],
    ) {
        let (pool, index) = (engine.kv().pool(group), engine.kv().pools().pool_of(group));
        let mut holders = vec![0; pool.total() as usize];
        let pages = tables.iter().flat_map(|(_, pages)| pages).filter(|page| **page != PageId::NONE);
        let outside = held.iter().filter_map(|part| match part {
            KvPart::Page { pool, page } if usize::from(*pool) == index => Some(page),
            _ => None,
        });
        pages.chain(outside).for_each(|page| holders[page.0 as usize] += 1);
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

    /// Asserts that a written page belongs to one sequence, and that positions are written once and in order, in every
    /// group. Returns the rows of each request.
    fn follow(&mut self, engine: &mut Engine<'_, '_, Fake>) -> HashMap<RequestId, u32> {
        let writes = core::mem::take(&mut engine.backend().writes);
        let mut rows = HashMap::new();
        for group in (0..).map(GroupId).take(engine.model().groups.len()) {
            let mut owners: HashMap<PageId, Vec<(RequestId, u32)>> = HashMap::new();
            for (id, pages) in tables_of(engine, group) {
                for (index, &page) in (0..).zip(&pages) {
                    owners.entry(page).or_default().push((id, index));
                }
            }
            let mut group_rows: HashMap<RequestId, Vec<u32>> = HashMap::new();
            for (_, page, offset) in writes.iter().filter(|(of, ..)| *of == group) {
                assert_eq!(engine.kv().pool(group).ref_count(*page), 1, "a written page has one owner");
                let &[(id, index)] = owners[page].as_slice() else { panic!("{page:?} belongs to several") };
                group_rows.entry(id).or_default().push(index * PAGE_TOKENS as u32 + offset);
            }
            if group == GroupId(0) {
                group_rows.iter().for_each(|(id, positions)| self.advance(*id, positions));
                rows = group_rows;
            } else {
                assert_eq!(group_rows, rows, "all groups have the same positions");
            }
        }
        rows.into_iter().map(|(id, positions)| (id, positions.len() as u32)).collect()
    }

    /// Notes the positions that were written of a request.
    fn advance(&mut self, id: RequestId, positions: &[u32]) {
        let admission = self.admissions.entry(id).or_default();
        for &position in positions {
            match admission.next {
                Some(next) => assert_eq!(position, next, "{id:?} continues"),
                None => {
                    assert!(position.is_multiple_of(PAGE_TOKENS as u32), "a cached prefix ends with a page")
                }
            }
            admission.next = Some(position + 1);
            admission.first = admission.first.or(Some(position));
            admission.rows += 1;
        }
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
                let groups = (0..).map(GroupId).take(engine.model().groups.len()).chain([FULL]);
                let empty = groups.map(|group| engine.kv().pool(group).available()).any(|pages| pages == 0);
                assert!(full && empty, "{id:?} makes no progress");
            }
        }
        assert!(prompt.is_none_or(|id| rows.contains_key(&id)), "{prompt:?} makes no progress");
    }
}
