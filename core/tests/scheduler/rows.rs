//! The rows of a step: prompts share them, streams keep theirs, pooling requests take turns.

use crate::{Harness, Step, text};
use doorbell_core::scheduler::Config;

#[test]
fn the_earliest_prompt_gets_half_of_the_rows_and_short_ones_the_rest() {
    let mut harness = Harness::new(Config::new(1024, 4, 100));
    harness.submit(0, &text(0, 500), 1);
    harness.submit(1, &text(1, 70), 1);
    harness.submit(2, &text(2, 30), 1);
    assert_eq!(harness.step().rows, [(0, 50), (2, 30), (1, 20)]);
    assert_eq!(harness.step().rows, [(0, 50), (1, 50)]);
    // alone, it gets all rows
    assert_eq!(harness.step().rows, [(0, 100)]);
}

#[test]
fn the_earliest_prompt_gets_what_the_others_leave() {
    let mut harness = Harness::new(Config::new(1024, 2, 100));
    harness.submit(0, &text(0, 500), 1);
    harness.submit(1, &text(1, 10), 1);
    assert_eq!(harness.step().rows, [(0, 90), (1, 10)]);
}

#[test]
fn streams_have_a_row_in_every_step_and_pace_the_prompts() {
    let mut config = Config::new(4096, 2, 512);
    config.step_target = 1000;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 64), 50);
    assert_eq!(harness.step().rows, [(0, 64)]);
    // 10 ns a row
    harness.scheduler.record_time(640);
    harness.submit(1, &text(1, 1000), 1);
    assert_eq!(harness.step().rows, [(0, 1), (1, 100)]);
    // slower rows, fewer of them; but never fewer than 16
    harness.scheduler.record_time(101 * 1_000_000);
    assert_eq!(harness.step().rows, [(0, 1), (1, 16)]);
}

#[test]
fn pooling_steps_alternate_with_the_others() {
    let mut config = Config::new(256, 3, 32);
    config.pooling_rows = 16;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 8), 20);
    harness.submit_as(1, &text(1, 40), 0, true);
    let pooling = |rows: &[(u64, u32)]| Step { pooling: true, ..Step::of(rows) };
    let first = harness.step();
    assert_eq!((first.admitted, first.rows, first.pooling), (vec![0, 1], vec![(1, 16)], true));
    assert_eq!(harness.step(), Step::of(&[(0, 8)]));
    assert_eq!(harness.step(), pooling(&[(1, 16)]));
    assert_eq!(harness.step(), Step::of(&[(0, 1)]));
    assert_eq!(harness.step(), pooling(&[(1, 8)]));
    assert_eq!(harness.step(), Step::of(&[(0, 1)]));
    assert_eq!(harness.step(), Step::of(&[(0, 1)]));
}

#[test]
fn pooling_requests_alone_need_not_take_turns() {
    let mut config = Config::new(256, 2, 32);
    config.pooling_rows = 16;
    let mut harness = Harness::new(config);
    harness.submit_as(0, &text(0, 20), 0, true);
    harness.submit_as(1, &text(1, 5), 0, true);
    let rows = [(); 3].map(|()| harness.step().rows);
    assert_eq!(rows, [vec![(0, 16)], vec![(0, 4)], vec![(1, 5)]]);
    assert_eq!(harness.step().rows, []);
}
