//! Several steps at once: their pages are reserved before they are scheduled.

use crate::{Harness, PAGE, text};
use doorbell_core::scheduler::Config;

/// A scheduler whose steps without prompt rows take a tenth of the target time.
fn measured(pages: u32, prompts: &[u32], output: u32) -> Harness {
    let mut config = Config::new(256, prompts.len() as u32, 256);
    (config.pages, config.step_target) = (pages, 1000);
    let mut harness = Harness::new(config);
    for (id, &len) in (0..).zip(prompts) {
        harness.submit(id, &text(id, len), output);
    }
    harness.step();
    assert_eq!(harness.step_of(8).steps, 1, "nothing is measured yet");
    harness.scheduler.record_time(100);
    harness
}

#[test]
fn steps_are_limited_by_device_target_and_output() {
    assert_eq!(measured(8, &[8], 100).step_of(4).steps, 4);
    assert_eq!(measured(8, &[8], 100).step_of(64).steps, 10);
    // two of the five tokens are there
    assert_eq!(measured(8, &[8], 5).step_of(64).steps, 3);
}

#[test]
fn pages_of_all_steps_are_reserved() {
    let mut harness = measured(8, &[PAGE - 4], 100);
    assert_eq!(harness.pages(), [1]);
    // positions up to page 2
    assert_eq!(harness.step_of(10).steps, 10);
    assert_eq!(harness.pages(), [2]);
    assert_eq!(harness.available(), 6);
}

#[test]
fn without_pages_for_all_steps_there_is_one_step() {
    let mut harness = measured(3, &[PAGE - 4, PAGE - 4], 30);
    // two sequences need a page each, and one is left
    let step = harness.step_of(10);
    assert_eq!((step.steps, step.rows), (1, vec![(0, 1), (1, 1)]));
    assert_eq!(harness.available(), 1);
}

#[test]
fn prompt_rows_and_sampled_sequences_run_in_single_steps() {
    let mut harness = measured(8, &[8], 100);
    let batch = harness.scheduler.schedule(8, &|_| false);
    assert_eq!(batch.steps, 1);
    let mut config = Config::new(256, 2, 256);
    config.step_target = 1000;
    let mut harness = Harness::new(config);
    harness.submit(0, &text(0, 8), 50);
    harness.step();
    harness.step();
    harness.scheduler.record_time(100);
    harness.submit(1, &text(1, 8), 50);
    let step = harness.step_of(8);
    assert_eq!((step.steps, step.rows), (1, vec![(0, 1), (1, 8)]));
    assert_eq!(harness.step_of(8).steps, 8);
}
