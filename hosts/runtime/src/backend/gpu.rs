//! Opening of GPUs, real and software.

use super::error::BackendError;
use crate::device::Device;
use core::time::Duration;
use doorbell_core::heap::OutOfMemory;
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::sys::Kernel;
use doorbell_kfd::topology::{Node, Topology};
use doorbell_soft::kernel::{Chip, Machine, Release, SoftKernel};
use doorbell_soft::processor::{Level, Options};
use embedded_hal::delay::DelayNs;

/// Delays that use the system's clock.
pub(crate) struct Sleeper;

/// Shorter delays spin: a thread can't sleep for less, in nanoseconds.
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

/// Opens the GPU with this number on a kernel.
pub(crate) fn open_gpu(
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

/// Options of a software GPU that runs independent workgroups on `threads` threads.
pub(crate) fn software_options(strict: bool, threads: usize, count: bool) -> Options {
    let level = if strict { Level::Strict } else { Level::Fast };
    Options { level, threads, count, ..Options::default() }
}

/// A machine with one software GPU, which lives until the program ends.
pub(crate) fn software_machine(chip: Chip, options: Options) -> Result<&'static SoftKernel, BackendError> {
    let ram = crate::memory::host_memory().map_or(64 << 30, |memory| memory.total.max(64 << 30));
    let machine = Machine::new(Release::V7_2, ram, &[chip]);
    let kernel = SoftKernel::new(machine, &options);
    let kernel = kernel.map_err(|_| BackendError::Memory(OutOfMemory { bytes: size_of::<SoftKernel>() }))?;
    Ok(Box::leak(Box::new(kernel)))
}
