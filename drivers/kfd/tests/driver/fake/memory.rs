//! Allocations of the fake kernel: the rules of `amdgpu_amdkfd_gpuvm.c` that this driver can meet.

use super::{Fake, State, read, write};
use doorbell_kfd::sys::{
    AllocMemory, AvailableMemory, Errno, FreeMemory, MapAddress, MapMemory, Request, Shared, Window,
    alloc_flag, request,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct Buffer {
    pub gpu_id: u32,
    pub va: u64,
    pub size: u64,
    pub flags: u32,
    pub mapped: BTreeSet<u32>,
    pub queues: u32,
    cookie: u64,
    shared: Shared,
    /// The kernel's own view.
    pub window: Window,
}

#[derive(Default)]
pub struct Memory {
    buffers: BTreeMap<u64, Buffer>,
    next: u64,
    pub event_page: Option<u64>,
}

impl Memory {
    /// Buffers besides the event page, which cannot be freed.
    pub fn count(&self) -> usize {
        self.buffers.keys().filter(|handle| Some(**handle) != self.event_page).count()
    }

    pub fn by_handle(&self, handle: u64) -> Option<&Buffer> {
        self.buffers.get(&handle)
    }

    /// The buffer that starts at `va` and is mapped on the GPU.
    pub fn starting_at(&mut self, gpu_id: u32, va: u64) -> Option<&mut Buffer> {
        self.buffers.values_mut().find(|buffer| buffer.va == va && buffer.mapped.contains(&gpu_id))
    }

    /// The buffer around `va` and the offset in it, if the GPU maps it.
    pub fn at(&self, gpu_id: u32, va: u64) -> Option<(&Buffer, usize)> {
        let holds = |buffer: &&Buffer| {
            buffer.va <= va && va - buffer.va < buffer.size && buffer.mapped.contains(&gpu_id)
        };
        let buffer = self.buffers.values().find(holds)?;
        Some((buffer, (va - buffer.va) as usize))
    }

    pub fn map(
        &self,
        gpu_id: u32,
        cookie: u64,
        len: usize,
        address: MapAddress<'_>,
    ) -> Result<Window, Errno> {
        let buffer = self.buffers.values().find(|buffer| buffer.cookie == cookie).ok_or(Errno::EINVAL)?;
        let reachable = buffer.flags & (alloc_flag::GTT | alloc_flag::PUBLIC) != 0;
        if buffer.gpu_id != gpu_id || len as u64 != buffer.size || !reachable {
            return Err(Errno::EACCES);
        }
        buffer.shared.map(0, len, address)
    }
}

pub fn call(
    fake: &Fake,
    state: &mut State,
    request: Request,
    arg: &mut [u8],
    pointed: &[u8],
) -> Result<(), Errno> {
    match request {
        request::ALLOC_MEMORY_OF_GPU => {
            let mut alloc = read(arg);
            let result = allocate(fake, state, &mut alloc);
            write(arg, &alloc);
            result
        }
        request::FREE_MEMORY_OF_GPU => free(state, read(arg)),
        request::AVAILABLE_MEMORY => {
            let mut available: AvailableMemory = read(arg);
            let gpu = fake.machine.gpus.iter().find(|gpu| gpu.gpu_id == available.gpu_id);
            available.available =
                fake.machine.bank(&gpu.ok_or(Errno::EINVAL)?.chip) - used(state, available.gpu_id);
            write(arg, &available);
            Ok(())
        }
        _ => {
            let mut map = read(arg);
            let result = change_mapping(state, request, &mut map, pointed);
            write(arg, &map);
            result
        }
    }
}

fn used(state: &State, gpu_id: u32) -> u64 {
    let vram = |buffer: &&Buffer| buffer.gpu_id == gpu_id && buffer.flags & alloc_flag::VRAM != 0;
    state.memory.buffers.values().filter(vram).map(|buffer| buffer.size).sum()
}

fn allocate(fake: &Fake, state: &mut State, alloc: &mut AllocMemory) -> Result<(), Errno> {
    let gpu = fake.machine.gpus.iter().find(|gpu| gpu.gpu_id == alloc.gpu_id).ok_or(Errno::EINVAL)?;
    let kinds = alloc_flag::VRAM | alloc_flag::GTT | alloc_flag::MMIO_REMAP;
    if alloc.size == 0 || alloc.flags & kinds == 0 {
        return Err(Errno::EINVAL);
    }
    if !state.vms.contains_key(&alloc.gpu_id) {
        return Err(Errno::ENODEV);
    }
    if gpu.small_bar && alloc.flags & alloc_flag::VRAM != 0 && alloc.flags & alloc_flag::PUBLIC != 0 {
        return Err(Errno::EINVAL);
    }
    if alloc.flags & alloc_flag::MMIO_REMAP != 0 && alloc.size != 4096 {
        return Err(Errno::EINVAL);
    }
    if let Some(left) = &mut state.injection.allocations_left {
        *left = left.checked_sub(1).ok_or(Errno::ENOMEM)?;
    }
    if alloc.flags & alloc_flag::VRAM != 0
        && used(state, alloc.gpu_id) + alloc.size > fake.machine.bank(&gpu.chip)
    {
        return Err(Errno::ENOMEM);
    }
    let size = alloc.size.next_multiple_of(4096);
    let shared = Shared::new(size as usize)?;
    let window = shared.map(0, size as usize, MapAddress::Anywhere)?;
    state.memory.next += 1;
    let handle = u64::from(alloc.gpu_id) << 32 | state.memory.next;
    let mmio = alloc.flags & alloc_flag::MMIO_REMAP != 0;
    let cookie = if mmio { 0 } else { state.memory.next << 12 | 1 << 40 };
    (alloc.handle, alloc.mmap_offset) = (handle, cookie);
    let &mut AllocMemory { gpu_id, va_addr: va, flags, .. } = alloc;
    let buffer =
        Buffer { gpu_id, va, size, flags, mapped: BTreeSet::new(), queues: 0, cookie, shared, window };
    state.memory.buffers.insert(handle, buffer);
    Ok(())
}

fn free(state: &mut State, FreeMemory { handle }: FreeMemory) -> Result<(), Errno> {
    let buffer = state.memory.buffers.get(&handle).ok_or(Errno::EINVAL)?;
    if state.memory.event_page == Some(handle) {
        return Err(Errno::EPERM);
    }
    if !buffer.mapped.is_empty() {
        return Err(Errno::EBUSY);
    }
    state.memory.buffers.remove(&handle);
    Ok(())
}

fn devices(pointed: &[u8], count: u32) -> impl Iterator<Item = u32> {
    pointed.chunks_exact(4).take(count as usize).map(|id| u32::from_le_bytes(id.try_into().expect("4 bytes")))
}

fn change_mapping(
    state: &mut State,
    request: Request,
    arg: &mut MapMemory,
    pointed: &[u8],
) -> Result<(), Errno> {
    if arg.n_devices == 0 || arg.n_success > arg.n_devices {
        return Err(Errno::EINVAL);
    }
    let overlap = {
        let buffer = state.memory.buffers.get(&arg.handle).ok_or(Errno::ENOMEM)?;
        let (start, end) = (buffer.va, buffer.va + buffer.size);
        state.memory.buffers.iter().any(|(handle, other)| {
            *handle != arg.handle
                && !other.mapped.is_empty()
                && other.va < end
                && start < other.va + other.size
        })
    };
    let is_pinned = state.memory.event_page == Some(arg.handle);
    let buffer = state.memory.buffers.get_mut(&arg.handle).ok_or(Errno::ENOMEM)?;
    for gpu_id in devices(pointed, arg.n_devices).skip(arg.n_success as usize) {
        if !state.vms.contains_key(&gpu_id) {
            return Err(Errno::EINVAL);
        }
        if request == request::MAP_MEMORY_TO_GPU {
            if buffer.va == 0 || !buffer.va.is_multiple_of(4096) || overlap {
                return Err(Errno::EINVAL);
            }
            buffer.mapped.insert(gpu_id);
        } else {
            if buffer.queues > 0 || is_pinned {
                return Err(Errno::EBUSY);
            }
            buffer.mapped.remove(&gpu_id);
        }
        arg.n_success += 1;
    }
    Ok(())
}

/// A signal in the middle of MAP or UNMAP: one device more is done.
pub fn interrupt(state: &mut State, request: Request, arg: &mut [u8], pointed: &[u8]) {
    if request != request::MAP_MEMORY_TO_GPU && request != request::UNMAP_MEMORY_FROM_GPU {
        // Whatever the kernel wrote back before it noticed must not be taken for input.
        arg.fill(0xA5);
        return;
    }
    let mut map: MapMemory = read(arg);
    let all = map.n_devices;
    if map.n_success + 1 < all {
        map.n_devices = map.n_success + 1;
        let _ = change_mapping(state, request, &mut map, pointed);
        map.n_devices = all;
        write(arg, &map);
    }
}
