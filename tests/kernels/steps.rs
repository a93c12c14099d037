//! Whole steps: a batch's tokens to logits, each operation on what the one before left in device memory.

use crate::KINDS;
use crate::check::{Case, check_step, full};
use crate::grid::{BATCHES, ragged, targets};
use crate::oracle::HEAP;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_tests::tiny::{self, Family};

/// Error of logits, from exact activations and exact sums.
const LIMIT: f64 = 5e-4;

#[test]
fn logits_of_every_family_and_type() {
    let all = Family::ALL.into_iter().flat_map(|family| KINDS.map(|kind| (family, kind)));
    let mut worst = 0f64;
    for (number, (family, kind)) in all.enumerate() {
        let bytes = tiny::model(family, ragged(kind), kind, 3).to_bytes();
        let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
        let batches = if full() { &BATCHES[..] } else { &BATCHES[number % 3..=number % 3] };
        for (target, rows) in
            targets(number).into_iter().flat_map(|target| batches.iter().map(move |rows| (target, *rows)))
        {
            let case = Case { outputs: vec![rows - 1], ..Case::new(target, &[(0, rows)]).fast() };
            let plan = model.plan(Shape { rows, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
            let nmse = check_step(&model, &plan, &case).nmse();
            assert!(nmse <= LIMIT, "{family:?} in {kind}, {rows} rows on {target}: NMSE {nmse:e}");
            worst = worst.max(nmse);
        }
    }
    println!("worst {worst:e}");
}
