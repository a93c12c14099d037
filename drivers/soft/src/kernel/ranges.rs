//! Memory of the process: allocation, mapping to GPUs, limits.
//!
//! Source: `kfd_chardev.c` and `amdgpu_amdkfd_gpuvm.c` of the three kernels, docs/facts/kfd.md. Not here: accesses of
//! the GPU (`memory`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use doorbell_kfd::sys::{AllocMemory, Errno, MapAddress, MapMemory, Shared, Window, alloc_flag};

use super::machine::Machine;
use crate::memory::{Region, Space};

/// One allocation.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) gpu: u32,
    pub(super) va: u64,
    pub(super) size: u64,
    flags: u32,
    mapped: BTreeSet<u32>,
    /// Queues that use it.
    pub(super) queues: u32,
    /// Offset of CPU mappings, where they are possible.
    cookie: Option<u64>,
    shared: Shared,
    pub(super) window: Arc<Window>,
}

impl Range {
    /// True if the pages belong to the process, so that they cannot be pinned.
    pub(super) fn is_caller_owned(&self) -> bool {
        self.flags & alloc_flag::USERPTR != 0
    }

    /// Another mapping of the memory.
    pub(super) fn view(&self) -> Result<Window, Errno> {
        self.shared.map(0, self.shared.len(), MapAddress::Anywhere)
    }
}

/// All allocations.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    all: BTreeMap<u64, Range>,
    next: u64,
    /// USERPTR is supported: the host moves the caller's pages.
    pub(super) adopts: bool,
    /// The event page, which stays.
    pub(super) pinned: Option<u64>,
}

const KINDS: u32 =
    alloc_flag::VRAM | alloc_flag::GTT | alloc_flag::USERPTR | alloc_flag::DOORBELL | alloc_flag::MMIO_REMAP;
const PAGE: u64 = 4096;
const DOORBELLS: u64 = 8192;

fn name(flags: u32, number: u64) -> String {
    let kind = [
        (alloc_flag::VRAM, "vram"),
        (alloc_flag::GTT, "gtt"),
        (alloc_flag::USERPTR, "userptr"),
        (alloc_flag::DOORBELL, "doorbells"),
    ];
    let kind = kind.iter().find(|(flag, _)| flags & flag != 0).map_or("mmio", |(_, name)| *name);
    format!("{kind}#{number}")
}

impl Ranges {
    /// Allocations besides the event page.
    pub(super) fn count(&self) -> usize {
        self.all.keys().filter(|handle| Some(**handle) != self.pinned).count()
    }

    pub(super) fn by_handle(&self, handle: u64) -> Option<&Range> {
        self.all.get(&handle)
    }

    /// The oldest allocation that is mapped on the GPU, the event page not counted.
    pub(super) fn first(&self, gpu: u32) -> Option<&Range> {
        let mut others = self.all.iter().filter(|(handle, _)| Some(**handle) != self.pinned);
        others.find(|(_, range)| range.mapped.contains(&gpu)).map(|(_, range)| range)
    }

    /// The allocation that holds `va` and is mapped on the GPU.
    pub(super) fn containing(&self, gpu: u32, va: u64) -> Option<&Range> {
        let holds = |range: &&Range| va >= range.va && va - range.va < range.size;
        self.all.values().find(|range| holds(range) && range.mapped.contains(&gpu))
    }

    /// The allocation that starts at `va` and is mapped on the GPU.
    pub(super) fn starting_at(&mut self, gpu: u32, va: u64) -> Option<&mut Range> {
        self.all.values_mut().find(|range| range.va == va && range.mapped.contains(&gpu))
    }

    fn used(&self, gpu: u32, flag: u32) -> u64 {
        let counted = self.all.values().filter(|range| range.gpu == gpu && range.flags & flag != 0);
        counted.map(|range| range.size).sum()
    }

    /// Bytes of a GPU's bank that are left.
    pub(super) fn available(&self, machine: &Machine, gpu: u32) -> Result<u64, Errno> {
        let device = machine.gpu(gpu).ok_or(Errno::EINVAL)?;
        let left = machine.bank(device).saturating_sub(self.used(gpu, alloc_flag::VRAM));
        Ok(if device.chip.is_apu { left } else { left & !((2 << 20) - 1) })
    }

