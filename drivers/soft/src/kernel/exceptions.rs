//! Exceptions of waves: the process's trap handler and the interrupts that it sends.
//!
//! Source: `kfd_chardev.c:kfd_ioctl_set_trap_handler`, `kfd_int_process_v11.c`,
//! `kfd_process.c:send_exception_work_handler`, docs/facts/kfd.md. Not here: how a wave gets into the handler
//! (`processor`).

use doorbell_isa::Target;
use doorbell_kfd::sys::{Errno, SetTrapHandler};

use super::machine::Release;
use super::soft::{SoftKernel, State};
use crate::command::Queue;
use crate::memory::MemoryFault;
use crate::processor::Message;

/// Fields of an interrupt from a handler: the doorbell, and a bit per exception above it.
const DOORBELL_BITS: u32 = 10;
const DOORBELL: u32 = (1 << DOORBELL_BITS) - 1;
/// Fields of a save area's header.
const PAYLOAD: u64 = 24;
const EVENT: u64 = 32;

/// True if waves on a chip enter trap handlers: from 6.5 on the work-around for saving waves on the first chips of
/// gfx11 turns that off.
fn enters_handlers(release: Release, target: Target) -> bool {
    let first = [Target::Gfx1100, Target::Gfx1101, Target::Gfx1102, Target::Gfx1103];
    release == Release::V6_1 || !first.contains(&target)
}

impl SoftKernel {
    /// SET_TRAP_HANDLER, for all queues of the process on the GPU from the next dispatch on.
    pub(super) fn set_trap_handler(&self, state: &mut State, arg: SetTrapHandler) -> Result<(), Errno> {
        let gpu = self.machine.gpu(arg.gpu_id).ok_or(Errno::EINVAL)?;
        if !state.vms.contains_key(&arg.gpu_id) {
            return Err(Errno::ESRCH);
        }
        let handler = (arg.tba_addr != 0 && enters_handlers(self.machine.release, gpu.chip.target))
            .then_some((arg.tba_addr, arg.tma_addr));
        for device in state.devices.iter_mut().filter(|device| device.id == arg.gpu_id) {
            device.processor.trap = handler;
        }
        Ok(())
    }
}

impl State {
    /// An interrupt that a wave sent: exceptions of a queue if a trap handler sent it and the runtime is enabled,
    /// otherwise an ordinary interrupt.
    pub(super) fn exception(&mut self, gpu: u32, message: Message) {
        let delivered = message.privileged
            && self.runtime_enabled
            && self.deliver(gpu, message.data).is_ok_and(|delivered| delivered);
        if !delivered {
            self.events.interrupt(message.data);
        }
    }

    /// Adds exceptions to what the header of the queue's save area points at; false if there is no such queue.
    fn deliver(&mut self, gpu: u32, data: u32) -> Result<bool, MemoryFault> {
        let Self { queues, devices, events, .. } = self;
        let is_owner = |queue: &Queue| queue.doorbell == data & DOORBELL;
        let entry = queues.all.values().find(|entry| entry.gpu == gpu && is_owner(&entry.queue));
        let device = devices.iter_mut().find(|device| device.id == gpu);
        let (Some(entry), Some(device)) = (entry, device) else { return Ok(false) };
        let payload = device.space.load64(entry.save_area.wrapping_add(PAYLOAD))?;
        let event = device.space.load32(entry.save_area.wrapping_add(EVENT))?;
        if payload == 0 {
            return Ok(true);
        }
        let before = device.space.load64(payload)?;
        device.space.store64(payload, before | u64::from(data >> DOORBELL_BITS))?;
        // Nobody may wait for it.
        let _ = events.change(event, true);
        Ok(true)
    }
}
