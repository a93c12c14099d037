//! Recurrent states on the device: copies, what they take, and which operations run there.

use crate::bench::{
    CHIPS, FIRST, HEAP, STATES, clock, end, goldens, open, prompt, settings, soft, step, with_model,
};
use doorbell_core::backend::Backend;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape, StateId};
use doorbell_gpu::{GpuBackend, GpuError, Settings};
use doorbell_kfd::process::Process;
use doorbell_kfd::topology::Topology;
use doorbell_soft::processor::Level;

/// The golden models with recurrent states.
fn recurrent(test: impl Fn(&str, &Model<'_>)) {
    let mut count = 0;
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            if model.state.is_some() {
                count += 1;
                test(&name, model);
            }
        });
    }
    assert!(count >= 3, "{count} models");
}

fn bits(logits: Vec<f32>) -> Vec<u32> {
    logits.into_iter().map(f32::to_bits).collect()
}

/// Tokens behind a restored state are those that followed when it was copied, whatever came in between.
#[test]
fn a_copied_state_goes_on_like_the_first() {
    recurrent(|name, model| {
        for chip in CHIPS {
            let kernel = soft(chip, Level::Strict);
            let mut backend = open(&kernel, model, settings(20)).unwrap();
            let tokens = prompt(model, 26);
            step(model, &mut backend, &tokens[..20], 0).unwrap();
            // Sequences of these tests have the first of the states.
            backend.copy_state(STATES[0], STATES[5]);
            let expected = bits(step(model, &mut backend, &tokens[20..24], 20).unwrap());
            step(model, &mut backend, &tokens[24..26], 24).unwrap();
            backend.copy_state(STATES[5], STATES[0]);
            assert!(
                bits(step(model, &mut backend, &tokens[20..24], 20).unwrap()) == expected,
                "{name} on {chip}"
            );
            // States that are not there are left alone.
            backend.copy_state(STATES[5], StateId(99));
            backend.copy_state(StateId(99), STATES[0]);
            end(&kernel, backend, name);
        }
    });
}

/// Delta nets and what Qwen3.5 and Gemma 4 have around attention run on the device; experts do whose rows are no whole
/// eights.
#[test]
fn the_device_runs_what_these_families_have() {
    let families = ["qwen35", "qwen3next", "gemma4"];
    let goldens: Vec<_> = goldens()
        .into_iter()
        .filter(|(name, _)| families.iter().any(|family| name.starts_with(family)))
        .collect();
    assert!(goldens.len() >= 5, "{} models", goldens.len());
    for (name, bytes) in goldens {
        with_model(&bytes, |model| {
            let kernel = soft(CHIPS[0], Level::Fast);
            let backend = open(&kernel, model, settings(4)).unwrap();
            for outputs in [1, 4] {
                let plan = model.plan(Shape { rows: 4, outputs }, HeadResult::Logits, HEAP).unwrap();
                for op in plan.ops.iter().filter(|op| !backend.supports(op)) {
                    // Rows of 12 or 20 weights.
                    let mut odd = false;
                    op.each_matrix(|matrix| odd |= !model.weight(matrix.weight).cols.is_multiple_of(8));
                    assert!(odd, "{name}: {} has no kernel", op.name());
                }
                let states = plan.ops.iter().filter(|op| matches!(op, Op::DeltaNet(_)));
                assert!(states.clone().all(|op| backend.supports(op)));
                assert_eq!(states.count(), model.state.map_or(0, |state| usize::from(state.layers)));
            }
            end(&kernel, backend, &name);
        });
    }
}

/// States are counted before anything is loaded, to the byte, and are named where they do not fit.
#[test]
fn states_are_part_of_what_a_model_takes() {
    recurrent(|name, model| {
        // A program's address space on a device is opened once.
        let kernels = [0; 3].map(|_| soft(CHIPS[0], Level::Fast));
        let open = |kernel, states: u32| {
            let process = Process::open_all(kernel, &Topology::scan(kernel).unwrap()).unwrap();
            GpuBackend::new(process, FIRST, model, Settings { states, ..settings(1) }, clock(), None, HEAP)
        };
        let Err(GpuError::Fit(shortage)) = open(&kernels[0], u32::MAX).map(drop) else {
            panic!("{name} fits")
        };
        let state = model.state.unwrap().bytes() as u64;
        assert_eq!(shortage.needs.states, state * u64::from(u32::MAX), "{name}");
        assert!(shortage.to_string().contains("recurrent states"), "{shortage}");
        // As many as there is room for, less some pages of everything else.
        let rest = shortage.limit.bytes - (shortage.needs.total() - shortage.needs.states);
        let error = open(&kernels[1], (rest / state) as u32 + 1).map(drop).unwrap_err();
        assert!(matches!(error, GpuError::Fit(_)), "{name}: {error}");
        let backend = open(&kernels[2], 9).unwrap();
        let entries = backend.process().unwrap().allocations().entries();
        let found: u64 = entries
            .iter()
            .filter(|entry| entry.name.as_str() == "recurrent states")
            .map(|entry| entry.bytes)
            .sum();
        assert!(found >= 9 * state && found < 9 * state + 8192, "{name}: {found} bytes, not {}", 9 * state);
        end(&kernels[2], backend, name);
    });
}