    pub(super) fn allocate(
        &mut self,
        machine: &Machine,
        has_vm: bool,
        arg: &mut AllocMemory,
    ) -> Result<(), Errno> {
        let device = machine.gpu(arg.gpu_id).ok_or(Errno::EINVAL)?;
        let has = |flag: u32| arg.flags & flag != 0;
        if arg.size == 0 {
            return Err(Errno::EINVAL);
        }
        if !has_vm {
            return Err(Errno::ENODEV);
        }
        let small = device.small_bar && has(alloc_flag::VRAM) && has(alloc_flag::PUBLIC);
        // Without PUBLIC a CPU mapping is possible all the same, as far as the CPU reaches (since Linux 5.13).
        let hidden = device.small_bar && has(alloc_flag::VRAM);
        let sized = |flag: u32, size: u64| has(flag) && arg.size != size;
        if small
            || !has(KINDS)
            || (has(alloc_flag::USERPTR) && arg.mmap_offset == 0)
            || sized(alloc_flag::DOORBELL, DOORBELLS)
            || sized(alloc_flag::MMIO_REMAP, PAGE)
        {
            return Err(Errno::EINVAL);
        }
        if has(alloc_flag::USERPTR) && !self.adopts {
            // The caller's pages are another mapping than this kernel can share.
            return Err(Errno::EOPNOTSUPP);
        }
        let size = arg.size.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let limits = [
            (alloc_flag::VRAM, machine.bank(device)),
            (alloc_flag::GTT, machine.gtt()),
            (alloc_flag::USERPTR, machine.ram),
        ];
        for (flag, limit) in limits {
            if has(flag) && self.used(arg.gpu_id, flag).saturating_add(size) > limit {
                return Err(Errno::ENOMEM);
            }
        }
        let bytes = usize::try_from(size).map_err(|_| Errno::ENOMEM)?;
        let shared = Shared::new(bytes)?;
        let window = Arc::new(shared.map(0, bytes, MapAddress::Anywhere)?);
        self.next += 1;
        let mmio = has(alloc_flag::MMIO_REMAP);
        let cookie = if mmio { 0 } else { self.next << 12 | 1 << 40 };
        arg.handle = u64::from(arg.gpu_id) << 32 | self.next;
        if !has(alloc_flag::USERPTR) {
            arg.mmap_offset = cookie;
        }
        let cookie = (has(alloc_flag::VRAM | alloc_flag::GTT) && !hidden).then_some(cookie);
        let range = Range {
            gpu: arg.gpu_id,
            va: arg.va_addr,
            size,
            flags: arg.flags,
            mapped: BTreeSet::new(),
            queues: 0,
            cookie,
            shared,
            window,
        };
        self.all.insert(arg.handle, range);
        Ok(())
    }

    pub(super) fn free(&mut self, handle: u64) -> Result<(), Errno> {
        let range = self.all.get(&handle).ok_or(Errno::EINVAL)?;
        if self.pinned == Some(handle) {
            return Err(Errno::EPERM);
        }
        if !range.mapped.is_empty() {
            return Err(Errno::EBUSY);
        }
        self.all.remove(&handle);
        Ok(())
    }

    /// True if a range overlaps a mapped one or lies where the GPU cannot reach.
    fn has_invalid_address(&self, handle: u64) -> bool {
        let Some(range) = self.all.get(&handle) else { return true };
        let Some(end) = range.va.checked_add(range.size) else { return true };
        let overlaps = self.all.iter().any(|(other, found)| {
            *other != handle && !found.mapped.is_empty() && found.va < end && range.va < found.va + found.size
        });
        range.va == 0 || !range.va.is_multiple_of(PAGE) || end > 0x8000_0000_0000 || overlaps
    }

    /// MAP (or UNMAP) on the devices after the first `n_success`.
    pub(super) fn change(
        &mut self,
        map: bool,
        arg: &mut MapMemory,
        devices: &[u32],
        vms: &BTreeMap<u32, i32>,
        spaces: &mut [(u32, &mut Space)],
    ) -> Result<(), Errno> {
        if arg.n_devices == 0 || arg.n_success > arg.n_devices || devices.len() < arg.n_devices as usize {
            return Err(Errno::EINVAL);
        }
        let invalid_address = self.has_invalid_address(arg.handle);
        let pinned = self.pinned == Some(arg.handle);
        let range = self.all.get_mut(&arg.handle).ok_or(Errno::ENOMEM)?;
        for gpu in devices.iter().take(arg.n_devices as usize).skip(arg.n_success as usize) {
            let remote = range.flags & alloc_flag::VRAM != 0 && *gpu != range.gpu;
            let space = spaces.iter_mut().find(|(id, _)| id == gpu).map(|(_, space)| space);
            let (Some(space), true, false) = (space, vms.contains_key(gpu), remote) else {
                return Err(Errno::EINVAL);
            };
            if map {
                if invalid_address {
                    return Err(Errno::EINVAL);
                }
                if range.mapped.insert(*gpu) {
                    let label = name(range.flags, arg.handle & 0xffff_ffff);
                    let mut region = Region::new(range.va, range.size, &label, range.window.clone());
                    region.writable = range.flags & alloc_flag::WRITABLE != 0;
                    region.executable = range.flags & alloc_flag::EXECUTABLE != 0;
                    space.add(region);
                }
            } else {
                if range.queues > 0 || pinned {
                    return Err(Errno::EBUSY);
                }
                if range.mapped.remove(gpu) {
                    space.remove(range.va);
                }
            }
            arg.n_success += 1;
        }
        Ok(())
    }

    /// A CPU mapping by the cookie that ALLOC gave.
    pub(super) fn map(
        &self,
        gpu: u32,
        cookie: u64,
        len: usize,
        address: MapAddress<'_>,
    ) -> Result<Window, Errno> {
        let range = self.all.values().find(|range| range.cookie == Some(cookie)).ok_or(Errno::EINVAL)?;
        if range.gpu != gpu || len as u64 != range.size {
            return Err(Errno::EACCES);
        }
        range.shared.map(0, len, address)
    }
}
