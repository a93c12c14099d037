//! KV groups with pools of their own: what a sequence holds in each, and which cached prefixes it can go on behind.

use crate::{HEAP, PAGE, text};
use doorbell_core::kv::{KvManager, KvPools, SequencePages};
use doorbell_core::plan::{GroupId, PageId};
use doorbell_core::scheduler::{Config, NewSequence, RequestId, Scheduler};

const FULL: GroupId = GroupId(0);
const WINDOW: GroupId = GroupId(1);

/// Groups 0 and 2 share a pool of 10 pages, group 1 has a window of 40 tokens and `pages` pages.
fn pools(pages: u32) -> KvManager<'static> {
    let windows = [None, Some(40), None];
    KvManager::new(KvPools::new(10, windows.into_iter(), |_| pages), HEAP).unwrap()
}

fn available(kv: &KvManager<'_>) -> [u32; 2] {
    [FULL, WINDOW].map(|group| kv.pool(group).available())
}

/// Indexes of the pages that a sequence has in the windowed group.
fn in_window(kv: &KvManager<'_>, sequence: &SequencePages<'_>) -> Vec<usize> {
    let table = kv.table(sequence, WINDOW).iter().enumerate();
    table.filter(|(_, page)| **page != PageId::NONE).map(|(index, _)| index).collect()
}

/// A sequence that has computed all of `tokens` in steps of a page.
fn computed(kv: &mut KvManager<'static>, tokens: u64, pages: u32) -> SequencePages<'static> {
    let (mut sequence, tokens) = (kv.empty_tables(10).unwrap(), text(tokens, pages * PAGE));
    assert!(kv.grow(&mut sequence, pages));
    for page in 1..=pages {
        assert_eq!(kv.grow_windows(&mut sequence, page), page);
        kv.insert_computed(&mut sequence, &tokens, page * PAGE);
        kv.slide(&mut sequence, page * PAGE, |_, _| false);
    }
    sequence
}

#[test]
fn growth_takes_all_pages_of_a_pool_or_none() {
    let mut kv = pools(4);
    assert_eq!((kv.total(), kv.available(), kv.pools().count()), (10, 10, 2));
    let mut sequence = kv.empty_tables(12).unwrap();
    assert!(kv.grow(&mut sequence, 6));
    assert!(!kv.grow(&mut sequence, 11));
    // windows grow as rows are computed, as far as there are pages
    assert_eq!(kv.grow_windows(&mut sequence, 2), 2);
    assert_eq!(available(&kv), [4, 2]);
    assert_eq!(kv.grow_windows(&mut sequence, 6), 4);
    let tables = [0, 1, 2].map(|group| kv.table(&sequence, GroupId(group)).len());
    assert_eq!(tables, [6, 4, 6]);
    kv.release(&mut sequence);
    assert_eq!((available(&kv), sequence.len()), ([10, 4], 0));
}

/// A row at position 96 sees from 57 on, one at 128 from 89 on.
#[test]
fn pages_behind_the_window_are_given_back() {
    let mut kv = pools(4);
    let mut sequence = computed(&mut kv, 1, 4);
    assert_eq!(in_window(&kv, &sequence), [2, 3]);
    assert_eq!(kv.table(&sequence, FULL).len(), 4);
    assert_eq!(available(&kv), [6, 2]);
    // the pages stay that a sequence needs to go on at the last border
    assert!(kv.grow(&mut sequence, 5));
    assert_eq!(kv.grow_windows(&mut sequence, 5), 5);
    kv.slide(&mut sequence, 5 * PAGE - 1, |_, _| false);
    assert_eq!(in_window(&kv, &sequence), [2, 3, 4]);
    kv.slide(&mut sequence, 5 * PAGE, |_, _| false);
    assert_eq!(in_window(&kv, &sequence), [3, 4]);
    kv.release(&mut sequence);
    assert_eq!(available(&kv), [10, 4]);
}

#[test]
fn a_prefix_is_found_where_the_pages_of_its_window_are() {
    let mut kv = pools(4);
    let tokens = text(1, 5 * PAGE);
    let mut first = computed(&mut kv, 1, 5);
    kv.release(&mut first);
    let mut second = kv.empty_tables(10).unwrap();
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 5), 5);
    assert_eq!(in_window(&kv, &second), [3, 4]);
    kv.release(&mut second);
    // all four pages are there, and page 1 is enough for a row at 64
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 2), 0, "page 0 was evicted for page 4");
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 3), 3);
    assert_eq!(in_window(&kv, &second), [1, 2]);
    kv.release(&mut second);
    // others take the pages that are of little use, then the others
    let mut other = kv.empty_tables(4).unwrap();
    assert!(kv.grow(&mut other, 3));
    assert_eq!(kv.grow_windows(&mut other, 3), 3);
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 5), 0);
}

