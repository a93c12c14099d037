//! Allocates and frees: kernel call, address, CPU mapping, GPU mapping, table of allocations; undone in full on any failure.
//!
//! Source: `amdkfd/kfd_chardev.c` (`kfd_ioctl_alloc_memory_of_gpu`, `kfd_ioctl_map_memory_to_gpu`),
//! `amdgpu/amdgpu_amdkfd_gpuvm.c`. VRAM comes zeroed. Small things share a slab: see `slab`.

use super::address_space::{AddressSpaceError, FRAGMENT, PAGE};
use super::allocations::Allocation;
use super::name::Name;
use super::usage::{MemoryTraits, Usage};
use crate::heap::OutOfMemory;
use crate::process::{Device, DeviceIndex, Process};
use crate::sys::{
    AllocMemory, Errno, FreeMemory, MapAddress, MapMemory, Request, Window, call, call_devices, request,
};
use core::fmt;
use embedded_hal::delay::DelayNs;

/// The kernel's name for a buffer.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

/// Memory that a GPU maps, at one address for CPU and GPU. Given back by [`Process::free`]; what is dropped
/// instead stays allocated until the process is shut down.
#[derive(Debug)]
pub struct Buffer {
    handle: Handle,
    va: u64,
    bytes: u64,
    device: DeviceIndex,
    usage: Usage,
    window: Option<Window>,
}

/// Why a buffer could not be had.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocError {
    /// Nothing was asked for, or more than any address space has (bytes).
    Size(u64),
    /// The device is lost.
    Lost,
    /// No addresses.
    AddressSpace(AddressSpaceError),
    /// The kernel has no memory: wanted bytes, and what it says is available.
    NoMemory {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes the kernel thinks it could give, where it says.
        available: Option<u64>,
        /// For what.
        name: Name,
    },
    /// Another refusal, with the call.
    Refused(&'static str, Errno),
    /// No host memory for the table of allocations.
    OutOfMemory,
}

impl AllocError {
    /// The kernel's error number where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoMemory { .. } => Some(Errno::ENOMEM),
            Self::Refused(_, errno) => Some(*errno),
            _ => None,
        }
    }
}

impl From<AddressSpaceError> for AllocError {
    fn from(error: AddressSpaceError) -> Self {
        Self::AddressSpace(error)
    }
}

impl From<OutOfMemory> for AllocError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "a buffer of {bytes} bytes cannot be"),
            Self::Lost => f.write_str("the device is lost; reopen it"),
            Self::AddressSpace(error) => write!(f, "{error}"),
            Self::NoMemory { wanted, available, name } => {
                write!(f, "no memory for {name}: {wanted} bytes wanted")?;
                match available {
                    Some(available) => write!(f, ", about {available} available"),
                    None => Ok(()),
                }
            }
            Self::Refused(what, errno) => write!(f, "{what}: {errno}"),
            Self::OutOfMemory => write!(f, "{OutOfMemory}"),
        }
    }
}

impl core::error::Error for AllocError {}

/// The kernel would not take a buffer back; it is in the error.
#[derive(Debug)]
pub struct FreeError {
    /// `EBUSY`: a live queue uses it. `EINVAL`: it is gone already, by [`Process::reopen`].
    pub errno: Errno,
    /// The buffer.
    pub buffer: Buffer,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot free the buffer at {:#x}: {}", self.buffer.va, self.errno)
    }
}

impl core::error::Error for FreeError {}

impl Buffer {
    /// The kernel's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// First address, the same for GPU and CPU.
    pub fn va(&self) -> u64 {
        self.va
    }

    /// Bytes, rounded up to pages or fragments.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device that owns it.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// What it is for.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The CPU's view; `None` for memory that the CPU does not reach.
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// The CPU's view of a buffer whose [`Usage`] is always host-mapped. Panics on others: a mistake of this
    /// program.
    pub(crate) fn host(&self) -> &Window {
        self.window.as_ref().expect("a usage that is host-mapped on every device")
    }
}

impl Device<'_> {
    pub(crate) fn traits(&self) -> MemoryTraits {
        MemoryTraits { kind: self.kind, is_vram_mappable: self.node.is_vram_mappable() }
    }
}

/// Whole pages; whole fragments from one fragment on, unless the kernel compares the size.
fn rounded(usage: Usage, bytes: u64) -> Option<u64> {
    let unit = if bytes >= FRAGMENT && !usage.is_exact() { FRAGMENT } else { PAGE };
    bytes.checked_next_multiple_of(unit).filter(|&bytes| bytes != 0 && bytes < 1 << 47)
}

