//! From a device to the backend on it. The hosts see no driver.

use crate::cpu_fallback::CpuDriverFallback;
use crate::device::{Device, InjectedFault};
use crate::gpu_events;
use crate::kernel_check_cache;
use core::fmt;
use core::time::Duration;
use doorbell_core::backend::{Backend, KvType, Output, PageError, PageFormat};
use doorbell_core::engine::Config;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, Op, PAGE_TOKENS, PageId, Plan, PlanError};
use doorbell_cpu::backend::{CpuBackend, CpuError};
use doorbell_gpu::{BoxedCpuFallback, GpuBackend, GpuError, LayerSplit, Placement, Settings};
use doorbell_kfd::doctor::{self, Finding};
use doorbell_kfd::process::{BringUpError, DeviceIndex, Process};
use doorbell_kfd::queue::CreateError;
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::{Node, Topology, TopologyError};
use doorbell_soft::kernel::{Chip, Machine, Release, SoftKernel};
use doorbell_soft::processor::{Level, Options};
use embedded_hal::delay::DelayNs;

pub use doorbell_cpu::bandwidth::read_bandwidth;
pub use doorbell_gpu::estimate::{DispatchEstimate, OpEstimate, PlanEstimate};
pub use doorbell_gpu::{Encoding, Timing, layers};

/// Why a device can't run a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BackendError {
    /// There isn't memory for keys, values and buffers.
    Memory(OutOfMemory),
    /// The CPU driver can't run it.
    Cpu(CpuError),
    /// The GPUs can't be listed.
    Topology(TopologyError),
    /// The GPU is gone since it was chosen.
    Gone(Device),
    /// The GPU can't be opened.
    Open(BringUpError),
    /// The GPU can't run it.
    Gpu(Box<GpuError>),
}

impl BackendError {
    /// Whether there was too little memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Gpu(error) => error.is_memory(),
            _ => false,
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "{error}; use a smaller context"),
            Self::Cpu(error) => error.fmt(f),
            Self::Topology(error) => error.fmt(f),
            Self::Gone(device) => write!(f, "{device} is gone; `doorbell devices` lists what is there"),
            Self::Open(error) => tell(&doctor::bring_up(error), f),
            Self::Gpu(error) => match error.as_ref() {
                GpuError::Queue(error @ CreateError::Queue { .. }) => tell(&doctor::create_queue(error), f),
                error => error.fmt(f),
            },
        }
    }
}

/// A finding with its remedy, if there is one.
fn tell(finding: &Finding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{finding}")?;
    let remedy = finding.remedy().to_string();
    if remedy.is_empty() { Ok(()) } else { write!(f, "; {remedy}") }
}

impl core::error::Error for BackendError {}

impl From<CpuError> for BackendError {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::Memory(error) => Self::Memory(error),
            error => Self::Cpu(error),
        }
    }
}

impl From<GpuError> for BackendError {
    fn from(error: GpuError) -> Self {
        Self::Gpu(Box::new(error))
    }
}

/// A backend on one of the devices.
#[derive(Debug)]
pub enum AnyBackend<'m, 'a> {
    /// The host's processor.
    Cpu(Box<CpuBackend<'m, 'a>>),
    /// A GPU, real or software.
    Gpu(Box<GpuBackend<'static, 'm, 'a>>),
}

impl AnyBackend<'_, '_> {
    /// What the user should be told about how the model was loaded, in lines.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let Self::Gpu(backend) = self else { return Vec::new() };
        let mut remarks: Vec<_> = backend.wrong_kernels().iter().map(ToString::to_string).collect();
        remarks.extend(backend.pm4_check_failure().map(ToString::to_string));
        remarks.extend(backend.split_report().map(|division| division.to_string()));
        if !backend.conversions().list.is_empty() {
            remarks.push(backend.conversions().to_string());
        }
        remarks
    }

    /// Logs from now on what the kernel tells about the device: heat, resets, queues that wait. Software GPUs and the CPU
    /// have nobody who tells.
    pub fn log_gpu_events(&self) {
        let Self::Gpu(backend) = self else { return };
        match backend.gpu_events() {
            Ok(events) => gpu_events::follow(events),
            Err(error) => tracing::debug!(%error, "the kernel reports no events of the GPU"),
        }
    }

    /// When each kernel ran since the last call, if [`BackendConfig::profile`] is set; the CPU tells nothing.
    pub fn take_timings(&mut self) -> Vec<Timing> {
        match self {
            Self::Cpu(_) => Vec::new(),
            Self::Gpu(backend) => backend.take_timings(),
        }
    }
}

impl Backend for AnyBackend<'_, '_> {
    type Error = BackendError;

