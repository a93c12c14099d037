//! Opening of a backend on a device, and estimates of a plan and its memory before that.

use super::any::AnyBackend;
use super::error::BackendError;
use super::gpu::{Sleeper, open_gpu, software_machine, software_options};
use crate::cpu_fallback::CpuDriverFallback;
use crate::device::{Device, InjectedFault};
use crate::kernel_check_cache::KernelCheckFile;
use doorbell_core::backend::KvType;
use doorbell_core::engine::Config;
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Plan, PlanError};
use doorbell_cpu::backend::CpuBackend;
use doorbell_gpu::estimate::PlanEstimate;
use doorbell_gpu::{BoxedCpuFallback, Encoding, GpuBackend, LayerSplit, Placement, Settings};
use doorbell_kfd::sys::Linux;

/// Options of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// Type of keys and values.
    pub kv: KvType,
    /// Threads on the CPU.
    pub threads: usize,
    /// Number of first layers that a GPU runs; `None` for all that fit.
    pub gpu_layers: Option<u32>,
    /// Number of these layers whose experts the GPU runs, too; `None` for all that fit.
    pub gpu_experts: Option<u32>,
    /// True to record the time of each kernel on a GPU. Software GPUs then report modelled times, and are slower.
    pub profile: bool,
    /// The packets that carry dispatches to a GPU.
    pub submit: Encoding,
}

impl BackendConfig {
    /// The whole model on the device if it fits, without times of kernels.
    #[must_use]
    pub fn new(kv: KvType, threads: usize) -> Self {
        Self { kv, threads, gpu_layers: None, gpu_experts: None, profile: false, submit: Encoding::Pm4 }
    }

    fn placement(&self, model: &Model<'_>) -> Placement {
        let all = LayerSplit::all(model);
        match (self.gpu_layers, self.gpu_experts) {
            (None, None) => Placement::Device,
            (layers, experts) => {
                let layers = layers.unwrap_or(all.layers).min(all.layers);
                Placement::Split(LayerSplit { layers, experts: experts.unwrap_or(layers).min(layers) })
            }
        }
    }
}

/// Milliseconds before a GPU with an injected hang counts as hanging.
const INJECTED_HANG_MS: u32 = 500;

/// Opens a backend for `model` on `device` within the limits of `config`. Operations that a GPU does not run are run by the
/// CPU.
///
/// # Errors
///
/// There is not enough memory, a thread or the device can't be opened, or the device has no kernel for a weight.
pub fn open_backend<'m, 'a>(
    device: Device,
    model: &'m Model<'a>,
    config: &Config,
    setup: &BackendConfig,
    heap: Heap<'m>,
) -> Result<AnyBackend<'m, 'a>, BackendError> {
    let BackendConfig { kv, threads, profile, submit, .. } = *setup;
    let (process, index) = match device {
        Device::Cpu => {
            let backend = CpuBackend::new(model, config.kv_pages(model), kv, threads, heap)?;
            return Ok(AnyBackend::Cpu(Box::new(backend)));
        }
        Device::Kfd(number) => open_gpu(&Linux, number, device)?,
        Device::Soft { chip, strict, injection } => {
            let kernel = software_machine(chip, software_options(strict, threads, profile))?;
            injection.into_iter().for_each(|fault| kernel.inject(|state| fault.inject(state)));
            open_gpu(kernel, 0, device)?
        }
    };
    let node = process.device(index).node();
    let name = format!("{}:{:x}", node.isa(), node.identity().unique);
    let placement = setup.placement(model);
    let plain = Settings::new(config.kv_pages(model), kv, config.largest_shape());
    let injected_hang = matches!(device, Device::Soft { injection: Some(injection), .. } if injection.fault == InjectedFault::Hang);
    let hang_ms = if injected_hang { INJECTED_HANG_MS } else { plain.hang_ms };
    let states = config.states();
    let settings = Settings { states, profile, placement, hang_ms, submit, ..plain };
    let fallback: BoxedCpuFallback<'m> =
        Box::new(CpuDriverFallback::new(model, config.kv_pages(model), kv, threads, heap));
    let mut backend =
        GpuBackend::new(process, index, model, settings, Box::new(Sleeper), Some(fallback), heap)?;
    // kernels on software GPUs are checked by tests
    if matches!(device, Device::Kfd(_)) {
        let mut cache = KernelCheckFile::open(name);
        let checked = backend.check_kernels(&mut cache, heap);
        // also after a failure: a check that has reset the device must not run again
        cache.save();
        checked?;
    }
    Ok(AnyBackend::Gpu(Box::new(backend)))
}

/// Bytes of host memory that a backend needs in addition to [`Config::memory`]; measured by allocating and freeing them. A
/// software GPU holds a copy of the weights.
///
/// # Errors
///
/// There is not enough working memory, or a step can't be planned.
pub fn scratch_bytes(
    device: Device,
    model: &Model<'_>,
    config: &Config,
    kv: KvType,
    threads: usize,
    heap: Heap<'_>,
) -> Result<usize, PlanError> {
    let plan = model.plan(config.largest_shape(), HeadResult::Logits, heap)?;
    match device {
        Device::Cpu => {
            Ok(CpuBackend::scratch_bytes(model, config.kv_pages(model), kv, threads, &plan, heap)?)
        }
        Device::Kfd(_) => Ok(0),
        Device::Soft { .. } => {
            let weights: u64 = model.weights.iter().map(|weight| weight.bytes()).sum();
            Ok(usize::try_from(weights).unwrap_or(usize::MAX))
        }
    }
}

/// Estimates a plan on a GPU without running it; `None` for the CPU. Operations that do not fit run on the CPU, as in a real
/// run.
///
/// # Errors
///
/// The device is gone, has too little memory or no kernels, or a kernel does not compile.
pub fn estimate(
    device: Device,
    model: &Model<'_>,
    plan: &Plan<'_>,
    setup: &BackendConfig,
    positions: u32,
    heap: Heap<'_>,
) -> Result<Option<PlanEstimate>, BackendError> {
    let (process, index) = match device {
        Device::Cpu => return Ok(None),
        Device::Kfd(number) => open_gpu(&Linux, number, device)?,
        Device::Soft { chip, .. } => {
            open_gpu(software_machine(chip, software_options(false, 1, false))?, 0, device)?
        }
    };
    let (isa, budget) = (process.device(index).node().isa(), process.budget(index).first);
    drop(process);
    let (placement, submit) = (setup.placement(model), setup.submit);
    let config = Config::new(positions.max(plan.shape.rows), 1, plan.shape.rows);
    let plain = Settings::new(config.kv_pages(model), setup.kv, plan.shape);
    let settings = Settings { states: config.states(), placement, submit, ..plain };
    Ok(Some(doorbell_gpu::estimate::estimate(model, plan, isa, &budget, &settings, positions, heap)?))
}
