//! The device flags, the resolved device, and the backend on it.

use crate::failure::{Failure, Kind};
use crate::loaded::HEAP;
use crate::output::{note, size};
use core::num::NonZeroUsize;
use doorbell_core::backend::KvType;
use doorbell_core::engine::{Config, Memory};
use doorbell_core::model::Model;
use doorbell_core::plan::PlanError;
use doorbell_core::sample::SamplerParams;
use doorbell_runtime::backend::{self, AnyBackend, BackendConfig, BackendError, Encoding};
use doorbell_runtime::device::{Device, DeviceRequest};
use doorbell_runtime::memory::host_memory;

/// Flags that choose the device and how the model runs on it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// The device: auto, cpu, kfd, kfd:N, or a software GPU: soft, soft:GFX or soft:GFX,strict, which checks
    /// every access and is slower
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceRequest,
    /// Threads on the CPU [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Type of keys and values: f16, f32, or q8_0, which takes about half as much memory as f16
    #[arg(long, value_name = "TYPE", default_value_t)]
    kv: KvType,
    /// Number of layers on the GPU, from the first one; the CPU runs the others [default: all that fit]
    #[arg(long, alias = "n-gpu-layers", value_name = "N")]
    gpu_layers: Option<u32>,
    /// Number of these layers, from the first one, with their experts on the GPU, too [default: all that fit]
    #[arg(long, value_name = "N")]
    gpu_experts: Option<u32>,
    /// Packets for dispatches on a GPU: pm4, command lists that stay in memory, or aql, one packet for each, which takes
    /// longer; a GPU whose firmware does not support lists always gets aql
    #[arg(long, value_name = "KIND", default_value_t = Encoding::Pm4)]
    submit: Encoding,
}

/// A usable device, with the options of the backend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedDevice {
    /// The device.
    pub(crate) device: Device,
    /// Threads on the CPU.
    pub(crate) threads: usize,
    /// Type of keys and values.
    pub(crate) kv: KvType,
    /// Layers on the GPU; `None` for all that fit.
    gpu_layers: Option<u32>,
    /// Layers on the GPU with their experts; `None` for all that fit.
    gpu_experts: Option<u32>,
    /// True to record the time of each kernel.
    pub(crate) profile: bool,
    /// The packets that carry dispatches to a GPU.
    submit: Encoding,
    /// Reason for the device, if it wasn't named.
    reason: Option<&'static str>,
}

impl DeviceArgs {
    /// Resolves the device.
    pub(crate) fn resolve(&self) -> Result<ResolvedDevice, Failure> {
        let choice = self.device.resolve().map_err(|error| Failure::new(Kind::Device, error))?;
        let wants_gpu =
            [self.gpu_layers, self.gpu_experts].iter().any(|layers| layers.is_some_and(|n| n > 0));
        if choice.device == Device::Cpu && wants_gpu {
            let reason = choice.reason.as_deref().unwrap_or("--device cpu has none");
            return Err(Failure::new(
                Kind::Device,
                format_args!("--gpu-layers and --gpu-experts need a GPU: {reason}; leave them out"),
            ));
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self.threads.map_or(cores, usize::from);
        // leaked once: the program has one device
        let reason = choice.reason.map(|reason| &*reason.leak());
        let Self { kv, submit, gpu_layers, gpu_experts, .. } = *self;
        let device = choice.device;
        Ok(ResolvedDevice { device, threads, kv, gpu_layers, gpu_experts, profile: false, submit, reason })
    }
}

impl ResolvedDevice {
    /// The options of its backend.
    pub(crate) fn backend_config(self) -> BackendConfig {
        let Self { kv, threads, gpu_layers, gpu_experts, profile, submit, .. } = self;
        BackendConfig { kv, threads, gpu_layers, gpu_experts, profile, submit }
    }
}

/// Checks that the buffers for the limits of `config` fit into memory, before they are allocated.
///
/// Sampling is counted with penalties over the whole context, which requests may ask for.
pub(crate) fn check_memory(
    model: &Model<'_>,
    config: &Config,
    resolved: ResolvedDevice,
) -> Result<(), Failure> {
    let short = |error| {
        let kind = if matches!(error, PlanError::Kv(_)) { Kind::Input } else { Kind::Memory };
        Failure::new(kind, error)
    };
    let ResolvedDevice { device, threads, kv, .. } = resolved;
    let needed = config.memory(model, kv, HEAP).map_err(short)?;
    if matches!(device, Device::Kfd(_)) {
        // the driver checks the device's memory
        return Ok(());
    }
    let scratch = backend::scratch_bytes(device, model, config, kv, threads, HEAP).map_err(short)?;
    let mut largest = SamplerParams::default();
    largest.dry.multiplier = 1.0;
    let buffers =
        Memory { sampling: config.sampling_bytes(&largest), scratch: scratch as u64, ..needed }.heap();
    match host_memory() {
        Some(memory) if buffers > memory.available => Err(Failure::new(
            Kind::Memory,
            format_args!(
                "a context of {} tokens needs {} in addition to the weights, and {} are available; use a smaller --ctx",
                config.context,
                size(buffers),
                size(memory.available)
            ),
        )),
        _ => Ok(()),
    }
}

/// Opens a backend within the limits of `config`. Notes on stderr give the reason for a device that wasn't named, warn about
/// a context longer than that of the training, and describe how the model was loaded.
pub(crate) fn open<'m, 'a>(
    model: &'m Model<'a>,
    config: &Config,
    resolved: ResolvedDevice,
) -> Result<AnyBackend<'m, 'a>, Failure> {
    let trained = model.hparams.context;
    if config.context > trained {
        note(format_args!(
            "the model was trained for {trained} tokens; longer contexts may give poor answers"
        ));
    }
    if let Some(reason) = resolved.reason {
        note(format_args!("device {}: {reason}", resolved.device));
    }
    let backend = backend::open_backend(resolved.device, model, config, &resolved.backend_config(), HEAP);
    let backend = backend.map_err(failure)?;
    backend.remarks().into_iter().for_each(note);
    Ok(backend)
}

pub(crate) fn failure(error: BackendError) -> Failure {
    Failure::new(if error.is_memory() { Kind::Memory } else { Kind::Device }, error)
}
