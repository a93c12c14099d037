//! Digests of all kernels: one line for each kernel and chip, to show that a change leaves their code as it is.
//!
//! The kernels are those of tiny models of every family and weight type, of single tokens up to prompts, with variants
//! that no family has. Compare two runs without the last column to allow for new names.
#![expect(clippy::std_instead_of_alloc, reason = "a program has std")]

use anyhow::{Result, anyhow};
use doorbell_compiler::ir::Function;
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options, compile};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Attend, Epilogue, Experts, Gating, Glu, Head, HeadResult, Op, Project, Route, Shape, TensorId, VectorId,
};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_kernels::{DryRun, KernelSpec, MatrixPath, Step, WEIGHT_TYPES, lower_by, trap_handler};
use doorbell_tests::tiny::{self, Family};
use std::collections::BTreeSet;

/// One chip of each generation.
const CHIPS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];

/// Rows and output rows of batches whose kernels differ.
const BATCHES: [(u32, u32); 6] = [(1, 1), (2, 2), (8, 8), (32, 1), (64, 1), (512, 1)];

/// The widths of a real model.
const REAL: tiny::Shape = tiny::Shape {
    layers: 1,
    hidden: 2048,
    heads: 32,
    kv_heads: 4,
    head_dim: 128,
    ff: 256,
    experts: 16,
    experts_used: 8,
    expert_ff: 768,
    vocab: 384,
    context: 8192,
};

/// Query heads, KV heads, elements of a head.
const HEADS: [(usize, usize, usize); 12] = [
    (2, 1, 8),
    (17, 1, 16),
    (8, 1, 32),
    (3, 3, 40),
    (9, 1, 64),
    (6, 2, 72),
    (2, 2, 96),
    (7, 1, 128),
    (8, 1, 160),
    (2, 1, 256),
    (6, 2, 264),
    (2, 1, 512),
];

/// Prints the digests: of the machine code, or of the IR alone, which is much faster.
pub(super) fn digest(ir: bool) -> Result<()> {
    for target in CHIPS {
        for sample in SAMPLES {
            line(target, sample.name, &(sample.build)(target), ir);
        }
        let code = trap_handler(target)?;
        println!("{target} {:016x} {} trap_handler", hash(&code), code.len());
        for spec in kernels(target)? {
            let function = spec.function(target).map_err(|error| anyhow!("{}: {error}", spec.name()))?;
            line(target, &spec.name(), &function, ir);
        }
    }
    Ok(())
}

/// Prints chip, digest, bytes and name of a kernel.
fn line(target: Target, name: &str, function: &Function, ir: bool) {
    if ir {
        let text = Function { name: String::new(), ..function.clone() }.to_string();
        return println!("{target} {:016x} {} {name}", hash(text.as_bytes()), text.len());
    }
    match compile(function, target, &Options::default()) {
        Ok(kernel) => {
            let mut bytes = kernel.descriptor(0).to_vec();
            bytes.extend(kernel.words.iter().flat_map(|word| word.to_le_bytes()));
            for argument in &function.arguments {
                bytes.extend(argument.name.bytes());
                bytes.extend(argument.offset.to_le_bytes());
            }
            println!("{target} {:016x} {} {name}", hash(&bytes), kernel.resources.code_bytes);
        }
        Err(error) => println!("{target} {:016x} refused {name}", hash(error.to_string().as_bytes())),
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// All kernels of a chip.
fn kernels(target: Target) -> Result<BTreeSet<KernelSpec>> {
    let mut found = BTreeSet::new();
    for ty in WEIGHT_TYPES {
        of_model(Family::Qwen3Moe, tiny::Shape::ragged(ty), ty, &KvType::ALL, target, &mut found)?;
    }
    for family in Family::ALL {
        of_model(family, tiny::Shape::NARROW, Type::Q8_0, &KvType::ALL, target, &mut found)?;
    }
    for (heads, kv_heads, head_dim) in HEADS {
        let shape =
            tiny::Shape { layers: 1, heads, kv_heads, head_dim, context: 8192, ..tiny::Shape::NARROW };
        let all: &[KvType] = if head_dim % 32 == 0 { &KvType::ALL } else { &[KvType::F16, KvType::F32] };
        of_model(Family::Qwen3, shape, Type::F32, all, target, &mut found)?;
    }
    of_model(Family::Qwen3Moe, REAL, Type::Q4_K, &[KvType::F16, KvType::Q8_0], target, &mut found)?;
    Ok(found)
}

/// The kernels of a model.
fn of_model(
    family: Family,
    shape: tiny::Shape,
    ty: Type,
    kv: &[KvType],
    target: Target,
    found: &mut BTreeSet<KernelSpec>,
) -> Result<()> {
    let heap: Heap<'_> = &heap::Global;
    let bytes = tiny::model(family, shape, ty, 5).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, heap)?, heap)?;
    let dry_run = DryRun::new(&model);
    for ((rows, outputs), result) in BATCHES.into_iter().flat_map(|batch| {
        [HeadResult::Logits, HeadResult::ArgMax, HeadResult::Hidden].map(|result| (batch, result))
    }) {
        let plan = model.plan(Shape { rows, outputs }, result, heap)?;
        for (kv, positions) in kv.iter().flat_map(|kv| [(*kv, 64), (*kv, 4096)]) {
            let step = dry_run.step(&model, &plan, kv, positions);
            let mut feeding = step;
            feeding.inputs.ring = Some(0);
            for op in plan.ops.iter().flat_map(variants) {
                lowered(&op, &step, target, found);
                lowered(&op, &feeding, target, found);
            }
        }
    }
    Ok(())
}

