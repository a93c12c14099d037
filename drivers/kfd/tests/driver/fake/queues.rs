//! Queues of the fake kernel: the static checks in the kernel's order, then the buffer rules of 6.12 and later
//! (`kfd_chardev.c:set_queue_properties_from_user`, `kfd_queue.c:kfd_queue_acquire_buffers`).

use super::{Fake, State, read, write};
use crate::machines::{Gpu, Release};
use doorbell_kfd::sys::{CreateQueue, DestroyQueue, Errno, Request, UpdateQueue, queue_type, request};
use std::collections::BTreeMap;

pub struct Queue {
    pub gpu_id: u32,
    pub kind: u32,
    pub ring: u64,
    pub ring_bytes: u64,
    pub read_pointer: u64,
    pub write_pointer: u64,
    pub doorbell: usize,
    pub is_active: bool,
    pub priority: u32,
    /// Packets or bytes consumed.
    pub read: u64,
    /// The last doorbell value.
    pub rung: Option<u64>,
    pub is_dead: bool,
    pub save_area: u64,
    buffers: Vec<u64>,
}

#[derive(Default)]
pub struct Queues {
    pub queues: BTreeMap<u32, Queue>,
    next: u32,
}

impl Queues {
    pub fn count(&self) -> usize {
        self.queues.len()
    }
}

pub fn call(fake: &Fake, state: &mut State, request: Request, arg: &mut [u8]) -> Result<(), Errno> {
    match request {
        request::CREATE_QUEUE => {
            let mut create = read(arg);
            let result = self::create(fake, state, &mut create);
            write(arg, &create);
            result
        }
        request::UPDATE_QUEUE => {
            let update: UpdateQueue = read(arg);
            let queue = state.queues.queues.get_mut(&update.queue_id).ok_or(Errno::EFAULT)?;
            queue.is_active = update.queue_percentage > 0 && update.ring_size > 0;
            queue.priority = update.queue_priority;
            let (gpu, doorbell, rung) = (queue.gpu_id, queue.doorbell, queue.rung);
            if let Some(rung) = rung {
                super::processor::ring(fake, state, gpu, doorbell, rung);
            }
            Ok(())
        }
        _ => {
            let DestroyQueue { queue_id, .. } = read(arg);
            let queue = state.queues.queues.remove(&queue_id).ok_or(Errno::EINVAL)?;
            for va in queue.buffers {
                if let Some(buffer) = state.memory.starting_at(queue.gpu_id, va) {
                    buffer.queues -= 1;
                }
            }
            Ok(())
        }
    }
}

fn create(fake: &Fake, state: &mut State, arg: &mut CreateQueue) -> Result<(), Errno> {
    if arg.queue_percentage > 100 || arg.queue_priority > 15 {
        return Err(Errno::EINVAL);
    }
    if arg.ring_size != 0 && !arg.ring_size.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    let gpu = fake.machine.gpus.iter().find(|gpu| gpu.gpu_id == arg.gpu_id);
    if arg.queue_type > 4 {
        return Err(Errno::ENOTSUPP);
    }
    let gpu = gpu.ok_or(Errno::EINVAL)?;
    if !state.vms.contains_key(&arg.gpu_id) {
        return Err(Errno::ESRCH);
    }
    let is_sdma = arg.queue_type == queue_type::SDMA;
    let sdma = state.queues.queues.values().filter(|queue| queue.kind == queue_type::SDMA).count();
    if is_sdma && sdma >= 12 {
        return Err(Errno::ENOMEM);
    }
    let buffers = if fake.machine.release == Release::V6_1 {
        Vec::new()
    } else {
        check_buffers(state, gpu, arg, is_sdma)?
    };
    for va in &buffers {
        if let Some(buffer) = state.memory.starting_at(arg.gpu_id, *va) {
            buffer.queues += 1;
        }
    }
    state.queues.next += 1;
    let id = state.queues.next;
    let doorbell = id as usize * 8;
    arg.queue_id = id;
    arg.doorbell_offset = 3 << 62 | u64::from(arg.gpu_id) << 46 | doorbell as u64;
    let queue = Queue {
        gpu_id: arg.gpu_id,
        kind: arg.queue_type,
        ring: arg.ring_base_address,
        ring_bytes: arg.ring_size.into(),
        read_pointer: arg.read_pointer_address,
        write_pointer: arg.write_pointer_address,
        doorbell,
        is_active: arg.queue_percentage > 0,
        priority: arg.queue_priority,
        read: 0,
        rung: None,
        is_dead: false,
        save_area: arg.ctx_save_restore_address,
        buffers,
    };
    state.queues.queues.insert(id, queue);
    Ok(())
}

/// The five buffers: mapped on this GPU, starting exactly there, of exactly this size.
fn check_buffers(state: &mut State, gpu: &Gpu, arg: &CreateQueue, is_sdma: bool) -> Result<Vec<u64>, Errno> {
    let page = |va: u64| va & !4095;
    let mut wanted = vec![
        (page(arg.write_pointer_address), 4096),
        (page(arg.read_pointer_address), 4096),
        (arg.ring_base_address, u64::from(arg.ring_size).next_multiple_of(4096)),
    ];
    if !is_sdma {
        if arg.eop_buffer_size < 4096 {
            return Err(Errno::EINVAL);
        }
        wanted.push((arg.eop_buffer_address, arg.eop_buffer_size.next_multiple_of(4096)));
        let size = u64::from(arg.ctx_save_restore_size);
        if u64::from(arg.ctl_stack_size) != gpu.chip.ctl_stack || size < gpu.chip.cwsr {
            return Err(Errno::EINVAL);
        }
        wanted.push((arg.ctx_save_restore_address, (size + gpu.chip.debug).next_multiple_of(4096)));
    }
    for &(va, bytes) in &wanted {
        let buffer = state.memory.starting_at(gpu.gpu_id, va).ok_or(Errno::EINVAL)?;
        if buffer.size != bytes {
            return Err(Errno::EINVAL);
        }
    }
    Ok(wanted.into_iter().map(|(va, _)| va).collect())
}
