//! Faults of the device while loading and in mid-generation: one message, no retry, nothing left.

use crate::bench::{open, prompt, settings, soft, step, with_model};
use doorbell_gpu::GpuError;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

#[test]
fn memory_that_runs_out_while_loading_leaves_nothing() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let mut refused = 0;
        for left in 0..400 {
            let kernel = soft("gfx1100", Level::Fast);
            // Bring-up takes some allocations of its own and is tested with the driver.
            kernel.inject(|injection| injection.allocations_left = Some(6 + left));
            match open(&kernel, model, settings(2)) {
                Ok(backend) => {
                    kernel.inject(|injection| injection.allocations_left = None);
                    backend.close().unwrap();
                    assert_eq!(kernel.held(), (0, 0, 0));
                    assert!(refused > 10, "{refused} allocations");
                    return;
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.is_lost(), "{error}");
                    assert_eq!(kernel.held(), (0, 0, 0), "after {left}: {error}");
                }
            }
        }
        panic!("loading never ends");
    });
}

#[test]
fn a_reset_in_mid_generation_is_told_once_and_nothing_is_tried_again() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let kernel = soft("gfx1100", Level::Fast);
        let mut backend = open(&kernel, model, settings(4)).unwrap();
        let tokens = prompt(model, 6);
        step(model, &mut backend, &tokens[..4], 0).unwrap();
        kernel.inject(|injection| injection.reset_after = Some(0));
        let error = step(model, &mut backend, &tokens[4..5], 4).unwrap_err();
        assert!(matches!(error, GpuError::Fault(..)), "{error:?}");
        assert!(error.to_string().contains("the whole GPU was reset"), "{error}");
        assert!(error.to_string().contains("loaded anew"), "{error}");
        let after = step(model, &mut backend, &tokens[5..], 5).unwrap_err();
        assert!(matches!(&after, GpuError::Lost(Some(_))), "{after:?}");
        let _ = backend.close();
    });
}
