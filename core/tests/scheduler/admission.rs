//! Order of admission, prefix hits, and the pages that are left for running sequences.

use crate::{Harness, PAGE, Step, text};
use doorbell_core::scheduler::Config;

#[test]
fn sequences_are_admitted_in_order_of_arrival() {
    let mut config = Config::new(64, 2, 64);
    config.waiting = 2;
    let mut harness = Harness::new(config);
    for id in 0..4 {
        harness.submit(id, &text(id, 8), 2);
    }
    assert!(harness.scheduler.is_full());
    let step = harness.step();
    assert_eq!((step.admitted, step.rows), (vec![0, 1], vec![(0, 8), (1, 8)]));
    // both have their second token, end, and make room for the others
    assert_eq!(harness.step(), Step::of(&[(0, 1), (1, 1)]));
    assert_eq!(harness.step().admitted, [2, 3]);
}

#[test]
fn a_cached_prefix_is_not_computed_again() {
    let mut harness = Harness::new(Config::new(256, 1, 256));
    harness.submit(0, &text(0, 100), 1);
    assert_eq!(harness.step().rows, [(0, 100)]);
    harness.submit(1, &text(0, 100), 1);
    // three whole pages are in the cache
    assert_eq!(harness.step().rows, [(1, 100 - 3 * PAGE)]);
    // the last token is always computed, so that of two whole pages only one is taken
    harness.submit(2, &text(0, 2 * PAGE), 1);
    assert_eq!(harness.step().rows, [(2, PAGE)]);
}

#[test]
fn a_prefix_in_progress_is_awaited_and_later_arrivals_go_first() {
    let mut config = Config::new(256, 3, 32);
    config.pages = 24;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 64), 4);
    harness.submit(1, &text(0, 64), 4);
    harness.submit(2, &text(2, 8), 4);
    let step = harness.step();
    assert_eq!(step.admitted, [0, 2]);
    assert_eq!(step.rows, [(0, 24), (2, 8)]);
    while !harness.scheduler.sequences().iter().any(|sequence| sequence.id().0 == 1 && sequence.is_running())
    {
        harness.step();
    }
    let second = harness.scheduler.sequences().iter().find(|sequence| sequence.id().0 == 1).unwrap();
    assert_eq!(second.cached_tokens(), PAGE);
}

#[test]
fn a_page_is_left_for_every_sequence_that_can_grow() {
    let mut config = Config::new(128, 2, 64);
    config.pages = 5;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 60), 30);
    // needs three pages; two of five are taken and one is reserved for the first sequence
    harness.submit(1, &text(1, 65), 20);
    assert_eq!(harness.step().admitted, [0]);
    assert_eq!(harness.available(), 3);
    assert_eq!(harness.pages(), [2, 0]);
}
