//! The ioctls.
//!
//! Source: `kfd_chardev.c` of the three kernels, docs/facts/kfd.md. Not here: the rules of memory, events and queues.

use bytemuck::{AnyBitPattern, NoUninit};
use doorbell_kfd::sys::{
    AcquireVm, AllocMemory, AmdgpuInfo, Aperture, AvailableMemory, CreateEvent, CreateQueue, DestroyEvent,
    DestroyQueue, Errno, EventData, FreeMemory, GetApertures, GetClockCounters, GetVersion, MapMemory,
    Request, RuntimeEnable, SetEvent, SetXnackMode, UpdateQueue, WaitEvents, amdgpu_query, request,
    wait_result,
};

use alloc::vec::Vec;

use super::machine::Release;
use super::soft::{File, SoftKernel, State};
use crate::memory::Space;

/// Requests of foreign clients only.
const SET_SCRATCH_BACKING_VA: Request = Request(0xC010_4B11);
const SVM: u8 = 0x20;

/// SET_SCRATCH_BACKING_VA.
#[repr(C)]
#[derive(Clone, Copy, AnyBitPattern)]
struct ScratchBacking {
    _va_addr: u64,
    gpu_id: u32,
    _pad: u32,
}

/// First minor of AVAILABLE_MEMORY, RUNTIME_ENABLE.
const MINOR_AVAILABLE: u32 = 9;
const MINOR_RUNTIME: u32 = 13;

fn read<T: AnyBitPattern>(arg: &[u8]) -> T {
    bytemuck::pod_read_unaligned(&arg[..size_of::<T>()])
}

