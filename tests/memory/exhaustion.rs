//! A heap that refuses, at every allocation in turn and below every size: a typed error, and all memory is released.

use crate::service::{BackendKind, Service, Step, run};
use doorbell_core::backend::KvType;
use doorbell_core::engine::Config;
use doorbell_core::heap::Global;
use doorbell_core::reference::Products;
use doorbell_cpu::budget::Budget;
use doorbell_tests::tiny::{self, Family};

fn service() -> Service<'static> {
    Service {
        config: Config::new(64, 2, 8),
        kv: KvType::F16,
        backend: BackendKind::Reference(Products::Quantized),
        text: "the people could write more than two numbers",
        tokens: 2,
    }
}

#[test]
fn refusing_the_nth_allocation_is_a_typed_error_for_every_n() {
    for family in Family::ALL {
        let file = tiny::f32_model(family, 5);
        let mut failed: Vec<Step> = Vec::new();
        let mut count = 0;
        loop {
            let budget = Budget::refusing_from(Global, usize::MAX, count);
            let outcome = run(&file, &service(), &budget, &|| budget.allocations());
            assert_eq!(budget.live(), 0, "{family:?}: leaked after refusal {count}");
            match outcome {
                Ok(report) => {
                    assert!(!report.text.is_empty());
                    break;
                }
                Err(step) => failed.push(step),
            }
            count += 1;
        }
        // The backend allocates all of its memory before the first step, so no step can fail.
        let steps = [
            Step::Parse,
            Step::Tokenizer,
            Step::Encode,
            Step::Model,
            Step::Backend,
            Step::Engine,
            Step::Submit,
            Step::Detokenize,
        ];
        failed.sort_unstable();
        failed.dedup();
        assert_eq!(failed, steps, "{family:?}");
        assert!(count > 50, "{family:?}: {count} allocations");
    }
}

#[test]
fn a_heap_that_is_too_small_is_a_typed_error_for_every_size() {
    let file = tiny::f32_model(Family::Qwen3Moe, 6);
    let enough = {
        let budget = Budget::new(Global, usize::MAX);
        run(&file, &service(), &budget, &|| 0).unwrap();
        budget.peak()
    };
    for percent in 0..100 {
        let budget = Budget::new(Global, enough * percent / 100);
        assert!(run(&file, &service(), &budget, &|| 0).is_err(), "{percent} %");
        assert_eq!(budget.live(), 0);
    }
    assert!(run(&file, &service(), &Budget::new(Global, enough), &|| 0).is_ok());
}
