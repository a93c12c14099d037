//! Whole steps: a batch's tokens to logits, each operation on what the one before left in device memory.

use crate::check::{Case, check_step, full};
use crate::grid::{BATCHES, target};
use crate::oracle::HEAP;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_kernels::WEIGHT_TYPES;
use doorbell_tests::tiny::{self, Family};
use std::collections::BTreeMap;

/// Error of logits from exact activations and exact sums.
const LIMIT: f64 = 5e-4;
/// The same where activations are codes of eight bits: each product alone is as exact as others (`prefill.rs`), but a value
/// between two codes takes either, which later operations make more of.
const CODED: f64 = 2e-3;

#[test]
fn logits_of_every_family_and_type() {
    let (mut worst, mut wrong) = (BTreeMap::new(), Vec::new());
    for (number, family) in Family::ALL.into_iter().enumerate() {
        for (index, kind) in WEIGHT_TYPES.into_iter().enumerate() {
            let bytes = tiny::model(family, tiny::Shape::ragged(kind), kind, 3).to_bytes();
            let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
            for (batch, rows) in BATCHES.into_iter().enumerate() {
                if !full() && batch != number % 3 {
                    continue;
                }
                let target = target(number + index + batch);
                let case = Case { outputs: vec![rows - 1], ..Case::new(target, &[(0, rows)]).fast() };
                let plan = model.plan(Shape { rows, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
                let (deviation, coded) = check_step(&model, &plan, &case);
                let nmse = deviation.nmse();
                if nmse.is_nan() || nmse > if coded { CODED } else { LIMIT } {
                    wrong.push(format!("{family:?} in {kind}, {rows} rows on {target}: NMSE {nmse:e}"));
                }
                let slot: &mut f64 = worst.entry((target.name(), family.name(), coded)).or_default();
                *slot = slot.max(nmse);
            }
        }
    }
    for ((target, family, coded), worst) in worst {
        println!("{target} {family}: {worst:e}{}", if coded { ", activations in codes" } else { "" });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
