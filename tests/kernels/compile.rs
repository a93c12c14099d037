//! Kernels compile where registers and LDS suffice, and none takes scratch: every matrix kernel for every weight type,
//! and all that the reference model needs.

use crate::TARGETS;
use crate::check::full;
use crate::figures::reference;
use crate::machine::kernel;
use crate::oracle::HEAP;
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::WEIGHT_TYPES;
use doorbell_kernels::{
    DryRun, ExpertMatrix, Gemm, GluSpec, GroupedGemm, KernelSpec, MatrixPath, MatrixSpec, OutputMode,
    kernel_specs,
};
use doorbell_tests::tiny::{self, Family};
use std::collections::BTreeSet;

#[test]
fn matrix_kernels_of_every_type() {
    let mut number = 0;
    for kind in WEIGHT_TYPES {
        let factor = MatrixSpec { ty: kind, scale: false, bias: false };
        let stack = ExpertMatrix { factor, rows: 256, stride: 256, own_scale: false };
        let floats = matches!(kind, Type::F32 | Type::F16 | Type::BF16);
        let paths = if floats { &[MatrixPath::F16][..] } else { &[MatrixPath::F16, MatrixPath::I8] };
        let mut specs = Vec::new();
        for (path, gated) in paths.iter().flat_map(|path| [(*path, false), (*path, true)]) {
            let up = gated.then_some((factor, GluSpec::Silu));
            let (matrix, output) = (factor, OutputMode::Store);
            for blocks in [1, 2] {
                specs.push(KernelSpec::Gemm(Gemm { path, matrix, up, cols: 512, outs: 256, output, blocks }));
            }
            let up = gated.then_some((stack, GluSpec::Silu));
            for tile in [16, 32, 64, 128] {
                specs.push(KernelSpec::GroupedGemm(GroupedGemm { path, matrix: stack, up, cols: 512, tile }));
            }
        }
        for spec in specs {
            number += 1;
            let targets = if full() { &TARGETS[..] } else { &TARGETS[number % 3..=number % 3] };
            for target in targets {
                let kernel = kernel(&spec, *target);
                assert!(kernel.resources.lds_bytes <= 64 << 10, "{}", spec.name());
            }
        }
    }
}

/// Rows and output rows of batches whose kernels differ.
const SHAPES: [(u32, u32); 6] = [(1, 1), (2, 2), (8, 8), (32, 1), (64, 1), (512, 1)];

/// The kernels of a model's operations.
fn kernels(model: &Model<'_>, kv: KvType, target: Target) -> BTreeSet<KernelSpec> {
    let dry_run = DryRun::new(model);
    let mut kernels = BTreeSet::new();
    for ((rows, outputs), positions) in SHAPES.into_iter().flat_map(|shape| [(shape, 64), (shape, 4096)]) {
        for result in [HeadResult::Logits, HeadResult::ArgMax, HeadResult::Hidden] {
            let plan = model.plan(Shape { rows, outputs }, result, HEAP).unwrap();
            let (own, missing) = kernel_specs(&dry_run.step(model, &plan, kv, positions), target);
            assert!(missing.is_empty(), "{missing:?}");
            kernels.extend(own);
        }
    }
    kernels
}

#[test]
fn kernels_of_the_reference_model_take_no_scratch() {
    for kind in [Type::Q4_K, Type::Q6_K] {
        let bytes = tiny::model(Family::Qwen3Moe, reference(), kind, 5).to_bytes();
        let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
        for target in TARGETS {
            for kv in [KvType::F16, KvType::Q8_0] {
                let specs = kernels(&model, kv, target);
                // Decoding, several sequences, prompts: each with its own.
                assert!(specs.len() > 20, "{} kernels", specs.len());
                // `kernel` refuses those that take scratch.
                let code: usize = specs.iter().map(|spec| kernel(spec, target).words.len()).sum();
                println!("{target} {kind} {kv}: {} kernels, {} bytes of code", specs.len(), 4 * code);
            }
        }
    }
}
