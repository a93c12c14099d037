//! A model that does not fit or has no kernels is refused with figures, and nothing stays on the device.

use crate::bench::{
    CHIPS, HEAP, PAGES, end, goldens, machine, nmse, open, placed, prompt, settings, soft, step, with_model,
};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::{GpuError, Placement, Settings};
use doorbell_soft::kernel::{Chip, chip};
use doorbell_soft::processor::Level;
use doorbell_tests::blocks;
use doorbell_tests::gguf_writer::{GgufFile, Value};
use doorbell_tests::tiny::{self, Family};

#[test]
fn a_context_that_does_not_fit_is_refused_with_figures() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let mut small = chip("gfx1102").unwrap();
        small.vram = 512 << 20;
        let kernel = machine(small, Level::Fast);
        let error = open(&kernel, model, Settings { pages: 100_000.into(), ..settings(1) }).unwrap_err();
        assert!(error.is_memory());
        let GpuError::Fit(shortage) = &error else { panic!("{error}") };
        let tokens = shortage.tokens();
        assert!(tokens > 0 && tokens < 100_000 * 32, "{error}");
        assert!(error.to_string().contains(&format!("a context of {tokens} tokens would fit")), "{error}");
        assert_eq!(kernel.held(), (0, 0, 0));
        // What would fit does.
        let pages = (tokens / 32) as u32;
        let kernel = machine(small, Level::Fast);
        let again = open(&kernel, model, Settings { pages: (pages - 600).into(), ..settings(1) }).unwrap();
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
        let message = error.to_string();
        assert!(error.is_memory() && message.starts_with("the model takes "), "{message}");
        assert!(message.contains("(weights ") && message.contains(" MiB of VRAM ("), "{message}");
        assert!(message.ends_with("use a smaller model or --device cpu"), "{message}");
        assert_eq!(kernel.held(), (0, 0, 0));
    });
}

/// A GPU that KFD offers and that nothing was compiled for.
#[test]
fn a_chip_without_kernels_is_refused() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        for (version, name) in [(90_010, "gfx90a"), (100_300, "gfx1030"), (110_700, "gfx1170")] {
            let kernel = machine(Chip { version, ..chip(CHIPS[0]).unwrap() }, Level::Fast);
            let error = open(&kernel, model, settings(1)).unwrap_err();
            assert_eq!(error.to_string(), format!("there are no kernels for {name}; use --device cpu"));
            assert!(!error.is_memory() && !error.is_lost());
            assert_eq!(kernel.held(), (0, 0, 0));
        }
    });
}

/// Logits of so many rows on a chip, under all sanitizers if `level` says so, are those of the reference.
#[track_caller]
fn agrees(model: &Model<'_>, chip: &str, level: Level, rows: u32, what: &str) {
    let kernel = soft(chip, level);
    let mut backend = open(&kernel, model, placed(settings(rows), Placement::Device)).unwrap();
    let tokens = prompt(model, rows);
    let found = step(model, &mut backend, &tokens, 0).unwrap();
    let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
    let error = nmse(&found, &step(model, &mut reference, &tokens, 0).unwrap());
    assert!(error < 5e-4, "{what}, {rows} rows on {chip}: NMSE {error:e}, {}", backend.conversions());
    end(&kernel, backend, what);
}

/// Weight types without kernels and one with.
#[test]
fn any_weight_type_is_taken() {
    for kind in [Type::Q2_K, Type::Q3_K, Type::Q4_K] {
        with_model(&tiny::model(Family::Qwen3Moe, tiny::Shape::WIDE, kind, 3).to_bytes(), |model| {
            agrees(model, "gfx1151", Level::Fast, 3, kind.name());
        });
    }
}

