//! Kernels compile where registers and LDS suffice, and none takes scratch: every matrix kernel for every weight type,
//! and all that the reference model needs.

use crate::check::full;
use crate::figures::reference;
use crate::machine::kernel;
use crate::oracle::HEAP;
use crate::{KINDS, TARGETS};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::{Bend, Factor, Finish, Gemm, Grouped, Nowhere, Path, Recipe, Stack, recipes};
use doorbell_tests::tiny::{self, Family};
use std::collections::BTreeSet;

#[test]
fn matrix_kernels_of_every_type() {
    let mut number = 0;
    for kind in KINDS {
        let factor = Factor { kind, scale: false, bias: false };
        let stack = Stack { factor, rows: 256, stride: 256, own_scale: false };
        let floats = matches!(kind, Type::F32 | Type::F16 | Type::BF16);
        let paths = if floats { &[Path::Half][..] } else { &[Path::Half, Path::Byte] };
        let mut recipes = Vec::new();
        for (path, gated) in paths.iter().flat_map(|path| [(*path, false), (*path, true)]) {
            let up = gated.then_some((factor, Bend::Silu));
            let (matrix, finish) = (factor, Finish::Store);
            for blocks in [1, 2] {
                recipes.push(Recipe::Gemm(Gemm { path, matrix, up, cols: 512, outs: 256, finish, blocks }));
            }
            let up = gated.then_some((stack, Bend::Silu));
            for tile in [16, 32, 64, 128] {
                recipes.push(Recipe::Grouped(Grouped { path, matrix: stack, up, cols: 512, tile }));
            }
        }
        for recipe in recipes {
            number += 1;
            let targets = if full() { &TARGETS[..] } else { &TARGETS[number % 3..=number % 3] };
            for target in targets {
                let kernel = kernel(&recipe, *target);
                assert!(kernel.resources.lds_bytes <= 64 << 10, "{}", recipe.name());
            }
        }
    }
}

/// Rows and output rows of batches whose kernels differ.
const SHAPES: [(u32, u32); 6] = [(1, 1), (2, 2), (8, 8), (32, 1), (64, 1), (512, 1)];

/// The kernels of a model's operations.
fn kernels(model: &Model<'_>, kv: KvType, target: Target) -> BTreeSet<Recipe> {
    let nowhere = Nowhere::new(model);
    let mut kernels = BTreeSet::new();
    for ((rows, outputs), positions) in SHAPES.into_iter().flat_map(|shape| [(shape, 64), (shape, 4096)]) {
        for result in [HeadResult::Logits, HeadResult::ArgMax, HeadResult::Hidden] {
            let plan = model.plan(Shape { rows, outputs }, result, HEAP).unwrap();
            let (own, missing) = recipes(&nowhere.step(model, &plan, kv, positions), target);
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
                let recipes = kernels(&model, kv, target);
                // Decoding, several sequences, prompts: each with its own.
                assert!(recipes.len() > 20, "{} kernels", recipes.len());
                // `kernel` refuses those that take scratch.
                let code: usize = recipes.iter().map(|recipe| kernel(recipe, target).words.len()).sum();
                println!("{target} {kind} {kv}: {} kernels, {} bytes of code", recipes.len(), 4 * code);
            }
        }
    }
}