#[test]
fn pages_of_little_use_are_evicted_first() {
    let mut kv = pools(5);
    let mut first = computed(&mut kv, 1, 2);
    kv.release(&mut first);
    // slides over its pages 0 and 1, and needs a fifth page for the sixth
    let mut second = computed(&mut kv, 2, 5);
    kv.release(&mut second);
    assert_eq!(kv.acquire_prefix(&mut first, &text(1, 2 * PAGE), 2), 2, "the first prefix is still there");
}

#[test]
fn a_page_is_found_no_longer_than_its_prefix() {
    let mut kv = pools(8);
    let mut first = computed(&mut kv, 1, 4);
    kv.release(&mut first);
    assert_eq!(kv.pool(WINDOW).cached(), 4);
    // the full pool evicts all pages of the prefix
    let mut other = kv.empty_tables(10).unwrap();
    assert!(kv.grow(&mut other, 10));
    assert_eq!((kv.pool(WINDOW).cached(), kv.pool(WINDOW).available()), (0, 8));
    kv.release(&mut other);
    assert_eq!(kv.acquire_prefix(&mut first, &text(1, 4 * PAGE), 4), 0);
}

/// The second sequence computes what the first one has in the cache without its window.
#[test]
fn missing_pages_of_a_window_come_back() {
    let mut kv = pools(4);
    let mut first = computed(&mut kv, 1, 4);
    kv.release(&mut first);
    let mut other = kv.empty_tables(4).unwrap();
    assert!(kv.grow(&mut other, 4));
    assert_eq!(kv.grow_windows(&mut other, 4), 4);
    kv.release(&mut other);
    let mut second = kv.empty_tables(10).unwrap();
    assert_eq!(kv.acquire_prefix(&mut second, &text(1, 4 * PAGE), 4), 0);
    let mut second = computed(&mut kv, 1, 4);
    kv.release(&mut second);
    assert_eq!(kv.acquire_prefix(&mut second, &text(1, 4 * PAGE), 4), 4);
}

#[test]
fn a_batch_has_a_table_for_each_group() {
    let config = Config::new(64, 2, 64);
    let windows = [None, Some(64), None];
    let kv = KvManager::new(KvPools::new(8, windows.into_iter(), |_| 8), HEAP).unwrap();
    let mut scheduler = Scheduler::new(config, 3, kv, HEAP).unwrap();
    for id in 0..2 {
        let mut tokens = doorbell_core::heap::with_capacity(HEAP, 40).unwrap();
        tokens.extend_from_slice(&text(id, 33));
        let new = NewSequence {
            id: RequestId(id),
            tokens,
            limit: 40,
            pooling: false,
            skip_cache: false,
            state: (),
        };
        scheduler.submit(new).unwrap();
    }
    scheduler.schedule(1, &|_| true);
    let tables = scheduler.batch().input.tables;
    // 32 rows of each: they have a second page for their last rows, but not yet in the window
    for (index, sequence) in (0..).zip(scheduler.sequences()) {
        for (group, len) in [(0, 2), (1, 1), (2, 2)] {
            let table = tables.of(index, GroupId(group));
            assert_eq!(table, scheduler.kv().table(sequence.pages(), GroupId(group)));
            assert_eq!(table.len(), len, "{index} {group}");
        }
    }
}
