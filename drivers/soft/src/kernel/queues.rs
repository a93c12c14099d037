//! Queues: the kernel's checks at creation, in its order, and their doorbells.
//!
//! Source: `kfd_chardev.c:set_queue_properties_from_user`, `kfd_queue.c:kfd_queue_acquire_buffers`,
//! docs/facts/kfd.md. Not here: packets.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use doorbell_kfd::sys::{CreateQueue, Errno, UpdateQueue, queue_type};

use super::machine::{Gpu, Release};
use super::ranges::Ranges;
use crate::chips::SaveArea;
use crate::command::{Queue, QueueKind};

/// A queue with the kernel's data about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) gpu: u32,
    pub(super) doorbell: usize,
    /// Last value of the doorbell, if it is read from memory.
    pub(super) seen: Option<u64>,
    pub(super) queue: Queue,
    /// Address of the save area, whose header holds the address for exceptions.
    pub(super) save_area: u64,
    buffers: Vec<u64>,
}

/// All queues of the process.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) all: BTreeMap<u32, Entry>,
    next: u32,
}

/// Queues of one process on one device.
const MOST: usize = 127;
/// SDMA queues of a device.
const SDMA_MOST: usize = 12;
const SMALLEST_RING: u32 = 1024;
/// SDMA_BY_ENG_ID, the highest type.
const LAST_TYPE: u32 = 4;

impl Queues {
    pub(super) fn create(
        &mut self,
        ranges: &mut Ranges,
        gpu: Option<&Gpu>,
        has_vm: bool,
        release: Release,
        arg: &mut CreateQueue,
    ) -> Result<(), Errno> {
        let percentage = arg.queue_percentage & 0xff;
        if percentage > 100 || arg.queue_priority > 15 {
            return Err(Errno::EINVAL);
        }
        if arg.ring_size != 0 && !arg.ring_size.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let user = |address: u64| address < 0x8000_0000_0000;
        let pointers = [arg.read_pointer_address, arg.write_pointer_address];
        if !user(arg.ring_base_address) || !pointers.into_iter().all(user) {
            return Err(Errno::EFAULT);
        }
        if arg.queue_type > LAST_TYPE {
            return Err(Errno::ENOTSUPP);
        }
        let gpu = gpu.ok_or(Errno::EINVAL)?;
        if !has_vm {
            return Err(Errno::ESRCH);
        }
        let kind = match arg.queue_type {
            queue_type::COMPUTE => QueueKind::Pm4,
            queue_type::COMPUTE_AQL => QueueKind::Aql,
            _ => QueueKind::Sdma,
        };
        let ring_bytes = arg.ring_size.max(SMALLEST_RING);
        let buffers = match release {
            Release::V6_1 => Vec::new(),
            _ => check(ranges, gpu, arg, kind, ring_bytes)?,
        };
        let of_gpu = || self.all.values().filter(|entry| entry.gpu == gpu.id);
        if of_gpu().count() >= MOST {
            return Err(Errno::ENOSPC);
        }
        if kind == QueueKind::Sdma
            && of_gpu().filter(|entry| entry.queue.kind == QueueKind::Sdma).count() >= SDMA_MOST
        {
            return Err(Errno::ENOMEM);
        }
        pin(ranges, gpu, arg.write_pointer_address)?;
        for va in &buffers {
            if let Some(range) = ranges.starting_at(gpu.id, *va) {
                range.queues += 1;
            }
        }
        self.next += 1;
        let id = self.next;
        // Slots are reused, so an old doorbell value may meet a new queue.
        let doorbell = (id as usize % 1023 + 1) * 8;
        arg.queue_id = id;
        arg.doorbell_offset = 3 << 62 | u64::from(gpu.id) << 46 | doorbell as u64;
        let mut queue = Queue::new(id, kind, arg.ring_base_address, ring_bytes.into(), pointers);
        queue.is_active = percentage > 0;
        queue.doorbell = (doorbell / 8) as u32;
        let save_area = arg.ctx_save_restore_address;
        self.all.insert(id, Entry { gpu: gpu.id, doorbell, seen: None, queue, save_area, buffers });
        Ok(())
    }