    fn supports(&self, op: &Op) -> bool {
        match self {
            Self::Cpu(backend) => backend.supports(op),
            Self::Gpu(backend) => backend.supports(op),
        }
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.reserve(plan)?),
            Self::Gpu(backend) => Ok(backend.reserve(plan)?),
        }
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.submit(plan, batch)?),
            Self::Gpu(backend) => Ok(backend.submit(plan, batch)?),
        }
    }

    fn supports_multi_step(&self) -> bool {
        match self {
            Self::Cpu(backend) => backend.supports_multi_step(),
            Self::Gpu(backend) => backend.supports_multi_step(),
        }
    }

    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        match self {
            Self::Cpu(backend) => backend.max_steps(plan),
            Self::Gpu(backend) => backend.max_steps(plan),
        }
    }

    fn submit_multi_step(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        steps: u32,
    ) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.submit_multi_step(plan, batch, steps)?),
            Self::Gpu(backend) => Ok(backend.submit_multi_step(plan, batch, steps)?),
        }
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.poll()?),
            Self::Gpu(backend) => Ok(backend.poll()?),
        }
    }

    fn suspend(&mut self) -> Result<(), BackendError> {
        match self {
            Self::Cpu(backend) => Ok(backend.suspend()?),
            Self::Gpu(backend) => Ok(backend.suspend()?),
        }
    }

    fn page_format(&self) -> Option<PageFormat> {
        match self {
            Self::Cpu(backend) => backend.page_format(),
            Self::Gpu(backend) => backend.page_format(),
        }
    }

    fn read_page(&mut self, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.read_page(page, to),
            Self::Gpu(backend) => backend.read_page(page, to),
        }
    }

    fn write_page(&mut self, page: PageId, from: &[u8]) -> Result<(), PageError> {
        match self {
            Self::Cpu(backend) => backend.write_page(page, from),
            Self::Gpu(backend) => backend.write_page(page, from),
        }
    }
}

/// Waits by the system's clock.
pub(crate) struct Sleeper;

/// Shorter waits are spun: a thread does not sleep less than this.
const SPUN_NS: u32 = 50_000;

impl DelayNs for Sleeper {
    fn delay_ns(&mut self, ns: u32) {
        let time = Duration::from_nanos(ns.into());
        if ns >= SPUN_NS {
            return std::thread::sleep(time);
        }
        let start = std::time::Instant::now();
        while start.elapsed() < time {
            core::hint::spin_loop();
        }
    }
}

/// How a backend is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// How keys and values are kept.
    pub kv: KvType,
    /// Threads on the CPU.
    pub threads: usize,
    /// Layers that a GPU runs, the first ones, and those of them whose experts it runs, too; what fits, where it isn't
    /// said.
    pub layers: [Option<u32>; 2],
    /// Whether a GPU tells when each kernel ran. Software GPUs then tell modelled times, and are slower.
    pub profile: bool,
    /// How dispatches reach a GPU.
    pub submit: Encoding,
}

impl BackendConfig {
    /// All of a model on the device if it fits, without times.
    #[must_use]
    pub fn new(kv: KvType, threads: usize) -> Self {
        Self { kv, threads, layers: [None; 2], profile: false, submit: Encoding::Pm4 }
    }

    fn placement(&self, model: &Model<'_>) -> Placement {
        let all = LayerSplit::all(model);
        match self.layers {
            [None, None] => Placement::Device,
            [layers, experts] => {
                let layers = layers.unwrap_or(all.layers).min(all.layers);
                Placement::Split(LayerSplit { layers, experts: experts.unwrap_or(layers).min(layers) })
            }
        }
    }
}

/// Patience with a GPU that hangs on purpose.
const INJECTED_HANG_MS: u32 = 500;

/// A backend for `model` on `device` within the limits of `config`. What a GPU does not run the CPU does.
///
/// # Errors
///
/// Memory, threads or the device can't be had, or the device has no kernel for one of the weights.
pub fn backend<'m, 'a>(
    device: Device,
    model: &'m Model<'a>,
    config: &Config,
    setup: &BackendConfig,
    heap: Heap<'m>,
) -> Result<AnyBackend<'m, 'a>, BackendError> {
    let BackendConfig { kv, threads, profile, submit, .. } = *setup;
    let (process, index) = match device {
        Device::Cpu => {
            let backend = CpuBackend::new(model, config.pages, kv, threads, heap)?;
            return Ok(AnyBackend::Cpu(Box::new(backend)));
        }
        Device::Kfd(number) => open(&Linux, number, device)?,
        Device::Soft { chip, strict, inject } => {
            let kernel = software(chip, options(strict, threads, profile))?;
            inject.into_iter().for_each(|inject| kernel.inject(|injection| inject.inject(injection)));
            open(kernel, 0, device)?
        }
    };
    let node = process.device(index).node();
    let known = format!("{}:{:x}", node.isa(), node.identity().unique);
    let placement = setup.placement(model);
    let plain = Settings::new(config.pages, kv, config.largest_shape());
    let injected_hang =
        matches!(device, Device::Soft { inject: Some(inject), .. } if inject.fault == InjectedFault::Hang);
    let hang_ms = if injected_hang { INJECTED_HANG_MS } else { plain.hang_ms };
    let settings = Settings { profile, placement, hang_ms, submit, ..plain };
    let rest: BoxedCpuFallback<'m> = Box::new(CpuDriverFallback::new(model, config.pages, kv, threads, heap));
    let mut backend = GpuBackend::new(process, index, model, settings, Box::new(Sleeper), Some(rest), heap)?;
    // software GPUs are checked by tests, instruction by instruction
    if matches!(device, Device::Kfd(_)) {
        let mut cache = kernel_check_cache::KernelCheckFile::open(known);
        let checked = backend.check_kernels(&mut cache, heap);
        // What a check has cost the device is not to be tried again.
        cache.save();
        checked?;
    }
    Ok(AnyBackend::Gpu(Box::new(backend)))
}

