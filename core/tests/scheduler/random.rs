//! Random scripts: whatever happens, no page leaks, every sequence ends, and steps keep to the limits.

use crate::{HEAP, Harness, text};
use doorbell_core::kv::{KvManager, KvPools};
use doorbell_core::plan::GroupId;
use doorbell_core::scheduler::{Config, RequestId, Scheduler};
use std::collections::HashMap;

/// Pages are held exactly by the sequences that list them.
fn check_pages(scheduler: &Scheduler<'_>) {
    let pool = scheduler.kv().pool(GroupId(0));
    let mut holders: HashMap<u32, u32> = HashMap::new();
    for sequence in scheduler.sequences() {
        for page in scheduler.kv().table(sequence.pages(), GroupId(0)) {
            *holders.entry(page.0).or_default() += 1;
        }
    }
    for page in 0..pool.total() {
        let expected = holders.get(&page).copied().unwrap_or(0);
        assert_eq!(pool.ref_count(doorbell_core::plan::PageId(page)), expected, "page {page}");
    }
    assert_eq!(pool.available() + holders.len() as u32, pool.total());
}

#[test]
fn nothing_leaks_in_random_scripts() {
    let script = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let context = u.int_in_range(40..=200)?;
        let mut config = Config::new(context, u.int_in_range(1..=4)?, u.int_in_range(1..=64)?);
        config.waiting = u.int_in_range(0..=3)?;
        config.pooling_rows = u.int_in_range(1..=20)?;
        // at least as many as one sequence needs
        config.pages = u.int_in_range(7..=20)?;
        config.step_target = 1000;
        let kv = KvManager::new(KvPools::shared(1, config.pages), HEAP).unwrap();
        let mut harness = Harness { scheduler: Scheduler::new(config, 1, kv, HEAP).unwrap() };
        let mut next = 0;
        for _ in 0..u.int_in_range(1..=60)? {
            if u.ratio(1, 3)? && !harness.scheduler.is_full() {
                let prompt = text(u.int_in_range(0..=1)?, u.int_in_range(1..=context - 1)?);
                let (output, pooling) = (u.int_in_range(1..=context - prompt.len() as u32)?, u.ratio(1, 5)?);
                harness.submit_as(next, &prompt, if pooling { 0 } else { output }, pooling);
                next += 1;
            }
            if u.ratio(1, 20)? && next > 0 {
                let id = RequestId(u.int_in_range(0..=next - 1)?);
                let index = harness.scheduler.sequences().iter().position(|one| one.id() == id);
                index.into_iter().for_each(|index| _ = harness.scheduler.remove(index));
            }
            let step = harness.step_of(u.int_in_range(1..=8)?);
            let rows: u32 = step.rows.iter().map(|(_, rows)| rows).sum();
            let most = if step.pooling { config.pooling_rows } else { config.largest_shape().rows };
            assert!(rows <= most && step.rows.len() as u32 <= config.sequences);
            harness.scheduler.record_time(u.int_in_range(1..=2000)?);
            check_pages(&harness.scheduler);
        }
        for _ in 0..20_000 {
            if harness.scheduler.sequences().is_empty() {
                break;
            }
            assert_ne!(harness.step().rows, [], "no step although there are sequences");
        }
        assert!(harness.scheduler.sequences().is_empty(), "a sequence never ends");
        assert_eq!(harness.available(), config.pages);
        Ok(())
    };
    arbtest::arbtest(script).budget_ms(3_000);
}
