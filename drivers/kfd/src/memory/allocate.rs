//! Allocates and frees buffers: kernel call, address, CPU mapping, GPU mapping, entry in the table of allocations;
//! undone in full on any failure.
//!
//! Source: `amdkfd/kfd_chardev.c` (`kfd_ioctl_alloc_memory_of_gpu`, `kfd_ioctl_map_memory_to_gpu`),
//! `amdgpu/amdgpu_amdkfd_gpuvm.c`. VRAM is zeroed by the kernel. Small pieces share a slab: see `slab`.

use super::address_space::{FRAGMENT, PAGE};
use super::allocations::Allocation;
use super::buffer::{AllocError, Buffer, FreeError, Handle};
use super::name::Name;
use super::usage::Usage;
use crate::process::{DeviceIndex, Process};
use crate::sys::{
    AllocMemory, Errno, FreeMemory, MapAddress, MapMemory, Request, call, call_devices, request,
};
use embedded_hal::delay::DelayNs;

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

    /// Frees a buffer and returns its bytes.
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
            let address = MapAddress::At(self.space.span(), at);
            let window = self.kernel.map(file.fd(), arg.mmap_offset, len, address);
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
