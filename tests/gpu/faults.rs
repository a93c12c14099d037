//! Faults of the device while loading and in mid-generation: one message, no retry, nothing left.

use crate::bench::{FIRST, open, prompt, settings, soft, step, with_model};
use doorbell_core::backend::Backend as _;
use doorbell_gpu::{GpuError, Settings};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::queue::SubmitError;
use doorbell_kfd::sys::{Errno, Fd, Kernel as _, MapMemory, request};
use doorbell_soft::kernel::{Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::{Level, Options};
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
                    assert!(error.is_memory() && !error.is_lost(), "{error:?}");
                    assert!(error.to_string().contains("no memory for "), "{error}");
                    assert_eq!(kernel.held(), (0, 0, 0), "after {left}: {error}");
                }
            }
        }
        panic!("loading never ends");
    });
}

#[test]
fn a_reset_in_mid_generation_is_reported_once_and_nothing_is_tried_again() {
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

#[test]
fn a_kernel_that_never_ends_is_reported_with_its_name() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        // The processor stops in the middle of a wave, as an endless kernel would look from outside.
        let options = Options { level: Level::Fast, budget: 300, ..Options::default() };
        let chips = [chip("gfx1151").unwrap()];
        let kernel = SoftKernel::new(Machine::new(Release::V7_2, 64 << 30, &chips), &options).unwrap();
        let mut backend = open(&kernel, model, Settings { hang_ms: 40, ..settings(4) }).unwrap();
        let tokens = prompt(model, 4);
        let error = step(model, &mut backend, &tokens, 0).unwrap_err();
        assert!(
            matches!(&error, GpuError::Fault(fault, Some(_)) if matches!(**fault, Fault::Hang(40, _))),
            "{error:?}"
        );
        assert!(error.to_string().starts_with("no progress for 40 ms"), "{error}");
        assert!(error.to_string().contains("; at or after "), "{error}");
        assert!(matches!(step(model, &mut backend, &tokens, 0), Err(GpuError::Lost(Some(_)))));
        drop(backend);
        assert_eq!(kernel.held().1, 0, "queues");
    });
}

#[test]
fn a_page_fault_is_reported_by_the_allocations_name() {
    with_model(&tiny::f32_model(Family::Qwen2, 1), |model| {
        let kernel = soft("gfx1100", Level::Fast);
        let mut backend = open(&kernel, model, settings(4)).unwrap();
        let tokens = prompt(model, 5);
        step(model, &mut backend, &tokens[..4], 0).unwrap();
        // The kernel takes the embedding away behind the driver's back.
        let process = backend.process().unwrap();
        let entries = process.allocations().entries();
        let entry = entries.iter().find(|entry| entry.name.as_str() == "token_embd.weight").unwrap();
        let mut arg = MapMemory { handle: entry.handle.unwrap().0, n_devices: 1, ..MapMemory::default() };
        let mut ids = [process.device(FIRST).gpu_id()];
        let (arg, ids) = (bytemuck::bytes_of_mut(&mut arg), bytemuck::cast_slice_mut(&mut ids));
        kernel.ioctl(&Fd::new(1), request::UNMAP_MEMORY_FROM_GPU, arg, ids).unwrap();
        let error = step(model, &mut backend, &tokens[4..], 4).unwrap_err();
        assert!(error.to_string().contains("page fault"), "{error}");
        assert!(error.to_string().contains("token_embd.weight+"), "{error}");
        assert!(matches!(step(model, &mut backend, &tokens[4..], 4), Err(GpuError::Lost(Some(_)))));
    });
}

/// A device that rests has its queue off the hardware; the next step brings it back and computes the same.
#[test]
fn a_resting_device_is_woken_by_work() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let tokens = prompt(model, 6);
        let run = |rests: bool| {
            let kernel = soft("gfx1151", Level::Fast);
            let mut backend = open(&kernel, model, settings(4)).unwrap();
            step(model, &mut backend, &tokens[..4], 0).unwrap();
            for _ in 0..if rests { 2 } else { 0 } {
                backend.suspend().unwrap();
            }
            let logits = step(model, &mut backend, &tokens[4..5], 4).unwrap();
            // A kernel that does not bring it back shows that it was away.
            backend.suspend().unwrap();
            kernel.inject(|injection| injection.refuse = Some((request::UPDATE_QUEUE, Errno::EIO)));
            let error = step(model, &mut backend, &tokens[5..], 5).unwrap_err();
            assert!(matches!(error, GpuError::Submit(SubmitError::Dead)), "{error:?}");
            backend.close().unwrap();
            assert_eq!(kernel.held(), (0, 0, 0));
            logits
        };
        assert_eq!(run(true), run(false));
    });
}
