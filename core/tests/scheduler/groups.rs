//! KV groups with pools of their own: pages are taken in every pool or in none.

use crate::{HEAP, PAGE, text};
use doorbell_core::kv::KvManager;
use doorbell_core::plan::GroupId;
use doorbell_core::scheduler::{Config, NewSequence, RequestId, Scheduler};

/// Groups 0 and 2 share a pool of 10 pages, group 1 has one of 4 pages.
fn pools() -> KvManager<'static> {
    KvManager::new(&[0, 1, 0], &[10, 4], HEAP).unwrap()
}

#[test]
fn growth_takes_pages_in_all_pools_or_in_none() {
    let mut kv = pools();
    assert_eq!((kv.total(), kv.available(), kv.pools()), (4, 4, 2));
    let mut sequence = kv.empty_tables(8).unwrap();
    assert!(kv.grow(&mut sequence, 3));
    assert!(!kv.grow(&mut sequence, 5));
    let tables = [0, 1, 2].map(|group| kv.table(&sequence, GroupId(group)).len());
    assert_eq!(tables, [3, 3, 3]);
    let available = [0, 1].map(|group| kv.pool(GroupId(group)).unwrap().available());
    assert_eq!(available, [7, 1]);
    kv.release(&mut sequence);
    assert_eq!((kv.available(), sequence.len()), (4, 0));
}

#[test]
fn a_prefix_is_found_where_all_pools_have_it() {
    let mut kv = pools();
    let tokens = text(1, 3 * PAGE);
    let mut first = kv.empty_tables(4).unwrap();
    assert!(kv.grow(&mut first, 3));
    kv.insert_computed(&mut first, &tokens, 3 * PAGE);
    kv.release(&mut first);
    let mut second = kv.empty_tables(4).unwrap();
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 3), 3);
    kv.release(&mut second);
    // the small pool evicts the last page of the prefix, the large one still has it
    let mut other = kv.empty_tables(4).unwrap();
    assert!(kv.grow(&mut other, 2));
    let cached = [0, 1].map(|group| kv.pool(GroupId(group)).unwrap().cached());
    assert_eq!(cached, [3, 2]);
    assert_eq!(kv.acquire_prefix(&mut second, &tokens, 3), 2);
}

#[test]
fn a_batch_has_a_table_for_each_group() {
    let config = Config::new(64, 2, 64);
    let kv = KvManager::new(&[0, 1, 0], &[8, 8], HEAP).unwrap();
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
    for (index, sequence) in (0..).zip(scheduler.sequences()) {
        for group in [0, 1, 2].map(GroupId) {
            let table = tables.of(index, group);
            assert_eq!(table, scheduler.kv().table(sequence.pages(), group));
            assert_eq!(table.len(), 2);
        }
    }
}