/// Adds the kernels of an operation on every path; an operation without kernels has none.
fn lowered(op: &Op, step: &Step<'_, '_>, target: Target, found: &mut BTreeSet<KernelSpec>) {
    for path in [None, Some(MatrixPath::F16), Some(MatrixPath::I8)] {
        let _ = lower_by(path, op, step, target, &mut |launch| _ = found.insert(launch.spec));
    }
}

/// An operation, and what it could be in other models.
fn variants(op: &Op) -> Vec<Op> {
    let vector = Some(VectorId(0));
    let oai = Glu::Oai { alpha: 1.702, limit: 7.0 };
    let mut all = vec![op.clone()];
    match op {
        Op::Attend(op) => {
            all.push(Op::Attend(Attend { soft_cap: Some(2.0), ..*op }));
            all.push(Op::Attend(Attend { window: Some(33), sinks: vector, ..*op }));
        }
        Op::Route(op) => {
            for gating in [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen] {
                for (selection_bias, renormalize) in [(vector, false), (None, true)] {
                    all.push(Op::Route(Route { gating, selection_bias, renormalize, ..*op }));
                }
            }
        }
        Op::Experts(op) => {
            let mut biased = *op;
            for matrix in [&mut biased.gate, &mut biased.up, &mut biased.down] {
                (matrix.bias, matrix.scale) = (vector, vector);
            }
            all.extend([Glu::Gelu, oai].map(|glu| Op::Experts(Experts { glu, ..biased })));
        }
        Op::Project(op) => all.extend(projections(op, oai)),
        Op::Head(op) => all.push(Op::Head(Head { soft_cap: Some(2.0), scale: 0.5, ..*op })),
        _ => {}
    }
    all
}

/// A projection into a stream with a gate, and as a gated pair.
fn projections(op: &Project, oai: Glu) -> Vec<Op> {
    let Epilogue::Add { to } = op.parts[0].epilogue else { return Vec::new() };
    let up = op.parts[0].matrix;
    let epilogues = [Epilogue::AddGated { to, gate: TensorId(0) }]
        .into_iter()
        .chain([Glu::Gelu, oai].map(|glu| Epilogue::Gate { up, glu, out: to }));
    epilogues
        .map(|epilogue| {
            let mut op = op.clone();
            op.parts[0].epilogue = epilogue;
            op.parts[0].matrix.bias = Some(VectorId(0));
            op.parts[0].matrix.scale = Some(VectorId(0));
            Op::Project(op)
        })
        .collect()
}
