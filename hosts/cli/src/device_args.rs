//! The device and the backend on it: from the command line to something that computes.

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

/// Which device computes, with how many threads.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Who computes: auto, cpu, kfd, kfd:N, or a software GPU: soft, soft:GFX or soft:GFX,strict, which watches
    /// every access and is slower
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceRequest,
    /// Threads on the CPU [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How keys and values are kept: f16, f32, or q8_0, which takes about half as much memory as f16
    #[arg(long, value_name = "TYPE", default_value_t)]
    kv: KvType,
    /// Layers that the GPU runs, the first ones; the CPU runs the others [default: all that fit]
    #[arg(long, value_name = "N")]
    gpu_layers: Option<u32>,
    /// Of those the layers, the first ones, whose experts the GPU runs, too [default: all that fit]
    #[arg(long, value_name = "N")]
    gpu_experts: Option<u32>,
    /// How dispatches reach a GPU: pm4, lists that stay in memory, or aql, a packet for each, which takes longer; a GPU
    /// whose firmware does not take lists gets packets by itself
    #[arg(long, value_name = "KIND", default_value_t = Encoding::Pm4)]
    submit: Encoding,
}

/// A device that was found usable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedDevice {
    /// Which.
    pub(crate) device: Device,
    /// Threads on the CPU.
    pub(crate) threads: usize,
    /// How keys and values are kept.
    pub(crate) kv: KvType,
    /// Layers on the GPU, and those with their experts.
    layers: [Option<u32>; 2],
    /// Whether the device tells when each kernel ran.
    pub(crate) profile: bool,
    /// How dispatches reach a GPU.
    submit: Encoding,
    /// Why this device, if it wasn't named.
    reason: Option<&'static str>,
}

impl DeviceArgs {
    /// Finds the device.
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
        // it's said once, and the program has one device
        let reason = choice.reason.map(|reason| &*reason.leak());
        let layers = [self.gpu_layers, self.gpu_experts];
        let Self { kv, submit, .. } = *self;
        Ok(ResolvedDevice { device: choice.device, threads, kv, layers, profile: false, submit, reason })
    }
}

impl ResolvedDevice {
    /// How its backend is made.
    pub(crate) fn setup(self) -> BackendConfig {
        let Self { kv, threads, layers, profile, submit, .. } = self;
        BackendConfig { kv, threads, layers, profile, submit }
    }
}

/// Refuses limits whose buffers don't fit into memory, before anything is reserved.
///
/// Requests may ask for penalties over the whole context.
pub(crate) fn check_memory(
    model: &Model<'_>,
    config: &Config,
    computer: ResolvedDevice,
) -> Result<(), Failure> {
    let short = |error| {
        let kind = if matches!(error, PlanError::Kv(_)) { Kind::Input } else { Kind::Memory };
        Failure::new(kind, error)
    };
    let ResolvedDevice { device, threads, kv, .. } = computer;
    let needed = config.memory(model, kv, HEAP).map_err(short)?;
    if matches!(device, Device::Kfd(_)) {
        // the driver asks the device itself
        return Ok(());
    }
    let scratch = backend::scratch_bytes(device, model, config, kv, threads, HEAP).map_err(short)?;
    let mut dearest = SamplerParams::default();
    dearest.dry.multiplier = 1.0;
    let buffers =
        Memory { sampling: config.sampling_bytes(&dearest), scratch: scratch as u64, ..needed }.heap();
    match host_memory() {
        Some(memory) if buffers > memory.available => Err(Failure::new(
            Kind::Memory,
            format_args!(
                "a context of {} tokens needs {} beside the weights and {} are available; use a smaller --ctx",
                config.context,
                size(buffers),
                size(memory.available)
            ),
        )),
        _ => Ok(()),
    }
}

/// A backend within the limits of `config`. Of a device that wasn't named, one line on stderr says why; of a context that
/// the model doesn't know, another.
pub(crate) fn open<'m, 'a>(
    model: &'m Model<'a>,
    config: &Config,
    computer: ResolvedDevice,
) -> Result<AnyBackend<'m, 'a>, Failure> {
    let trained = model.hparams.context;
    if config.context > trained {
        note(format_args!(
            "the model was trained for {trained} tokens; answers beyond that may make no sense"
        ));
    }
    if let Some(reason) = computer.reason {
        note(format_args!("device {}: {reason}", computer.device));
    }
    let backend = backend::backend(computer.device, model, config, &computer.setup(), HEAP);
    let backend = backend.map_err(failure)?;
    backend.remarks().into_iter().for_each(note);
    Ok(backend)
}

pub(crate) fn failure(error: BackendError) -> Failure {
    Failure::new(if error.is_memory() { Kind::Memory } else { Kind::Device }, error)
}
