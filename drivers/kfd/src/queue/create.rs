//! Creates and destroys a compute queue by the kernel's buffer rules: five stand-alone buffers of exact sizes.
//!
//! Source: `amdkfd/kfd_queue.c:kfd_queue_acquire_buffers`, `kfd_chardev.c:set_queue_properties_from_user`;
//! `amd_hsa_queue.h` of ROCR-Runtime for what the packet processor reads of `amd_queue_t`.

use super::buffers::{
    Buffers, COUNTER_START, END_OF_PIPE, POINTERS, RING, SAVE_AREA, SIGNALS, field, signal,
};
use super::compute::Queue;
use super::options::QueueOptions;
use super::ring::Producer;
use super::save_area::SaveArea;
use crate::heap::{OutOfMemory, push};
use crate::memory::{AllocError, Usage};
use crate::packet::Packet;
use crate::process::{Device, DeviceIndex, Process, Signal};
use crate::sys::{CreateQueue, DestroyQueue, Errno, MapAddress, call, queue_type};
use crate::topology::Property;
use core::fmt;

/// Why there is no queue.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateError {
    /// A buffer could not be allocated.
    Alloc(AllocError),
    /// The event or the doorbell page could not be created.
    Refused(&'static str, Errno),
    /// CREATE_QUEUE was refused: the requested sizes, and those that sysfs states (0 = none).
    Queue {
        /// The kernel's answer.
        errno: Errno,
        /// Sizes computed here.
        sizes: SaveArea,
        /// `cwsr_size` and `ctl_stack_size` of sysfs.
        stated: (u64, u64),
    },
    /// The node has no compute units, or a generation whose save area is unknown.
    UnknownSaveArea,
    /// The number of packets is no power of two from 64 to 65536.
    Packets(u32),
    /// No host memory for tables.
    OutOfMemory,
}

impl From<AllocError> for CreateError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl From<OutOfMemory> for CreateError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc(error) => write!(f, "queue: {error}"),
            Self::Refused(what, errno) => write!(f, "queue: {what}: {errno}"),
            Self::Queue { errno, sizes, stated } => write!(
                f,
                "CREATE_QUEUE: {errno}; save area {:#x}, control stack {:#x}, buffer {:#x}, sysfs says {:#x} and \
                 {:#x}; `echo 'file kfd_queue.c +p' > /sys/kernel/debug/dynamic_debug/control` and look at dmesg",
                sizes.save, sizes.ctl_stack, sizes.buffer, stated.0, stated.1
            ),
            Self::UnknownSaveArea => f.write_str("the size of this GPU's save area is not known"),
            Self::Packets(packets) => write!(f, "a ring of {packets} packets: 64 to 65536, a power of two"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for CreateError {}

impl Process<'_> {
    /// The device's doorbell slice; mapped once, which is possible only after a queue exists.
    pub(super) fn map_doorbells(&mut self, device: DeviceIndex, offset: u64) -> Result<usize, Errno> {
        const SLICE: usize = 8192;
        let within = usize::try_from(offset & 0x1fff).map_err(|_| Errno::EINVAL)?;
        let this = &self.devices[usize::from(device.0)];
        if this.doorbells.is_none() {
            let window = self.kernel.map(self.kfd.fd(), offset & !0x1fff, SLICE, MapAddress::Anywhere)?;
            let this = &mut self.devices[usize::from(device.0)];
            this.guard = self.kernel.guard(&window);
            this.doorbells = Some(window);
        }
        Ok(within)
    }

    /// Registers a queue with the kernel and maps its doorbell; returns id and doorbell offset.
    pub(super) fn create_queue(
        &mut self,
        device: DeviceIndex,
        arg: &mut CreateQueue,
    ) -> Result<(u32, usize), Errno> {
        self.queues.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        call(self.kernel, self.kfd.fd(), arg)?;
        match self.map_doorbells(device, arg.doorbell_offset) {
            Ok(doorbell) => {
                let _ = push(&mut self.queues, arg.queue_id);
                Ok((arg.queue_id, doorbell))
            }
            Err(errno) => {
                let _ =
                    call(self.kernel, self.kfd.fd(), &mut DestroyQueue { queue_id: arg.queue_id, pad: 0 });
                Err(errno)
            }
        }
    }

    /// Takes a queue from the kernel. It is gone whatever the answer; `ETIMEDOUT` means that the scheduler hangs
    /// and the device is lost, and it is never tried again.
    pub(super) fn destroy_queue(&mut self, device: DeviceIndex, queue_id: u32) -> Result<(), Errno> {
        self.queues.retain(|&queue| queue != queue_id);
        let result = call(self.kernel, self.kfd.fd(), &mut DestroyQueue { queue_id, pad: 0 });
        if let Err(Errno::ETIMEDOUT | Errno::ETIME | Errno::EIO) = result {
            self.devices[usize::from(device.0)].lost = true;
        }
        result
    }
}

