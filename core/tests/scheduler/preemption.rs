//! Preemption when pages run out: the latest arrival that has produced a token gives up its pages.

use crate::{Harness, Step, text};
use doorbell_core::scheduler::Config;

/// Three sequences of two pages each, and no page left.
fn full() -> Harness {
    let mut config = Config::new(128, 3, 256);
    config.pages = 6;
    let mut harness = Harness::new(config);
    for id in 0..3 {
        harness.submit(id, &text(id, 31), 60);
    }
    let step = harness.step();
    // a page each, and one that is left for each of those that run
    assert_eq!(step.admitted, [0, 1, 2]);
    harness
}

#[test]
fn the_latest_arrival_is_preempted_and_computed_again() {
    let mut harness = full();
    while harness.available() > 0 {
        harness.step();
    }
    let before = harness.pages();
    assert_eq!(before, [2, 2, 2]);
    while harness.scheduler.sequences().iter().all(|sequence| sequence.preemptions() == 0) {
        harness.step();
    }
    let preemptions: Vec<_> = harness.scheduler.sequences().iter().map(|one| one.preemptions()).collect();
    assert_eq!(preemptions, [0, 0, 1]);
    let mut steps = 0;
    while !harness.scheduler.sequences().is_empty() {
        let step = harness.step();
        assert!(step.admitted.is_empty(), "only the first admission is reported");
        steps += 1;
        assert!(steps < 200, "every sequence ends");
    }
    assert_eq!(harness.available(), 6);
}

#[test]
fn a_sequence_that_has_produced_nothing_is_not_preempted() {
    let mut config = Config::new(128, 2, 16);
    config.pages = 4;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 15), 60);
    assert_eq!(harness.step().rows, [(0, 15)]);
    for _ in 0..17 {
        assert_eq!(harness.step(), Step::of(&[(0, 1)]));
    }
    // takes the other three pages but one, and is in the middle of its prompt when the first needs a page
    harness.submit(1, &text(1, 32), 1);
    let mut waited = false;
    for _ in 0..200 {
        let step = harness.step();
        waited |= step.rows.iter().all(|&(id, _)| id == 1) && !step.rows.is_empty();
        assert!(harness.scheduler.sequences().iter().all(|sequence| sequence.preemptions() == 0));
        if harness.scheduler.sequences().is_empty() {
            break;
        }
    }
    assert!(harness.scheduler.sequences().is_empty());
    assert!(!waited, "there is a page for the first sequence all the time");
}
