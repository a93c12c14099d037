//! Allocations: none per token and chunk, and the peak is the predicted one.

use crate::service::{BackendKind, Report, Service, run};
use doorbell_core::backend::KvType;
use doorbell_core::engine::Config;
use doorbell_core::heap::Global;
use doorbell_core::quant::Type;
use doorbell_core::reference::Products;
use doorbell_cpu::budget::Budget;
use doorbell_tests::tiny::{self, Family, Shape};

const TEXT: &str =
    "the number of people that could write their own words was more than they had said, but not all";

fn report(file: &[u8], service: &Service<'_>) -> (Report, usize) {
    let budget = Budget::new(Global, usize::MAX);
    let report = run(file, service, &budget, &|| budget.allocations()).unwrap();
    assert_eq!(budget.live(), 0);
    (report, budget.peak())
}

const BACKENDS: [BackendKind; 3] =
    [BackendKind::Reference(Products::Quantized), BackendKind::Cpu(1), BackendKind::Cpu(2)];

#[test]
fn tokens_and_chunks_cost_no_allocation() {
    for (family, backend) in Family::ALL.into_iter().flat_map(|f| BACKENDS.map(|backend| (f, backend))) {
        let file = tiny::f32_model(family, 7);
        // One sequence of several chunks; three that share steps; prompts in turns.
        for (sequences, batch_rows) in [(1, 8), (3, 64), (2, 3)] {
            let config = Config::new(128, sequences, batch_rows);
            let service = Service { config, kv: KvType::F16, backend, text: TEXT, tokens: 64 };
            let (report, _) = report(&file, &service);
            let [before, first, end] = report.allocations;
            assert_eq!((before, first), (end, end), "{family:?} {backend:?} {sequences} {batch_rows}");
        }
    }
}

#[test]
fn the_peak_is_the_predicted_one() {
    let narrow = Family::ALL.map(|family| (family, Shape::NARROW, Type::Q8_0));
    let wide = [(Family::Qwen3Moe, Shape::WIDE, Type::Q4_K)];
    let mut worst = 0.0_f64;
    for (family, shape, ty) in narrow.into_iter().chain(wide) {
        let file = tiny::model(family, shape, ty, 8).to_bytes();
        for (kv, backend) in
            KvType::ALL.into_iter().flat_map(|kv| [BACKENDS[0], BACKENDS[2]].map(|c| (kv, c)))
        {
            for config in [Config::new(64, 1, 32), Config::new(256, 1, 64), Config::new(128, 3, 16)] {
                let tokens = config.context;
                let service = Service { config, kv, backend, text: TEXT, tokens };
                let (report, peak) = report(&file, &service);
                let predicted = report.predicted.heap() as f64;
                let error = (peak as f64 - predicted) / predicted;
                let case = format!("{family:?} {ty} {kv:?} {backend:?} {config:?}");
                assert!(error.abs() <= 0.02, "{case}: peak {peak}, {:?}", report.predicted);
                worst = if error.abs() > worst.abs() { error } else { worst };
            }
        }
    }
    println!("largest difference between peak and prediction: {:.3} %", worst * 100.0);
}
