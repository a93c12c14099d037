//! What must hold after every poll, whatever the requests are: who holds which pages, what was written where, and who
//! waits for whom.

use crate::fake::Fake;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::plan::{PAGE_TOKENS, PageId};
use std::collections::HashMap;

/// What is known of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    /// Whether it has a place now, and whether it ever had one.
    seated: bool,
    ever: bool,
    /// The position that is written next; none before the first since it has its place.
    next: Option<u32>,
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
}

impl Watch {
    pub(crate) fn token(&mut self, id: RequestId) {
        self.seats.entry(id).or_default().tokens += 1;
    }

    /// Looks at the engine after a poll, while somebody else holds `held`.
    pub(crate) fn look(&mut self, engine: &mut Engine<'_, '_, Fake>, held: &[PageId]) {
        let tables: Vec<(RequestId, Vec<PageId>)> =
            engine.tables().map(|(id, pages)| (id, pages.to_vec())).collect();
        let with_pages = tables.iter().filter(|(_, pages)| !pages.is_empty()).count();
        assert!(with_pages as u32 <= engine.config().sequences, "more sequences than places");
        Self::count(engine, &tables, held);
        self.seat(&tables);
        self.follow(engine, &tables);
    }

    /// Every page is free, cached, or held by as many as refer to it.
    fn count(engine: &Engine<'_, '_, Fake>, tables: &[(RequestId, Vec<PageId>)], held: &[PageId]) {
        let pool = engine.pool();
        let mut holders = vec![0; pool.total() as usize];
        let pages = tables.iter().flat_map(|(_, pages)| pages).chain(held);
        pages.for_each(|page| holders[page.0 as usize] += 1);
        for (page, &holders) in (0..).zip(&holders) {
            assert_eq!(pool.holders(PageId(page)), holders, "holders of page {page}");
        }
        let used = holders.iter().filter(|&&holders| holders > 0).count() as u32;
        assert_eq!(used + pool.available(), pool.total(), "pages get lost");
        assert!(pool.cached() <= pool.available());
    }

    /// Places are given in order of arrival, and taken from none that has not got a token for it.
    fn seat(&mut self, tables: &[(RequestId, Vec<PageId>)]) {
        let mut somebody_waits = None;
        for (id, pages) in tables {
            let seat = self.seats.entry(*id).or_default();
            match (seat.seated, !pages.is_empty()) {
                (false, true) => {
                    assert!(seat.ever || somebody_waits.is_none(), "{id:?} overtakes {somebody_waits:?}");
                    let Seat { first, rows, .. } = *seat;
                    *seat = Seat { seated: true, ever: true, next: None, first, tokens: 0, rows };
                }
                (true, false) => {
                    assert!(seat.tokens > 0, "{id:?} has lost its place for nothing");
                    seat.seated = false;
                }
                (true, true) | (false, false) => {}
            }
            if !seat.ever {
                somebody_waits = somebody_waits.or(Some(*id));
            }
        }
    }

    /// What was written belongs to one sequence alone, and each position of it was written once, in order.
    fn follow(&mut self, engine: &mut Engine<'_, '_, Fake>, tables: &[(RequestId, Vec<PageId>)]) {
        let mut owners: HashMap<PageId, Vec<(RequestId, u32)>> = HashMap::new();
        for (id, pages) in tables {
            for (index, &page) in (0..).zip(pages) {
                owners.entry(page).or_default().push((*id, index));
            }
        }
        for (page, offset) in core::mem::take(&mut engine.backend().writes) {
            assert_eq!(engine.pool().holders(page), 1, "a page that is written is nobody else's");
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
        }
    }
}
