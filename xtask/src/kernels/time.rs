//! Compile time on one core: of the samples, and of all kernels of a model.
//!
//! Figures for developers, measured in CPU time of the thread; use `cargo run --release -p xtask`.

use anyhow::{Context, Result, anyhow};
use core::time::Duration;
use doorbell_compiler::ir::Function;
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options, Report, compile};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{self, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_isa::Target;
use doorbell_kernels::{DryRun, KernelSpec, kernel_specs};
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
        for (rows, specs) in kernels(model, target)? {
            let mut kernels = Vec::new();
            for spec in specs {
                let function = spec.function(target).map_err(|error| anyhow!("{}: {error}", spec.name()))?;
                kernels.push((spec.name(), function));
            }
            table(&format!("kernels of the model for {rows} rows"), &kernels, target)?;
        }
    }
    Ok(())
}

/// CPU time of this thread.
fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn table(title: &str, kernels: &[(String, Function)], target: Target) -> Result<()> {
    let (mut medians, mut code) = (Vec::new(), 0);
    for (name, function) in kernels {
        let kernel = compile(function, target, &Options::default()).with_context(|| name.clone())?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let start = now();
            compile(function, target, &Options::default()).with_context(|| name.clone())?;
            times.push(now().saturating_sub(start));
        }
        times.sort();
        let Report { vgprs, waves, lds_bytes, code_bytes, dual, .. } = kernel.report();
        println!(
            "median {:9.3?}  maximum {:9.3?}  {vgprs:>3} VGPRs {waves:>2} waves {lds_bytes:>5} LDS {code_bytes:>6} \
             bytes {dual:>4} dual  {name:.60}",
            times[RUNS / 2],
            times[RUNS - 1],
        );
        medians.push(times[RUNS / 2]);
        code += u64::from(code_bytes);
    }
    medians.sort();
    let (count, sum) = (medians.len(), medians.iter().sum::<Duration>());
    if let (Some(median), Some(most)) = (medians.get(count / 2), medians.last()) {
        println!(
            "{title} for {target}: {count} of {code} bytes, median {median:.3?}, maximum {most:.3?}, all {sum:.3?} of \
             CPU"
        );
    }
    Ok(())
}

/// The kernels of a model's operations, by rows of the batch. Operations that run on the CPU have none.
fn kernels(path: &Path, target: Target) -> Result<Vec<(u32, Vec<KernelSpec>)>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let heap: Heap<'_> = &heap::Global;
    let gguf = Gguf::parse(&bytes, heap)?;
    let model = Model::new(&gguf, heap)?;
    let dry_run = DryRun::new(&model);
    let (mut batches, mut left_out) = (Vec::new(), Vec::new());
    for (rows, outputs) in SHAPES {
        let mut kernels = Vec::new();
        for result in [HeadResult::Logits, HeadResult::ArgMax] {
            let plan = model.plan(Shape { rows, outputs }, result, heap)?;
            let (own, missing) = kernel_specs(&dry_run.step(&model, &plan, KvType::F16, 1024), target);
            kernels.extend(own);
            left_out.extend(missing);
        }
        kernels.sort();
        kernels.dedup();
        batches.push((rows, kernels));
    }
    if !left_out.is_empty() {
        let operations = left_out.len();
        left_out.sort_unstable();
        left_out.dedup();
        println!("left out: {operations} operations of the CPU ({})", left_out.join(", "));
    }
    Ok(batches)
}