impl Queue {
    /// Makes a compute queue on a device.
    pub fn create(
        process: &mut Process<'_>,
        device: DeviceIndex,
        options: QueueOptions,
    ) -> Result<Self, CreateError> {
        if !options.packets.is_power_of_two() || !(64..=65536).contains(&options.packets) {
            return Err(CreateError::Packets(options.packets));
        }
        let sizes = SaveArea::of(process.device(device).node()).ok_or(CreateError::UnknownSaveArea)?;
        let mut buffers = Buffers::default();
        let result = allocate(process, device, options, sizes, &mut buffers);
        let event = result.and_then(|()| {
            process.create_signal().map_err(|errno| CreateError::Refused("CREATE_EVENT", errno))
        });
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let _ = buffers.free(process);
                return Err(error);
            }
        };
        fill(process.device(device), options, sizes, event, &buffers);
        let mut arg = argument(process.device(device), options, sizes, &buffers);
        match process.create_queue(device, &mut arg) {
            Ok((id, doorbell)) => Ok(Self::new(device, id, doorbell, arg, options, event, buffers)),
            Err(errno) => {
                process.destroy_event(event.id);
                let _ = buffers.free(process);
                let stated = |property| process.device(device).node().properties.get(property).unwrap_or(0);
                let stated = (stated(Property::CwsrSize), stated(Property::CtlStackSize));
                Err(CreateError::Queue { errno, sizes, stated })
            }
        }
    }

    /// Takes the queue down and frees its buffers. When the scheduler does not answer (`ETIMEDOUT`, followed by a
    /// reset) the device is lost and the buffers stay allocated until [`Process::reopen`].
    pub fn destroy(self, process: &mut Process<'_>) -> Result<(), Errno> {
        let (device, id, event, buffers) = self.into_parts();
        process.destroy_event(event.id);
        process.destroy_queue(device, id)?;
        buffers.free(process).map_err(|error| error.errno)
    }
}

fn allocate(
    process: &mut Process<'_>,
    device: DeviceIndex,
    options: QueueOptions,
    sizes: SaveArea,
    buffers: &mut Buffers,
) -> Result<(), CreateError> {
    let ring = u64::from(options.packets) * size_of::<Packet>() as u64;
    buffers.add(process, device, Usage::Ring, ring, "ring")?;
    buffers.add(process, device, Usage::Pointers, 4096, "pointers")?;
    buffers.add(process, device, Usage::Signals, 4096, "signals")?;
    buffers.add(process, device, Usage::EndOfPipe, 4096, "end of pipe")?;
    buffers.add(process, device, Usage::SaveArea, sizes.buffer, "save area")?;
    Ok(())
}

/// Initializes ring, queue struct, signals and save-area headers.
fn fill(device: &Device<'_>, options: QueueOptions, sizes: SaveArea, event: Signal, buffers: &Buffers) {
    const KERNEL_DISPATCH: u64 = 1 << 32;
    const IS_PTR64: u32 = 1 << 1;
    const ENABLE_PROFILING: u32 = 1 << 3;
    let (node, pointers, signals) = (device.node(), buffers.pointers(), buffers.signals());
    Producer::new(options.packets.into(), field::READ_INDEX, field::WRITE_INDEX).clear(buffers.ring());
    let high = |address: u64| (address >> 32) as u32;
    let waves = node.properties.small(Property::MaxWavesPerSimd) * node.properties.small(Property::SimdPerCu);
    pointers.store64(field::TYPE_AND_FEATURES, KERNEL_DISPATCH);
    pointers.store64(field::BASE_ADDRESS, buffers.va(RING));
    pointers.store32(field::SIZE, options.packets);
    pointers.store64(field::WRITE_INDEX, 0);
    pointers.store32(field::LDS_APERTURE, high(device.aperture().lds_base));
    pointers.store32(field::SCRATCH_APERTURE, high(device.aperture().scratch_base));
    pointers.store32(field::MAX_CU_ID, node.compute_units().saturating_sub(1));
    pointers.store32(field::MAX_WAVE_ID, waves.saturating_sub(1));
    pointers.store64(field::READ_INDEX, 0);
    pointers.store32(field::READ_INDEX_OFFSET, field::READ_INDEX as u32);
    let profiling = if options.profile { ENABLE_PROFILING } else { 0 };
    pointers.store32(field::PROPERTIES, IS_PTR64 | profiling);
    pointers.store64(field::SCRATCH_MAX_USE, u64::MAX);
    pointers.store64(field::INACTIVE_SIGNAL, buffers.va(SIGNALS) + signal::INACTIVE as u64);
    for (at, value) in [(signal::COMPLETION, COUNTER_START), (signal::INACTIVE, 0)] {
        const USER: u64 = 1;
        signals.store64(at + signal::KIND, USER);
        signals.store64(at + signal::VALUE, value);
        signals.store64(at + signal::MAILBOX, event.mailbox.unwrap_or(0));
        signals.store32(at + signal::EVENT, event.id.0);
    }
    let exceptions = buffers.va(SIGNALS) + signal::EXCEPTIONS as u64;
    for xcc in 0..sizes.xcc {
        let (offset, bytes) = sizes.header(xcc, exceptions, event.id.0);
        buffers.0[SAVE_AREA].host().write(offset, &bytes);
    }
}

fn argument(device: &Device<'_>, options: QueueOptions, sizes: SaveArea, buffers: &Buffers) -> CreateQueue {
    CreateQueue {
        ring_base_address: buffers.va(RING),
        write_pointer_address: buffers.va(POINTERS) + field::WRITE_INDEX as u64,
        read_pointer_address: buffers.va(POINTERS) + field::READ_INDEX as u64,
        ring_size: options.packets * size_of::<Packet>() as u32,
        gpu_id: device.gpu_id(),
        queue_type: queue_type::COMPUTE_AQL,
        queue_percentage: 100,
        queue_priority: options.priority.number(),
        eop_buffer_address: buffers.va(END_OF_PIPE),
        eop_buffer_size: 4096,
        ctx_save_restore_address: buffers.va(SAVE_AREA),
        ctx_save_restore_size: sizes.save,
        ctl_stack_size: sizes.ctl_stack,
        ..CreateQueue::default()
    }
}