impl Process<'_> {
    /// Allocates `bytes` for `usage` on a device and maps them for the CPU (where the usage says so) and for
    /// the GPU.
    pub fn allocate(
        &mut self,
        device: DeviceIndex,
        usage: Usage,
        bytes: u64,
        name: Name,
    ) -> Result<Buffer, AllocError> {
        if self.is_lost(device) {
            return Err(AllocError::Lost);
        }
        let bytes = rounded(usage, bytes).ok_or(AllocError::Size(bytes))?;
        self.allocations.reserve()?;
        let offset = self.space.allocate(bytes)?;
        let buffer = match self.allocate_at(device, usage, bytes, offset, &name) {
            Ok(buffer) => buffer,
            Err(error) => {
                self.space.release(offset, bytes);
                return Err(error);
            }
        };
        let gpu_id = self.device(device).gpu_id();
        let handle = Some(buffer.handle);
        self.allocations.add(Allocation { va: buffer.va, bytes, gpu_id, usage, name, handle })?;
        Ok(buffer)
    }

    /// Like [`Self::allocate`], but repeats for up to two seconds when there is no memory: the kernel frees a
    /// crashed predecessor's memory some time after its exit.
    pub fn allocate_patiently(
        &mut self,
        device: DeviceIndex,
        usage: Usage,
        bytes: u64,
        name: Name,
        delay: &mut dyn DelayNs,
    ) -> Result<Buffer, AllocError> {
        const STEP_MS: u32 = 50;
        for _ in 0..2000 / STEP_MS {
            match self.allocate(device, usage, bytes, name.clone()) {
                Err(AllocError::NoMemory { .. }) => delay.delay_ms(STEP_MS),
                result => return result,
            }
        }
        self.allocate(device, usage, bytes, name)
    }

    /// Gives a buffer back and answers its bytes, which are free again.
    pub fn free(&mut self, mut buffer: Buffer) -> Result<u64, FreeError> {
        let known = self.allocations.entries().iter().find(|entry| entry.handle == Some(buffer.handle));
        let Some(entry) = known.cloned() else {
            return Err(FreeError { errno: Errno::EINVAL, buffer });
        };
        if let Err(errno) =
            self.map_gpu(request::UNMAP_MEMORY_FROM_GPU, buffer.handle, buffer.device, buffer.usage)
        {
            return Err(FreeError { errno, buffer });
        }
        if let Some(window) = buffer.window.take() {
            self.kernel.unmap(window);
        }
        if let Err(errno) = self.free_handle(buffer.handle) {
            return Err(FreeError { errno, buffer });
        }
        self.forget(buffer.handle, &entry);
        Ok(buffer.bytes)
    }

    /// Frees an allocation, even if a caller still holds the buffer. Errors of the kernel are ignored.
    pub(crate) fn release(&mut self, handle: Handle, entry: &Allocation) {
        let owner = self.devices.iter().position(|device| device.gpu_id() == entry.gpu_id);
        if let Some(device) = owner.and_then(|index| u8::try_from(index).ok()) {
            let _ = self.map_gpu(request::UNMAP_MEMORY_FROM_GPU, handle, DeviceIndex(device), entry.usage);
        }
        let _ = self.free_handle(handle);
        // The holder's window may still be mapped there, so the addresses are not given out again.
        self.allocations.remove(handle);
    }

    fn forget(&mut self, handle: Handle, entry: &Allocation) {
        self.allocations.remove(handle);
        if !entry.usage.keeps_addresses() {
            self.space.release(entry.va - self.space.span().address(), entry.bytes);
        }
    }

    fn free_handle(&self, handle: Handle) -> Result<(), Errno> {
        call(self.kernel, self.kfd.fd(), &mut FreeMemory { handle: handle.0 })
    }

    fn allocate_at(
        &self,
        device: DeviceIndex,
        usage: Usage,
        bytes: u64,
        offset: u64,
        name: &Name,
    ) -> Result<Buffer, AllocError> {
        let this = self.device(device);
        let (va, flags) = (self.space.span().address() + offset, usage.flags(this.traits()));
        let mut arg =
            AllocMemory { va_addr: va, size: bytes, gpu_id: this.gpu_id(), flags, ..AllocMemory::default() };
        call(self.kernel, self.kfd.fd(), &mut arg).map_err(|errno| match errno {
            Errno::ENOMEM => {
                AllocError::NoMemory { wanted: bytes, available: self.available(device), name: name.clone() }
            }
            errno => AllocError::Refused("ALLOC_MEMORY_OF_GPU", errno),
        })?;
        let handle = Handle(arg.handle);
        let undo = |what: &'static str, errno| {
            let _ = self.free_handle(handle);
            AllocError::Refused(what, errno)
        };
        let window = if usage.is_host_mapped(this.traits()) {
            let file = if usage == Usage::Mmio { &self.kfd } else { &this.render };
            let at = usize::try_from(offset).map_err(|_| undo("mmap", Errno::ENOMEM))?;
            let len = usize::try_from(bytes).map_err(|_| undo("mmap", Errno::ENOMEM))?;
            let place = MapAddress::At(self.space.span(), at);
            let window = self.kernel.map(file.fd(), arg.mmap_offset, len, place);
            Some(window.map_err(|errno| undo("mmap", errno))?)
        } else {
            None
        };
        if let Err(errno) = self.map_gpu(request::MAP_MEMORY_TO_GPU, handle, device, usage) {
            // Some devices of several may be done.
            let _ = self.map_gpu(request::UNMAP_MEMORY_FROM_GPU, handle, device, usage);
            if let Some(window) = window {
                self.kernel.unmap(window);
            }
            return Err(undo("MAP_MEMORY_TO_GPU", errno));
        }
        Ok(Buffer { handle, va, bytes, device, usage, window })
    }

    /// Maps to or unmaps from the owner, or every device when the usage is shared.
    fn map_gpu(
        &self,
        request: Request,
        handle: Handle,
        device: DeviceIndex,
        usage: Usage,
    ) -> Result<(), Errno> {
        let mut ids = heapless::Vec::<u32, 255>::new();
        for (index, each) in self.devices.iter().enumerate() {
            if usage.is_shared() || index == usize::from(device.0) {
                let _ = ids.push(each.gpu_id());
            }
        }
        let n_devices = u32::try_from(ids.len()).map_err(|_| Errno::EINVAL)?;
        let mut arg = MapMemory { handle: handle.0, n_devices, ..MapMemory::default() };
        call_devices(self.kernel, self.kfd.fd(), request, &mut arg, &mut ids)
    }
}