/// Neighboring tensors are of different types, those that one kernel reads among them, with and without kernels.
#[test]
fn every_tensor_may_be_of_another_type() {
    for family in [Family::Qwen2, Family::Qwen3Moe] {
        let shape = tiny::Shape { layers: 1, ..tiny::Shape::WIDE };
        let files: Vec<GgufFile> =
            blocks::TYPES.iter().map(|&kind| tiny::model(family, shape, kind, 3)).collect();
        // Norms and the router stay what they are.
        let varies = |index: usize| files[0].tensors[index].0.ty != files[1].tensors[index].0.ty;
        let mut kinds = (0..files.len()).cycle();
        for turn in 0..3 {
            let mut mixed = files[0].clone();
            for (index, tensor) in mixed.tensors.iter_mut().enumerate().filter(|(index, _)| varies(*index)) {
                *tensor = files[kinds.next().unwrap()].tensors[index].clone();
            }
            let strange = |kind: Type| matches!(kind, Type::Q2_K | Type::Q3_K);
            let converts = mixed.tensors.iter().any(|(info, _)| strange(info.ty));
            with_model(&mixed.to_bytes(), |model| {
                let what = format!("{} {turn}", family.name());
                agrees(model, CHIPS[turn % 2], Level::Strict, 2, &what);
                agrees(model, CHIPS[turn % 2], Level::Fast, 70, &what);
                let kernel = soft(CHIPS[0], Level::Fast);
                let backend = open(&kernel, model, settings(1)).unwrap();
                let message = backend.conversions().to_string();
                assert_eq!(
                    message.contains(" weights were converted for the GPU, the first from "),
                    converts,
                    "{message}"
                );
                end(&kernel, backend, &what);
            });
        }
        let matrices = (0..files[0].tensors.len()).filter(|&index| varies(index)).count();
        assert!(3 * matrices >= blocks::TYPES.len(), "{}: not every type had its turn", family.name());
    }
}

/// A router that finds all experts alike gives every row to the first ones, so that the others have none; and there may
/// be one expert only.
#[test]
fn experts_without_rows_are_passed_over() {
    let shape = tiny::Shape { layers: 1, ..tiny::Shape::WIDE };
    let single = tiny::Shape { experts: 1, experts_used: 1, ..shape };
    let cases = [(shape, Type::Q4_K, CHIPS[0]), (shape, Type::F16, CHIPS[1]), (single, Type::Q8_0, CHIPS[1])];
    for (shape, kind, chip) in cases {
        let mut file = tiny::model(Family::Qwen3Moe, shape, kind, 3);
        for (info, data) in &mut file.tensors {
            if info.name.ends_with(b"ffn_gate_inp.weight") {
                data.fill(0);
            }
        }
        with_model(&file.to_bytes(), |model| {
            let what = format!("{} experts of {kind}", shape.experts);
            for (rows, level) in [(1, Level::Strict), (4, Level::Strict), (70, Level::Fast)] {
                agrees(model, chip, level, rows, &what);
            }
        });
    }
}

/// No experts make a model without them, whose matrices are missed; none for a row is no model at all.
#[test]
fn files_that_declare_no_experts_are_refused() {
    let refusal = |key: &str, value: u32| {
        let mut file = tiny::model(Family::Qwen3Moe, tiny::Shape::NARROW, Type::F32, 3);
        let key = format!("qwen3moe.{key}").into_bytes();
        file.metadata
            .iter_mut()
            .filter(|(name, _)| *name == key)
            .for_each(|(_, old)| *old = Value::U32(value));
        let bytes = file.to_bytes();
        Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("expert_used_count", 3), None);
    for used in [0, 9] {
        let message =
            format!("metadata key qwen3moe.expert_used_count is {used}, expected a positive number");
        assert_eq!(refusal("expert_used_count", used), Some(message + " within the supported range"));
    }
    let message = "tensor blk.0.ffn_down.weight missing; the file is incomplete or of another architecture";
    assert_eq!(refusal("expert_count", 0), Some(message.into()));
}

/// The shortest prompt: nothing before it, one row, one key.
#[test]
fn a_batch_may_be_one_token() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            CHIPS.into_iter().for_each(|chip| agrees(model, chip, Level::Strict, 1, &name));
        });
    }
}
