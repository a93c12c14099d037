//! Time that compiling takes on one core: of the samples, and of all kernels that a model needs.
//!
//! Figures for developers, measured in CPU time of the thread; use `cargo run --release -p xtask`.

use anyhow::{Context, Result, anyhow};
use core::time::Duration;
use doorbell_compiler::ir::Function;
use doorbell_compiler::sample::SAMPLES;
use doorbell_compiler::{Options, compile};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_isa::Target;
use doorbell_kernels::{Inputs, KvPool, Recipe, Step, lower};
use std::path::Path;

/// Runs per kernel.
const RUNS: usize = 20;

/// Rows and output rows of the batches whose kernels are compiled: single tokens, several sequences, prompts.
const SHAPES: [(u32, u32); 4] = [(1, 1), (8, 8), (32, 1), (512, 1)];

/// Prints both.
pub(super) fn time(target: Target, model: Option<&Path>) -> Result<()> {
    let mut samples = Vec::new();
    for sample in SAMPLES {
        samples.push((sample.name.to_owned(), (sample.build)(target)));
    }
    table("samples", &samples, target)?;
    if let Some(model) = model {
        let mut kernels = Vec::new();
        for recipe in recipes(model, target)? {
            let function = recipe.function(target).map_err(|error| anyhow!("{}: {error}", recipe.name()))?;
            kernels.push((recipe.name(), function));
        }
        table("kernels of the model", &kernels, target)?;
    }
    Ok(())
}

/// CPU time of this thread.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn table(title: &str, kernels: &[(String, Function)], target: Target) -> Result<()> {
    let mut medians = Vec::new();
    for (name, function) in kernels {
        let mut times = Vec::new();
        let mut dwords = 0;
        for _ in 0..RUNS {
            let start = now();
            let kernel = compile(function, target, &Options::default()).with_context(|| name.clone())?;
            times.push(now().saturating_sub(start));
            dwords = kernel.words.len();
        }
        times.sort();
        println!(
            "median {:9.3?}  maximum {:9.3?}  {:6} bytes  {name:.60}",
            times[RUNS / 2],
            times[RUNS - 1],
            4 * dwords
        );
        medians.push(times[RUNS / 2]);
    }
    medians.sort();
    let (count, sum) = (medians.len(), medians.iter().sum::<Duration>());
    if let (Some(median), Some(most)) = (medians.get(count / 2), medians.last()) {
        println!(
            "{title} for {target}: {count}, median {median:.3?}, maximum {most:.3?}, all {sum:.3?} of CPU"
        );
    }
    Ok(())
}

/// The recipes that a model's operations need, for all batches; those that the GPU leaves to the CPU need none.
fn recipes(path: &Path, target: Target) -> Result<Vec<Recipe>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let heap: Heap<'_> = &heap::Global;
    let gguf = Gguf::parse(&bytes, heap)?;
    let model = Model::new(&gguf, heap)?;
    let (weights, vectors) = (vec![0; model.weights.len()], vec![0; model.vectors.len()]);
    let ropes = vec![0; model.ropes.len()];
    let pools = vec![KvPool { keys: 0, values: 0 }; model.groups.len()];
    let (mut recipes, mut left_out) = (Vec::new(), Vec::new());
    for (rows, outputs) in SHAPES {
        for result in [HeadResult::Logits, HeadResult::ArgMax] {
            let plan = model.plan(Shape { rows, outputs }, result, heap)?;
            let step = Step {
                model: &model,
                plan: &plan,
                rows,
                outputs,
                positions: 1024,
                arena: 0,
                scratch: 0,
                weights: &weights,
                vectors: &vectors,
                ropes: &ropes,
                pools: &pools,
                kv: KvType::F16,
                inputs: NOWHERE,
            };
            for op in &plan.ops {
                let before = recipes.len();
                if lower(op, &step, target, &mut |launch| recipes.push(launch.recipe)).is_err() {
                    recipes.truncate(before);
                    left_out.push(op.name());
                }
            }
        }
    }
    recipes.sort();
    recipes.dedup();
    if !left_out.is_empty() {
        let operations = left_out.len();
        left_out.sort_unstable();
        left_out.dedup();
        println!("left out: {operations} operations of the CPU ({})", left_out.join(", "));
    }
    Ok(recipes)
}

/// Inputs that no kernel reads: nothing is run.
const NOWHERE: Inputs = Inputs {
    tokens: 0,
    positions: 0,
    tables: 0,
    pages: 0,
    outputs: 0,
    output_positions: 0,
    output_tables: 0,
    result: 0,
    ring: None,
};