fn write<T: NoUninit>(arg: &mut [u8], value: &T) {
    arg[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
}

/// Runs a call on a copy of its argument and writes it back, as the kernel does even on errors.
fn with<T: AnyBitPattern + NoUninit>(
    arg: &mut [u8],
    call: impl FnOnce(&mut T) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut value = read(arg);
    let result = call(&mut value);
    write(arg, &value);
    result
}

impl SoftKernel {
    pub(super) fn call(
        &self,
        state: &mut State,
        request: Request,
        arg: &mut [u8],
        pointed: &mut [u8],
    ) -> Result<(), Errno> {
        let minor = self.machine.release.minor();
        match request {
            request::GET_VERSION => {
                write(arg, &GetVersion { major_version: 1, minor_version: minor });
                Ok(())
            }
            request::GET_PROCESS_APERTURES_NEW => with(arg, |arg| self.apertures(arg, pointed)),
            request::ACQUIRE_VM => self.acquire_vm(state, read(arg)),
            request::GET_CLOCK_COUNTERS => with(arg, |arg: &mut GetClockCounters| {
                let device = state.devices.iter().find(|device| device.id == arg.gpu_id);
                arg.gpu_clock_counter = device.map_or(0, |device| device.processor.clock());
                arg.cpu_clock_counter = arg.gpu_clock_counter * 10;
                arg.system_clock_counter = arg.cpu_clock_counter;
                arg.system_clock_freq = 1_000_000_000;
                Ok(())
            }),
            request::RUNTIME_ENABLE if minor < MINOR_RUNTIME => Err(Errno::ENOTTY),
            request::RUNTIME_ENABLE => runtime_enable(state, read(arg)),
            // Debian builds these without shared virtual memory, and without a GPU there is nothing to ask.
            request::SET_XNACK_MODE if self.machine.gpus.is_empty() => Err(Errno::EPERM),
            request::SET_XNACK_MODE => with(arg, |arg: &mut SetXnackMode| {
                if arg.xnack_enabled > 0 {
                    return Err(Errno::EPERM);
                }
                arg.xnack_enabled = 0;
                Ok(())
            }),
            request::SET_TRAP_HANDLER | request::SET_MEMORY_POLICY | request::SMI_EVENTS
                if self.machine.gpus.is_empty() =>
            {
                Err(Errno::EINVAL)
            }
            request::SET_TRAP_HANDLER => self.set_trap_handler(state, read(arg)),
            request::SET_MEMORY_POLICY => Ok(()),
            request::AVAILABLE_MEMORY if minor < MINOR_AVAILABLE => Err(Errno::ENOTTY),
            request::AVAILABLE_MEMORY => with(arg, |arg: &mut AvailableMemory| {
                arg.available = state.ranges.available(&self.machine, arg.gpu_id)?;
                Ok(())
            }),
            request::ALLOC_MEMORY_OF_GPU => with(arg, |arg| self.allocate(state, arg)),
            request::FREE_MEMORY_OF_GPU => state.ranges.free(read::<FreeMemory>(arg).handle),
            request::MAP_MEMORY_TO_GPU => with(arg, |arg| change(state, true, arg, pointed)),
            request::UNMAP_MEMORY_FROM_GPU => with(arg, |arg| change(state, false, arg, pointed)),
            _ => self.queue_or_event(state, request, arg, pointed),
        }
    }

    fn queue_or_event(
        &self,
        state: &mut State,
        request: Request,
        arg: &mut [u8],
        pointed: &mut [u8],
    ) -> Result<(), Errno> {
        match request {
            request::CREATE_QUEUE => with(arg, |arg: &mut CreateQueue| {
                let gpu = self.machine.gpu(arg.gpu_id);
                let has_vm = state.vms.contains_key(&arg.gpu_id);
                if state.devices.iter().any(|device| device.id == arg.gpu_id && device.lost) {
                    return Err(Errno::EIO);
                }
                state.queues.create(&mut state.ranges, gpu, has_vm, self.machine.release, arg)?;
                self.clear_doorbell(state, arg.gpu_id, arg.doorbell_offset);
                Ok(())
            }),
            request::UPDATE_QUEUE => {
                let release = self.machine.release;
                state.queues.update(&mut state.ranges, release, read::<UpdateQueue>(arg))?;
                state.run();
                Ok(())
            }
            request::DESTROY_QUEUE => {
                state.queues.destroy(&mut state.ranges, read::<DestroyQueue>(arg).queue_id)
            }
            request::CREATE_EVENT => with(arg, |arg| create_event(state, arg)),
            request::DESTROY_EVENT => state.events.destroy(read::<DestroyEvent>(arg).event_id),
            request::SET_EVENT => state.events.change(read::<SetEvent>(arg).event_id, true),
            request::RESET_EVENT => state.events.change(read::<SetEvent>(arg).event_id, false),
            request::WAIT_EVENTS => with(arg, |arg| self.wait_events(state, arg, pointed)),
            SET_SCRATCH_BACKING_VA => {
                // The address is for the debugger of older chips: nothing here reads it.
                let gpu = read::<ScratchBacking>(arg).gpu_id;
                if state.vms.contains_key(&gpu) { Ok(()) } else { Err(Errno::EINVAL) }
            }
            // A kernel without CONFIG_HSA_AMD_SVM.
            _ if request.kind() == b'K' && request.nr() == SVM => Err(Errno::EPERM),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn acquire_vm(&self, state: &mut State, arg: AcquireVm) -> Result<(), Errno> {
        let fd = arg.drm_fd.cast_signed();
        let right = state.files.get(&fd) == Some(&File::Render(arg.gpu_id));
        if self.machine.gpu(arg.gpu_id).is_none() || !right {
            return Err(Errno::EINVAL);
        }
        match state.vms.get(&arg.gpu_id) {
            Some(other) if *other != fd => Err(Errno::EBUSY),
            _ => {
                state.vms.insert(arg.gpu_id, fd);
                Ok(())
            }
        }
    }

    fn apertures(&self, arg: &mut GetApertures, pointed: &mut [u8]) -> Result<(), Errno> {
        let count = u32::try_from(self.machine.gpus.len()).map_err(|_| Errno::EINVAL)?;
        if arg.num_of_nodes == 0 {
            arg.num_of_nodes = count;
            return Ok(());
        }
        // The CPU's node counts among those that may be asked for.
        if arg.num_of_nodes > count + 1 {
            return Err(Errno::EINVAL);
        }
        let base = if self.machine.release == Release::V6_1 { 0x4000 } else { 0x1_0000 };
        for (slot, gpu) in pointed.chunks_exact_mut(size_of::<Aperture>()).zip(&self.machine.gpus) {
            let aperture = Aperture {
                lds_base: 1 << 48,
                lds_limit: (1 << 48) + 0xffff_ffff,
                scratch_base: 2 << 48,
                scratch_limit: (2 << 48) + 0xffff_ffff,
                gpuvm_base: base,
                gpuvm_limit: 0x7fff_ffff_ffff,
                gpu_id: gpu.id,
                pad: 0,
            };
            write(slot, &aperture);
        }
        arg.num_of_nodes = arg.num_of_nodes.min(count);
        Ok(())
    }

    fn allocate(&self, state: &mut State, arg: &mut AllocMemory) -> Result<(), Errno> {
        let has_vm = state.vms.contains_key(&arg.gpu_id);
        if let Some(left) = &mut state.injection.allocations_left {
            *left = left.checked_sub(1).ok_or(Errno::ENOMEM)?;
        }
        state.ranges.allocate(&self.machine, has_vm, arg)
    }

    fn wait_events(&self, state: &mut State, arg: &mut WaitEvents, pointed: &mut [u8]) -> Result<(), Errno> {
        // Whatever was evicted is back by now.
        state.run();
        if state.injection.spurious > 0 {
            state.injection.spurious -= 1;
            arg.wait_result = wait_result::COMPLETE;
            return Ok(());
        }
        let mut slots: Vec<EventData> =
            pointed.chunks_exact(size_of::<EventData>()).map(read::<EventData>).collect();
        let result = state.events.wait(arg, &mut slots, self.machine.release.minor());
        for (slot, data) in pointed.chunks_exact_mut(size_of::<EventData>()).zip(&slots) {
            write(slot, data);
        }
        result
    }

    pub(super) fn drm_info(&self, gpu: u32, arg: &[u8], answer: &mut [u8]) -> Result<(), Errno> {
        let info: AmdgpuInfo = read(arg);
        let device = self.machine.gpu(gpu).ok_or(Errno::ENODEV)?;
        let mut full = [0; 440];
        let mut put = |at: usize, bytes: &[u8]| full[at..at + bytes.len()].copy_from_slice(bytes);
        let len = match info.query {
            amdgpu_query::DEV_INFO => {
                put(28, &100_000_u32.to_le_bytes());
                put(48, &device.chip.compute_units.to_le_bytes());
                put(136, &[device.chip.is_apu.into()]);
                440
            }
            amdgpu_query::MEMORY => {
                put(0, &device.chip.vram.to_le_bytes());
                put(32, &device.chip.vram.to_le_bytes());
                put(64, &self.machine.gtt().to_le_bytes());
                96
            }
            _ => return Err(Errno::EINVAL),
        };
        let len = answer.len().min(len).min(info.return_size as usize);
        answer[..len].copy_from_slice(&full[..len]);
        Ok(())
    }
}

fn runtime_enable(state: &mut State, arg: RuntimeEnable) -> Result<(), Errno> {
    if arg.mode_mask & 1 == 0 {
        state.runtime_enabled = false;
        return Ok(());
    }
    if !state.queues.all.is_empty() {
        return Err(Errno::EEXIST);
    }
    if state.runtime_enabled {
        return Err(Errno::EBUSY);
    }
    state.runtime_enabled = true;
    Ok(())
}

fn create_event(state: &mut State, arg: &mut CreateEvent) -> Result<(), Errno> {
    if arg.event_page_offset != 0 {
        let handle = arg.event_page_offset;
        let page = state.ranges.by_handle(handle).ok_or(Errno::EINVAL)?.window.clone();
        state.events.set_page(page)?;
        state.ranges.pinned = Some(handle);
    }
    state.events.create(arg)
}

fn change(state: &mut State, map: bool, arg: &mut MapMemory, pointed: &[u8]) -> Result<(), Errno> {
    let devices: Vec<u32> = pointed.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
    let State { ranges, vms, devices: gpus, .. } = state;
    let mut spaces: Vec<(u32, &mut Space)> =
        gpus.iter_mut().map(|device| (device.id, &mut device.space)).collect();
    ranges.change(map, arg, &devices, vms, &mut spaces)
}
