//! What does not fit or has no kernels is refused with figures, and nothing stays behind.

use crate::bench::{HEAP, PAGES, end, machine, nmse, open, placed, prompt, settings, soft, step, with_model};
use doorbell_core::backend::KvType;
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::{GpuError, Placement, Settings};
use doorbell_soft::kernel::chip;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

#[test]
fn a_context_that_does_not_fit_is_refused_with_figures() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let mut small = chip("gfx1102").unwrap();
        small.vram = 512 << 20;
        let kernel = machine(small, Level::Fast);
        let error = open(&kernel, model, Settings { pages: 100_000, ..settings(1) }).unwrap_err();
        assert!(error.is_memory());
        let GpuError::Fit(shortage) = &error else { panic!("{error}") };
        let tokens = shortage.tokens();
        assert!(tokens > 0 && tokens < 100_000 * 32, "{error}");
        assert!(error.to_string().contains(&format!("a context of {tokens} tokens would fit")), "{error}");
        assert_eq!(kernel.held(), (0, 0, 0));
        // What would fit does.
        let pages = (tokens / 32) as u32;
        let kernel = machine(small, Level::Fast);
        let again = open(&kernel, model, Settings { pages: pages - 600, ..settings(1) }).unwrap();
        end(&kernel, again, "the context that fits");
    });
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_figures() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let mut tiny = chip("gfx1102").unwrap();
        tiny.vram = 256 << 20;
        let kernel = machine(tiny, Level::Fast);
        let error = open(&kernel, model, settings(1)).unwrap_err();
        assert!(matches!(error, GpuError::Fit(shortage) if shortage.tokens() == 0), "{error}");
        assert_eq!(kernel.held(), (0, 0, 0));
    });
}

/// Weight types with and without kernels, in one file and alone, give the reference's logits.
#[test]
fn any_weight_type_is_taken() {
    for kind in [Type::Q2_K, Type::Q3_K, Type::Q4_K] {
        with_model(&tiny::model(Family::Qwen3Moe, tiny::Shape::WIDE, kind, 3).to_bytes(), |model| {
            let kernel = soft("gfx1151", Level::Fast);
            let mut backend = open(&kernel, model, placed(settings(3), Placement::Device)).unwrap();
            let tokens = prompt(model, 3);
            let found = step(model, &mut backend, &tokens, 0).unwrap();
            let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
            let error = nmse(&found, &step(model, &mut reference, &tokens, 0).unwrap());
            assert!(error < 5e-4, "{}: NMSE {error:e}, {}", kind.name(), backend.conversions());
            end(&kernel, backend, kind.name());
        });
    }
}
