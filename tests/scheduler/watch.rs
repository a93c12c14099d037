//! What must hold after every poll, whatever the requests are: who holds which pages, what was written where, and who
//! waits for whom.

use crate::fake::Fake;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::plan::{GroupId, PAGE_TOKENS, PageId};
use doorbell_core::token::TokenId;
use std::collections::{HashMap, HashSet};

/// What is known of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    /// Whether it has a place now.
    seated: bool,
    /// The position that is written next; none before the first since it has its place.
    pub(crate) next: Option<u32>,
    /// The first position that it ever wrote.
    pub(crate) first: Option<u32>,
    /// Tokens since it has its place.
    tokens: u32,
    /// Rows that were computed for it.
    pub(crate) rows: u32,
}

/// Watches an engine.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) seats: HashMap<RequestId, Seat>,
    readings: HashSet<RequestId>,
    prompts: HashMap<RequestId, Vec<TokenId>>,
    cancelled: HashSet<RequestId>,
    /// Whether the step before read.
    read_last: bool,
}

impl Watch {
    /// Notes that this is a text to be read.
    pub(crate) fn reads(&mut self, id: RequestId) {
        self.readings.insert(id);
    }

    /// Notes what a request begins with, if it may find that in the cache.
    pub(crate) fn begins(&mut self, id: RequestId, prompt: &[TokenId]) {
        self.prompts.insert(id, prompt.to_vec());
    }

    /// Whether somebody who has a place may have been computing what this one begins with.
    fn is_begun(&self, id: RequestId, tables: &[(RequestId, Vec<PageId>)]) -> bool {
        let Some(prompt) = self.prompts.get(&id) else { return false };
        let with_places = tables.iter().filter(|(_, pages)| !pages.is_empty());
        with_places.filter_map(|(id, _)| self.prompts.get(id).zip(self.seats.get(id))).any(|(other, seat)| {
            let page = (seat.next.unwrap_or(0) as usize / PAGE_TOKENS + 1) * PAGE_TOKENS;
            page < prompt.len() && page <= other.len() && prompt[..page] == other[..page]
        })
    }

    /// Notes that this was cancelled.
    pub(crate) fn cancels(&mut self, id: RequestId) {
        self.cancelled.insert(id);
    }

    pub(crate) fn is_cancelled(&self, id: RequestId) -> bool {
        self.cancelled.contains(&id)
    }

    /// Notes that there was nothing to do.
    pub(crate) fn idle(&mut self) {
        self.read_last = false;
    }

    pub(crate) fn token(&mut self, id: RequestId) {
        self.seats.entry(id).or_default().tokens += 1;
    }

    /// Looks at the engine after a poll, while somebody else holds `held`.
    pub(crate) fn look(&mut self, engine: &mut Engine<'_, '_, Fake>, held: &[PageId]) {
        let mut tables: Vec<(RequestId, Vec<PageId>)> =
            engine.tables(GroupId(0)).map(|(id, pages)| (id, pages.to_vec())).collect();
        // numbers grow as they arrive
        tables.sort_unstable_by_key(|&(id, _)| id);
        let with_pages = tables.iter().filter(|(_, pages)| !pages.is_empty()).count();
        assert!(with_pages as u32 <= engine.config().sequences, "more sequences than places");
        let flying = core::mem::take(&mut engine.backend().flying);
        Self::count(engine, &tables, held, &flying);
        engine.backend().flying = flying;
        self.seat(&tables);
        let rows = self.follow(engine, &tables);
        if !rows.is_empty() {
            let stays = tables.iter().find(|(id, _)| self.cancelled.contains(id));
            assert!(stays.is_none(), "a step begins and {stays:?} is not over");
            self.flow(engine, &tables, &rows);
        }
    }

    /// Every page is free, cached, or held by as many as refer to it.
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

    /// Places are given in order of arrival, and taken from the last to come that has got a token for its own.
    fn seat(&mut self, tables: &[(RequestId, Vec<PageId>)]) {
        let (mut somebody_waits, mut lost) = (None, None);
        for (id, pages) in tables {
            let is_begun = self.is_begun(*id, tables);
            let seat = self.seats.entry(*id).or_default();
            match (seat.seated, !pages.is_empty()) {
                (false, true) => {
                    assert!(somebody_waits.is_none(), "{id:?} overtakes {somebody_waits:?}");
                    let Seat { first, rows, .. } = *seat;
                    *seat = Seat { seated: true, next: None, first, tokens: 0, rows };
                }
                (true, false) => {
                    assert!(seat.tokens > 0, "{id:?} has lost its place for nothing");
                    seat.seated = false;
                    lost = lost.or(Some(*id));
                }
                (true, true) => {
                    assert!(
                        lost.is_none() || seat.tokens == 0,
                        "{lost:?} gives way before {id:?}, who came later"
                    );
                }
                (false, false) => somebody_waits = somebody_waits.or(Some(*id).filter(|_| !is_begun)),
            }
        }
    }

    /// What was written belongs to one sequence alone, and each position of it was written once, in order.
    /// Gives the rows of each.
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
                "a page that is written is nobody else's"
            );
            let &[(id, index)] = owners[&page].as_slice() else { panic!("{page:?} belongs to several") };
            let position = index * PAGE_TOKENS as u32 + offset;
            let seat = self.seats.entry(id).or_default();
            match seat.next {
                Some(next) => assert_eq!(position, next, "{id:?} goes on"),
                None => assert_eq!(offset, 0, "what was found ends with a page"),
            }
            seat.next = Some(position + 1);
            seat.first = seat.first.or(Some(position));
            seat.rows += 1;
            *rows.entry(id).or_default() += 1;
        }
        rows
    }

    /// Whoever streams has a row in every step but those of readings, which take turns with the others, and those for
    /// which there is no page; and of the prompts the earliest goes on.
    fn flow(
        &mut self,
        engine: &Engine<'_, '_, Fake>,
        tables: &[(RequestId, Vec<PageId>)],
        rows: &HashMap<RequestId, u32>,
    ) {
        let read_before =
            core::mem::replace(&mut self.read_last, rows.keys().any(|id| self.readings.contains(id)));
        assert!(!self.read_last || rows.len() == 1, "a reading has its steps for itself");
        if self.read_last && !read_before {
            return;
        }
        let texts = tables.iter().filter(|(id, pages)| !pages.is_empty() && !self.readings.contains(id));
        let mut prompt = None;
        for (id, pages) in texts {
            let seat = &self.seats[id];
            if seat.tokens == 0 {
                prompt = prompt.or(Some(*id));
            } else if !rows.contains_key(id) {
                let full = seat.next == Some((pages.len() * PAGE_TOKENS) as u32);
                assert!(full && engine.kv().available() == 0, "{id:?} stands still");
            }
        }
        assert!(prompt.is_none_or(|id| rows.contains_key(&id)), "{prompt:?} stands still");
    }
}
