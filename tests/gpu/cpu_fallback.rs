//! A part of the model on the device, the rest on the CPU driver: the same results, and what fits is found.

use crate::bench::{
    CHIPS, HEAP, PAGES, end, goldens, machine, nmse, open_with, placed, prompt, settings, soft, step,
    with_model,
};
use crate::cpu_driver::CpuDriverFallback;
use doorbell_core::backend::{Backend as _, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::{BoxedCpuFallback, GpuError, LayerSplit, Placement, Settings};
use doorbell_soft::kernel::chip;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

fn on_cpu<'m>(model: &'m Model<'_>, pages: u32) -> Option<BoxedCpuFallback<'m>> {
    Some(Box::new(CpuDriverFallback::new(model, pages, KvType::F16, 1, HEAP)))
}

/// Logits of a prompt, then of one more token.
fn expected(model: &Model<'_>) -> Vec<f32> {
    let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
    let tokens = prompt(model, 36);
    let mut logits = step(model, &mut reference, &tokens[..35], 0).unwrap();
    logits.extend(step(model, &mut reference, &tokens[35..], 35).unwrap());
    logits
}

#[test]
fn any_number_of_layers_may_be_on_the_device() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            let (expected, tokens) = (expected(model), prompt(model, 36));
            let layers = model.layers.len() as u32;
            let has_experts = model.weights.iter().any(|weight| weight.stack > 1);
            let splits = (0..layers).map(|layers| LayerSplit { layers, experts: layers });
            let more = (0..layers).filter(|_| has_experts).map(|experts| LayerSplit { layers, experts });
            for split in splits.chain(more) {
                let kernel = soft(CHIPS[1], Level::Fast);
                let settings = placed(settings(35), Placement::Split(split));
                let mut backend = open_with(&kernel, model, settings, on_cpu(model, PAGES)).unwrap();
                let division = backend.split_report().unwrap();
                assert!(division.split == split && division.on_device < division.in_all, "{division}");
                let mut found = step(model, &mut backend, &tokens[..35], 0).unwrap();
                found.extend(step(model, &mut backend, &tokens[35..], 35).unwrap());
                let error = nmse(&found, &expected);
                assert!(error < 5e-4, "{name} {split:?}: NMSE {error:e}");
                end(&kernel, backend, &name);
            }
        });
    }
}

/// Kernels that are taken out of use are made up for by the CPU driver, and so are keys and values.
#[test]
fn the_cpu_driver_stands_in_for_kernels() {
    for (name, bytes) in goldens() {
        with_model(&bytes, |model| {
            let (expected, tokens) = (expected(model), prompt(model, 36));
            let kernel = soft(CHIPS[0], Level::Fast);
            let mut backend = open_with(&kernel, model, settings(35), on_cpu(model, PAGES)).unwrap();
            assert_eq!(backend.split_report(), None);
            let kernels: Vec<String> = backend.kernel_names().map(str::to_owned).collect();
            for (index, stood_in) in kernels.iter().enumerate() {
                // One at first, then more and more.
                assert!(backend.disable(stood_in));
                backend
                    .reserve(&model.plan(Shape { rows: 35, outputs: 35 }, HeadResult::Logits, HEAP).unwrap())
                    .unwrap();
                if index > 0 && index + 1 < kernels.len() && index != kernels.len() / 2 {
                    continue;
                }
                let mut found = step(model, &mut backend, &tokens[..35], 0).unwrap();
                found.extend(step(model, &mut backend, &tokens[35..], 35).unwrap());
                let error = nmse(&found, &expected);
                assert!(error < 5e-4, "{name} {index} without {stood_in}: NMSE {error:e}");
            }
            end(&kernel, backend, &name);
        });
    }
}

#[test]
fn what_does_not_fit_stays_with_the_cpu() {
    let bytes =
        tiny::model(Family::Qwen3Moe, tiny::Shape::WIDE, doorbell_core::quant::Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        let open = |vram: u64, placement| {
            let kernel =
                machine(doorbell_soft::kernel::Chip { vram, ..chip("gfx1100").unwrap() }, Level::Fast);
            let settings = Settings { pages: 64.into(), ..placed(settings(4), placement) };
            let backend = open_with(&kernel, model, settings, on_cpu(model, 64));
            let found = backend.map(|mut backend| {
                let tokens = prompt(model, 4);
                (backend.split_report(), step(model, &mut backend, &tokens, 0).unwrap())
            });
            assert_eq!(kernel.held(), (0, 0, 0));
            found
        };
        let (whole, logits) = open(24 << 30, Placement::Device).unwrap();
        assert_eq!(whole, None);
        // What the rules leave of a card is found by the same rules.
        let needed = |error: GpuError| match error {
            GpuError::Fit(shortage) => shortage,
            error => panic!("{error}"),
        };
        let nothing = needed(open(256 << 20, Placement::Device).unwrap_err());
        assert_eq!(nothing.split, None);
        let total = nothing.needs.total();
        let layers = model.layers.len() as u32;
        let (mut fewest, mut seen) = (layers + 1, 0);
        for quarter in (0..8).rev() {
            // Page tables and the like are taken off what there is.
            let vram = (256 << 20) + nothing.limit.bytes.max(1) + total * quarter / 8 + (total >> 4);
            match open(vram, Placement::Device) {
                Ok((Some(division), found)) => {
                    let LayerSplit { layers, experts } = division.split;
                    assert!(layers + experts <= fewest, "{division}");
                    fewest = layers + experts;
                    seen += 1;
                    let error = nmse(&found, &logits);
                    assert!(error < 5e-4, "{division}: NMSE {error:e}");
                    let all = needed(open(vram, Placement::Split(LayerSplit::all(model))).unwrap_err());
                    assert_eq!(all.split, Some(division.split));
                    assert!(all.to_string().contains("of the layers would fit"), "{all}");
                    assert!(division.to_string().contains("the CPU runs the rest"), "{division}");
                }
                Ok((None, found)) => assert_eq!(found, logits),
                Err(error) => assert!(needed(error).split.is_none()),
            }
        }
        assert!(seen > 0, "{total} bytes, {nothing}");
    });
}