    pub(super) fn update(
        &mut self,
        ranges: &mut Ranges,
        release: Release,
        arg: UpdateQueue,
    ) -> Result<(), Errno> {
        if arg.queue_percentage & 0xff > 100 || arg.queue_priority > 15 {
            return Err(Errno::EINVAL);
        }
        if arg.ring_base_address >= 0x8000_0000_0000 {
            return Err(Errno::EFAULT);
        }
        if arg.ring_size != 0 && !arg.ring_size.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let entry = self.all.get_mut(&arg.queue_id).ok_or(Errno::EFAULT)?;
        // A new ring obeys the rules of creation; none parks the queue.
        let named = arg.ring_base_address != 0 && arg.ring_size != 0;
        if named && release != Release::V6_1 {
            let bytes = u64::from(arg.ring_size.max(SMALLEST_RING)).next_multiple_of(4096);
            let range = ranges.starting_at(entry.gpu, arg.ring_base_address).ok_or(Errno::EFAULT)?;
            if range.size != bytes {
                return Err(Errno::EFAULT);
            }
        }
        entry.queue.is_active =
            arg.queue_percentage & 0xff > 0 && arg.ring_size > 0 && arg.ring_base_address != 0;
        Ok(())
    }

    pub(super) fn destroy(&mut self, ranges: &mut Ranges, id: u32) -> Result<(), Errno> {
        let entry = self.all.remove(&id).ok_or(Errno::EINVAL)?;
        for va in entry.buffers {
            if let Some(range) = ranges.starting_at(entry.gpu, va) {
                range.queues = range.queues.saturating_sub(1);
            }
        }
        Ok(())
    }
}

/// The scheduler of gfx11 and later reads write pointers through a mapping of its own, for which their page is pinned.
fn pin(ranges: &Ranges, gpu: &Gpu, write_pointer: u64) -> Result<(), Errno> {
    let range = ranges.containing(gpu.id, write_pointer).ok_or(Errno::EINVAL)?;
    if range.size > 4096 || range.gpu != gpu.id {
        return Err(Errno::EINVAL);
    }
    if range.is_caller_owned() { Err(Errno::EPERM) } else { Ok(()) }
}

/// Checks that the buffers are mapped on this GPU at exactly these addresses and sizes; returns their addresses.
fn check(
    ranges: &mut Ranges,
    gpu: &Gpu,
    arg: &CreateQueue,
    kind: QueueKind,
    ring_bytes: u32,
) -> Result<Vec<u64>, Errno> {
    let page = |va: u64| va & !4095;
    let mut wanted = vec![
        (page(arg.write_pointer_address), 4096),
        (page(arg.read_pointer_address), 4096),
        (arg.ring_base_address, u64::from(ring_bytes).next_multiple_of(4096)),
    ];
    if kind != QueueKind::Sdma {
        if arg.eop_buffer_address != 0 {
            if arg.eop_buffer_size < 4096 {
                return Err(Errno::EINVAL);
            }
            let size = arg.eop_buffer_size.checked_next_multiple_of(4096).ok_or(Errno::EINVAL)?;
            wanted.push((arg.eop_buffer_address, size));
        }
        let SaveArea { control_stack, total, debug } = gpu.chip.save_area;
        let size = u64::from(arg.ctx_save_restore_size);
        if u64::from(arg.ctl_stack_size) != control_stack || size < total {
            return Err(Errno::EINVAL);
        }
        wanted.push((arg.ctx_save_restore_address, (size + debug).next_multiple_of(4096)));
    }
    for (va, bytes) in &wanted {
        let range = ranges.starting_at(gpu.id, *va).ok_or(Errno::EINVAL)?;
        if range.size != *bytes {
            return Err(Errno::EINVAL);
        }
    }
    Ok(wanted.into_iter().map(|(va, _)| va).collect())
}