/// Opens one GPU of a kernel.
pub(crate) fn open(
    kernel: &'static dyn Kernel,
    number: u32,
    device: Device,
) -> Result<(Process<'static>, DeviceIndex), BackendError> {
    let topology = Topology::scan(kernel).map_err(BackendError::Topology)?;
    let node: Option<&Node> = topology.devices().nth(number as usize);
    let node = node.ok_or(BackendError::Gone(device))?;
    let process = Process::open(kernel, &[node]).map_err(BackendError::Open)?;
    Ok((process, DeviceIndex(0)))
}

/// Choices of a software GPU, whose independent workgroups run on so many threads.
pub(crate) fn options(strict: bool, threads: usize, count: bool) -> Options {
    let level = if strict { Level::Strict } else { Level::Fast };
    Options { level, threads, count, ..Options::default() }
}

/// A machine with one software GPU. It stays until the program ends, as real ones do.
pub(crate) fn software(chip: Chip, options: Options) -> Result<&'static SoftKernel, BackendError> {
    let ram = crate::memory::host_memory().map_or(64 << 30, |memory| memory.total.max(64 << 30));
    let machine = Machine::new(Release::V7_2, ram, &[chip]);
    let kernel = SoftKernel::new(machine, &options);
    let kernel = kernel.map_err(|_| BackendError::Memory(OutOfMemory { bytes: size_of::<SoftKernel>() }))?;
    Ok(Box::leak(Box::new(kernel)))
}

/// Bytes of host memory that a backend takes beside what [`Config::memory`] knows; found out by taking them and
/// giving them back. A software GPU holds the weights once more.
///
/// # Errors
///
/// The working memory can't be had, or a step can't be planned.
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
        Device::Cpu => Ok(CpuBackend::scratch_bytes(model, config.pages, kv, threads, &plan, heap)?),
        Device::Kfd(_) => Ok(0),
        Device::Soft { .. } => {
            let weights: u64 = model.weights.iter().map(|weight| weight.bytes()).sum();
            Ok(usize::try_from(weights).unwrap_or(usize::MAX))
        }
    }
}

/// What a plan is on a GPU, without running it; `None` for the CPU. What does not fit there is the CPU's, as when it runs.
///
/// # Errors
///
/// The device is gone, has no room or no kernels, or one of them does not compile.
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
        Device::Kfd(number) => open(&Linux, number, device)?,
        Device::Soft { chip, .. } => open(software(chip, options(false, 1, false))?, 0, device)?,
    };
    let (isa, budget) = (process.device(index).node().isa(), process.budget(index).first);
    drop(process);
    let (placement, submit) = (setup.placement(model), setup.submit);
    let pages = positions.max(plan.shape.rows).div_ceil(PAGE_TOKENS as u32);
    let settings = Settings { placement, submit, ..Settings::new(pages, setup.kv, plan.shape) };
    Ok(Some(doorbell_gpu::estimate::estimate(model, plan, (isa, &budget), &settings, positions, heap)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_kfd::process::Stage;
    use doorbell_kfd::queue::SaveArea;
    use doorbell_kfd::sys::Errno;

    #[test]
    fn what_keeps_a_gpu_from_opening_comes_with_its_remedy() {
        let told = |stage, errno| BackendError::Open(BringUpError::Refused(stage, errno)).to_string();
        let taken = told(Stage::AcquireVm(128), Errno::EBUSY);
        assert!(taken.ends_with("owns the device; only one GPU runtime may be in a program: restart it"));
        let refused = told(Stage::GetVersion, Errno::EIO);
        assert!(refused.contains("GET_VERSION") && !refused.ends_with("; "), "{refused}");
    }

    #[test]
    fn a_refused_queue_comes_with_its_remedy() {
        let told = |error| BackendError::from(GpuError::Queue(error)).to_string();
        let sizes = SaveArea { ctl_stack: 0x4000, save: 0xaa4000, debug: 0, xcc: 1, buffer: 0xaa4000 };
        let refused = told(CreateError::Queue { errno: Errno::EINVAL, sizes, stated: (0x5000, 0x1000) });
        assert!(
            refused.contains("save area 0xaa4000 ") && refused.contains("sysfs 0x5000 and 0x1000"),
            "{refused}"
        );
        assert!(refused.contains("; `echo 'file kfd_queue.c +p'"), "{refused}");
    }
}
