//! Steps that end in hidden values or in picked tokens: right on the device, and checked before they are used.

use crate::bench::{HEAP, PAGES, end, goldens, nmse, open, prompt, settings, soft, with_model};
use crate::kernel_check;
use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, PageId, PageSpan, PageTables, Plan, RowRun, Shape};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

/// The hidden values of two of the rows of a prompt.
fn hidden<B: Backend>(model: &Model<'_>, backend: &mut B, plan: &Plan<'_>) -> Vec<f32>
where
    B::Error: core::fmt::Debug,
{
    let tokens = prompt(model, plan.shape.rows);
    let spans = vec![PageSpan { start: 0, len: 1 }; model.groups.len()];
    let tables = PageTables {
        pages: &[PageId(0)],
        spans: &spans,
        groups: model.groups.len(),
        states: &crate::bench::STATES,
    };
    let runs = [RowRun { sequence: 0, first_row: 0, rows: plan.shape.rows, position: 0 }];
    backend.reserve(plan).unwrap();
    backend.reserve_states(crate::bench::STATES.len() as u32).unwrap();
    backend.submit(plan, &Batch { tokens: &tokens, runs: &runs, outputs: &[2, 4], tables }).unwrap();
    loop {
        match backend.poll().unwrap() {
            Some(Output::Hidden(values)) => return values.to_vec(),
            Some(_) => panic!("the plan asked for hidden values"),
            None => {}
        }
    }
}

#[test]
fn hidden_values_are_those_of_the_reference() {
    for (index, (name, bytes)) in goldens().into_iter().enumerate() {
        with_model(&bytes, |model| {
            let chip = ["gfx1100", "gfx1151", "gfx1200"][index % 3];
            let plan = model.plan(Shape { rows: 5, outputs: 2 }, HeadResult::Hidden, HEAP).unwrap();
            let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
            let expected = hidden(model, &mut reference, &plan);
            let kernel = soft(chip, Level::Strict);
            let mut backend = open(&kernel, model, settings(5)).unwrap();
            let found = hidden(model, &mut backend, &plan);
            assert_eq!(expected.len(), 2 * model.hparams.width as usize);
            let error = nmse(&found, &expected);
            assert!(error < 5e-4, "{name} on {chip}: NMSE {error:e}");
            end(&kernel, backend, &name);
        });
    }
}

/// A kernel that leaves the result out is found, whatever the result is.
#[test]
fn every_result_is_checked() {
    let bytes = tiny::model(Family::Qwen3, tiny::Shape::WIDE, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        for (result, family) in [(HeadResult::Hidden, "norm_"), (HeadResult::ArgMax, "largest_")] {
            for damaged in [false, true] {
                let kernel = soft("gfx1100", Level::Fast);
                let mut backend = kernel_check::open(&kernel, model);
                let plan = model.plan(Shape { rows: 1, outputs: 1 }, result, HEAP).unwrap();
                backend.reserve(&plan).unwrap();
                let names = backend.kernel_names().filter(|name| name.starts_with(family));
                let names: Vec<String> = names.map(str::to_owned).collect();
                assert!(!names.is_empty(), "{family}");
                if damaged {
                    names.iter().for_each(|name| kernel_check::damage(&kernel, &backend, name));
                }
                backend.check_kernels(&mut (), HEAP).unwrap();
                let messages: Vec<_> = backend.wrong_kernels().iter().map(ToString::to_string).collect();
                assert_eq!(messages.len(), usize::from(damaged), "{messages:?}");
                let named = |line: &String| names.iter().any(|name| line.contains(name));
                let right = |line: &String| line.starts_with("head runs on the CPU: ") && named(line);
                assert!(messages.iter().all(right), "{messages:?}");
                end(&kernel, backend, family);
            }
        }
    });
}
