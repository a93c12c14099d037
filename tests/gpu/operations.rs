//! One operation at a time on the device, the others on the host: whoever differs is named.

use crate::bench::{
    CHIPS, HEAP, PAGES, end, goldens, nmse, open, placed, prompt, settings, soft, step, with_model,
};
use doorbell_core::backend::{Backend as _, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::Placement;
use doorbell_soft::processor::Level;

/// A prompt's logits, then those of one more token.
fn expected(model: &Model<'_>, len: u32) -> Vec<f32> {
    let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
    let tokens = prompt(model, len + 1);
    let mut logits = step(model, &mut reference, &tokens[..len as usize], 0).unwrap();
    logits.extend(step(model, &mut reference, &tokens[len as usize..], len).unwrap());
    logits
}

#[test]
fn the_hosts_part_computes_what_the_reference_does() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            let kernel = soft("gfx1100", Level::Strict);
            let mut backend = open(&kernel, model, placed(settings(35), Placement::Host)).unwrap();
            let tokens = prompt(model, 36);
            let mut found = step(model, &mut backend, &tokens[..35], 0).unwrap();
            found.extend(step(model, &mut backend, &tokens[35..], 35).unwrap());
            let bits = |logits: &[f32]| logits.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
            assert!(bits(&found) == bits(&expected(model, 35)), "{name}");
            end(&kernel, backend, &name);
        });
    }
}

#[test]
fn each_operation_alone_agrees_with_the_reference() {
    let mut wrong = Vec::new();
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            for (len, level) in [(5, Level::Strict), (40, Level::Fast)] {
                let kernel = soft(CHIPS[0], level);
                let expected = expected(model, len);
                let tokens = prompt(model, len + 1);
                let plan = model.plan(Shape { rows: len, outputs: len }, HeadResult::Logits, HEAP).unwrap();
                let mut backend = open(&kernel, model, placed(settings(len), Placement::Host)).unwrap();
                for (index, op) in plan.ops.iter().enumerate() {
                    backend.set_placement(Placement::Only(index));
                    if !backend.supports(op) {
                        continue;
                    }
                    let mut found = step(model, &mut backend, &tokens[..len as usize], 0).unwrap();
                    found.extend(step(model, &mut backend, &tokens[len as usize..], len).unwrap());
                    let error = nmse(&found, &expected);
                    // Not a number is wrong, too.
                    if !matches!(error.partial_cmp(&5e-4), Some(core::cmp::Ordering::Less)) {
                        wrong.push(format!("{name} {index} {} of {len} rows: NMSE {error:e}", op.name()));
                    }
                }
                end(&kernel, backend, &name);
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels pass the check at load, and whatever is taken out of use is made up for by the host.
#[test]
fn kernels_are_checked_and_can_be_done_without() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            let kernel = soft(CHIPS[1], Level::Fast);
            let mut backend = open(&kernel, model, settings(20)).unwrap();
            backend.check_kernels(&mut (), HEAP).unwrap();
            assert_eq!(backend.wrong_kernels(), [], "{name}");
            let tokens = prompt(model, 5);
            let expected = step(model, &mut backend, &tokens, 0).unwrap();
            let kernels: Vec<String> = backend.kernel_names().map(str::to_owned).collect();
            assert!(!kernels.is_empty());
            for kernel in kernels {
                assert!(backend.disable(&kernel) && !backend.disable(&kernel), "{kernel}");
            }
            let error = nmse(&step(model, &mut backend, &tokens, 0).unwrap(), &expected);
            assert!(error < 5e-4, "{name}: NMSE {error:e}");
            end(&kernel, backend, &name);
        });
    }
}
