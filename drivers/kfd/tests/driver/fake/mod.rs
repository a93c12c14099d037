//! A small in-process kernel: topology files, a ledger of allocations, events, queues, the errno rules, and
//! faults on demand. It executes no instructions: a dispatch completes at once or never.

mod events;
mod memory;
mod processor;
mod queues;

use crate::machines::{Machine, Release};
use doorbell_kfd::sys::{
    self, AcquireVm, Aperture, BusGuard, Errno, EventData, Fd, GetApertures, GetClockCounters, GetVersion,
    Kernel, Linux, MapAddress, Request, Shared, Span, Stat, WaitEvents, Window, request,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

pub use processor::{Dispatch, Trouble};

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Kfd,
    /// A render node by gpu id.
    Render(u32),
    Notices,
}

/// Failures to inject, and when.
#[derive(Clone, Debug, Default)]
pub struct Injection {
    /// The file that doorbells are a mapping of, to be cut by a test.
    pub doorbells: Option<std::path::PathBuf>,
    /// The same for the page of registers.
    pub registers: Option<std::path::PathBuf>,
    /// The same for memory of this many bytes.
    pub memory: Option<(usize, std::path::PathBuf)>,
    /// Scheduler firmware that the render node reports; older kernels report none.
    pub scheduler: Option<u32>,
    /// ALLOC calls that succeed before one fails with ENOMEM.
    pub allocations_left: Option<u32>,
    /// Every call is refused with EINTR this many times before it is done.
    pub interruptions: u32,
    /// This request is always refused.
    pub refuse: Option<(Request, Errno)>,
    /// Faults of the next packets.
    pub trouble: Option<Trouble>,
    /// The kernel never keeps event ages (interface before 1.14).
    pub minor: Option<u32>,
    /// Doorbells are stored and nothing more, until [`Fake::catch_up`].
    pub is_asleep: bool,
    /// open("/dev/kfd") fails with this.
    pub open: Option<Errno>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<i32, File>,
    next_fd: i32,
    vms: BTreeMap<u32, i32>,
    memory: memory::Memory,
    queues: queues::Queues,
    events: events::Table,
    is_runtime_enabled: bool,
    injection: Injection,
    interrupted: u32,
    calls: Vec<Request>,
    /// Lines that a reader of notices gets, and what it asked for.
    notices: Vec<u8>,
    mask: u64,
    dispatches: Vec<Dispatch>,
    waits: u32,
    /// Second-level trap handlers by GPU: code and data.
    traps: BTreeMap<u32, (u64, u64)>,
    /// Doorbell windows by address, with the GPU they belong to; the newest last.
    doorbells: Vec<(u64, u32)>,
}

impl State {
    fn set_trap_handler(&mut self, arg: sys::SetTrapHandler) {
        let sys::SetTrapHandler { tba_addr, tma_addr, gpu_id, .. } = arg;
        assert!(tba_addr.is_multiple_of(256), "the code's address is stored without its low bits");
        match tba_addr {
            0 => drop(self.traps.remove(&gpu_id)),
            _ => drop(self.traps.insert(gpu_id, (tba_addr, tma_addr))),
        }
    }
}

/// The kernel.
pub struct Fake {
    pub machine: Machine,
    files: Mutex<BTreeMap<String, String>>,
    denied: Mutex<BTreeSet<String>>,
    stats: Mutex<BTreeMap<String, Stat>>,
    state: Mutex<State>,
    doorbells: Shared,
    mmio: Shared,
    event_page: Shared,
}

fn read<T: bytemuck::Pod>(arg: &[u8]) -> T {
    bytemuck::pod_read_unaligned(&arg[..size_of::<T>()])
}

fn write<T: bytemuck::Pod>(arg: &mut [u8], value: &T) {
    arg[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(value));
}

/// A mapping of a file that a test may cut.
fn map_file(path: &std::path::Path, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
    let file = Linux.open(path.to_str().expect("UTF-8"))?;
    let window = Linux.map(&file, 0, len, address);
    Linux.close(file);
    window
}

impl Fake {
    pub fn new(machine: Machine) -> Self {
        let files = Mutex::new(machine.files());
        let shared = |pages: usize| Shared::new(pages * 4096).expect("memfd");
        let stats = Mutex::default();
        let doorbells = shared(2 * machine.gpus.len().max(1));
        let (mmio, denied, state) = (shared(1), Mutex::default(), Mutex::default());
        let event_page = shared(8);
        let slots = event_page.map(0, 32768, MapAddress::Anywhere).expect("memory");
        (0..4096).for_each(|slot| slots.store64(slot * 8, u64::MAX));
        Self { machine, files, denied, stats, state, doorbells, mmio, event_page }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside")
    }

    /// Lines for whoever listens, and the mask that was asked for.
    pub fn tell(&self, lines: &str) -> u64 {
        let mut state = self.state();
        state.notices.extend_from_slice(lines.as_bytes());
        state.mask
    }

    /// Replaces or adds a file.
    pub fn set_file(&self, path: &str, text: &str) {
        self.files.lock().expect("files").insert(path.to_owned(), text.to_owned());
    }

    /// Removes every path that starts so.
    pub fn remove(&self, prefix: &str) {
        self.files.lock().expect("files").retain(|path, _| !path.starts_with(prefix));
    }

    /// Makes every path that starts so EPERM, as the device cgroup does.
    pub fn deny(&self, prefix: &str) {
        self.denied.lock().expect("denied").insert(prefix.to_owned());
    }

    pub fn set_stat(&self, path: &str, stat: Stat) {
        self.stats.lock().expect("stats").insert(path.to_owned(), stat);
    }

    pub fn inject(&self, change: impl FnOnce(&mut Injection)) {
        change(&mut self.state().injection);
    }

    /// Consumes and completes everything that was written to compute queues while asleep.
    pub fn catch_up(&self) {
        processor::catch_up(self, &mut self.state());
    }

    /// Requests so far, repeats included.
    pub fn calls(&self) -> Vec<Request> {
        self.state().calls.clone()
    }

    /// The dispatches, in order.
    pub fn dispatches(&self) -> Vec<Dispatch> {
        self.state().dispatches.clone()
    }

    /// The trap handler of a GPU: its code and its data.
    pub fn trap_handler(&self, gpu_id: u32) -> Option<(u64, u64)> {
        self.state().traps.get(&gpu_id).copied()
    }

    /// A queue's priority, and whether it is on the hardware.
    pub fn queue(&self, id: u32) -> Option<(u32, bool)> {
        self.state().queues.queues.get(&id).map(|queue| (queue.priority, queue.is_active))
    }

    /// Number of sleeps in waits.
    pub fn waits(&self) -> u32 {
        self.state().waits
    }

    /// Buffers and queues that the kernel still holds, and open files.
    pub fn held(&self) -> (usize, usize, usize) {
        let state = self.state();
        (state.memory.count(), state.queues.count(), state.files.len())
    }

    /// The interface's minor version.
    fn minor(&self, state: &State) -> u32 {
        state.injection.minor.unwrap_or_else(|| self.machine.release.minor())
    }

    fn is_gpu(&self, gpu_id: u32) -> bool {
        self.machine.gpus.iter().any(|gpu| gpu.gpu_id == gpu_id)
    }

    fn acquire_vm(&self, state: &mut State, arg: AcquireVm) -> Result<(), Errno> {
        let fd = arg.drm_fd.cast_signed();
        if !self.is_gpu(arg.gpu_id) || state.files.get(&fd) != Some(&File::Render(arg.gpu_id)) {
            return Err(Errno::EINVAL);
        }
        match state.vms.insert(arg.gpu_id, fd) {
            Some(other) if other != fd => {
                state.vms.insert(arg.gpu_id, other);
                Err(Errno::EBUSY)
            }
            _ => Ok(()),
        }
    }

    fn apertures(&self, arg: &mut GetApertures, pointed: &mut [u8]) -> Result<(), Errno> {
        let count = self.machine.gpus.len() as u32;
        if arg.num_of_nodes == 0 {
            arg.num_of_nodes = count;
            return Ok(());
        }
        // Newer kernels fill what there is.
        if arg.num_of_nodes > count + 1 && self.machine.release <= Release::V6_12 {
            return Err(Errno::EINVAL);
        }
        let base = if self.machine.release == Release::V6_1 { 0x4000 } else { 0x10000 };
        for (slot, gpu) in pointed.chunks_exact_mut(size_of::<Aperture>()).zip(&self.machine.gpus) {
            let aperture = Aperture {
                lds_base: 1 << 48,
                lds_limit: (1 << 48) + 0xffff_ffff,
                scratch_base: 2 << 48,
                scratch_limit: (2 << 48) + 0xffff_ffff,
                gpuvm_base: base,
                gpuvm_limit: 0x7FFF_FFFF_FFFF,
                gpu_id: gpu.gpu_id,
                pad: 0,
            };
            write(slot, &aperture);
        }
        arg.num_of_nodes = arg.num_of_nodes.min(count);
        Ok(())
    }

    fn drm_info(
        &self,
        gpu_id: u32,
        scheduler: Option<u32>,
        arg: &[u8],
        answer: &mut [u8],
    ) -> Result<(), Errno> {
        let info: sys::AmdgpuInfo = read(arg);
        let gpu = self.machine.gpus.iter().find(|gpu| gpu.gpu_id == gpu_id).ok_or(Errno::ENODEV)?;
        let mut full = [0u8; 440];
        let len = match info.query {
            sys::amdgpu_query::DEV_INFO => {
                full[28..32].copy_from_slice(&100_000u32.to_le_bytes());
                full[48..52].copy_from_slice(&gpu.chip.compute_units.to_le_bytes());
                full[136] = gpu.chip.is_apu.into();
                440
            }
            sys::amdgpu_query::MEMORY => {
                full[..8].copy_from_slice(&gpu.chip.vram.to_le_bytes());
                full[64..72].copy_from_slice(&self.machine.gtt.to_le_bytes());
                96
            }
            sys::amdgpu_query::FW_VERSION if info.rest[0] == sys::amdgpu_query::FW_MES => {
                full[..4].copy_from_slice(&scheduler.ok_or(Errno::EINVAL)?.to_le_bytes());
                8
            }
            _ => return Err(Errno::EINVAL),
        };
        let len = len.min(info.return_size as usize).min(answer.len());
        answer[..len].copy_from_slice(&full[..len]);
        Ok(())
    }

    fn kfd_call(
        &self,
        state: &mut State,
        request: Request,
        arg: &mut [u8],
        pointed: &mut [u8],
    ) -> Result<(), Errno> {
        match request {
            request::GET_VERSION => {
                write(arg, &GetVersion { major_version: 1, minor_version: self.minor(state) });
                Ok(())
            }
            request::GET_PROCESS_APERTURES_NEW => {
                let mut apertures = read(arg);
                let result = self.apertures(&mut apertures, pointed);
                write(arg, &apertures);
                result
            }
            request::ACQUIRE_VM => self.acquire_vm(state, read(arg)),
            request::GET_CLOCK_COUNTERS => {
                let mut clocks: GetClockCounters = read(arg);
                clocks.gpu_clock_counter =
                    if self.is_gpu(clocks.gpu_id) { state.calls.len() as u64 } else { 0 };
                clocks.system_clock_freq = 1_000_000_000;
                write(arg, &clocks);
                Ok(())
            }
            // Without a device there is none to ask; this driver makes these calls on none.
            request::SMI_EVENTS if self.is_gpu(read::<sys::SmiEvents>(arg).gpuid) => {
                state.next_fd += 1;
                state.files.insert(state.next_fd, File::Notices);
                write(arg, &sys::SmiEvents { anon_fd: state.next_fd as u32, ..read(arg) });
                Ok(())
            }
            request::SET_TRAP_HANDLER if self.is_gpu(read::<sys::SetTrapHandler>(arg).gpu_id) => {
                state.set_trap_handler(read(arg));
                Ok(())
            }
            request::SET_TRAP_HANDLER | request::SMI_EVENTS | request::SET_MEMORY_POLICY => {
                Err(Errno::EINVAL)
            }
            request::SET_XNACK_MODE if self.machine.release <= Release::V6_12 => Err(Errno::EPERM),
            request::SET_XNACK_MODE => Ok(()),
            request::RUNTIME_ENABLE if self.minor(state) < 13 => Err(Errno::ENOTTY),
            request::RUNTIME_ENABLE if state.queues.count() > 0 => Err(Errno::EEXIST),
            request::RUNTIME_ENABLE if state.is_runtime_enabled => Err(Errno::EBUSY),
            request::RUNTIME_ENABLE => {
                state.is_runtime_enabled = true;
                Ok(())
            }
            request::AVAILABLE_MEMORY if self.minor(state) < 9 => Err(Errno::ENOTTY),
            request::ALLOC_MEMORY_OF_GPU
            | request::FREE_MEMORY_OF_GPU
            | request::MAP_MEMORY_TO_GPU
            | request::UNMAP_MEMORY_FROM_GPU
            | request::AVAILABLE_MEMORY => memory::call(self, state, request, arg, pointed),
            request::CREATE_EVENT
            | request::DESTROY_EVENT
            | request::SET_EVENT
            | request::RESET_EVENT
            | request::WAIT_EVENTS => events::call(state, request, arg, pointed),
            request::CREATE_QUEUE | request::UPDATE_QUEUE | request::DESTROY_QUEUE => {
                queues::call(self, state, request, arg)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}

impl Kernel for Fake {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        let mut state = self.state();
        let file = if path == "/dev/kfd" {
            if let Some(errno) = state.injection.open {
                return Err(errno);
            }
            if self.machine.gpus.is_empty() && self.machine.release == Release::V7_2 {
                return Err(Errno::EINVAL);
            }
            File::Kfd
        } else {
            let render = path.strip_prefix("/dev/dri/renderD").and_then(|minor| minor.parse().ok());
            let gpu = self.machine.gpus.iter().find(|gpu| Some(gpu.render) == render);
            File::Render(gpu.ok_or(Errno::ENOENT)?.gpu_id)
        };
        state.next_fd += 1;
        let fd = state.next_fd;
        state.files.insert(fd, file);
        Ok(Fd::new(fd))
    }

    fn close(&self, fd: Fd) {
        assert!(self.state().files.remove(&fd.raw()).is_some(), "close of a file that is not open");
    }

    fn ioctl(&self, fd: &Fd, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.calls.push(request);
        if state.interrupted < state.injection.interruptions {
            state.interrupted += 1;
            memory::interrupt(state, request, arg, pointed);
            return Err(if state.interrupted.is_multiple_of(2) { Errno::EAGAIN } else { Errno::EINTR });
        }
        state.interrupted = 0;
        if let Some((refused, errno)) = state.injection.refuse
            && refused == request
        {
            return Err(errno);
        }
        match state.files.get(&fd.raw()) {
            None => Err(Errno::EBADF),
            Some(&File::Render(gpu_id)) if request == request::AMDGPU_INFO => {
                self.drm_info(gpu_id, state.injection.scheduler, arg, pointed)
            }
            Some(File::Render(_) | File::Notices) => Err(Errno::ENOTTY),
            Some(File::Kfd) => self.kfd_call(state, request, arg, pointed),
        }
    }

    fn guard(&self, window: &Window) -> Option<BusGuard> {
        self.state().injection.doorbells.as_ref()?;
        BusGuard::new(window)
    }

    fn guard_span(&self, span: &Span) -> Option<BusGuard> {
        BusGuard::span(span)
    }

    fn receive(&self, fd: &Fd, out: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state();
        assert_eq!(state.files.get(&fd.raw()), Some(&File::Notices));
        // A read ends wherever the reader's room does, in the middle of a line too.
        let count = state.notices.len().min(out.len()).min(7);
        for (byte, slot) in state.notices.drain(..count).zip(out) {
            *slot = byte;
        }
        if count == 0 { Err(Errno::EAGAIN) } else { Ok(count) }
    }

    fn send(&self, fd: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
        let mut state = self.state();
        assert_eq!(state.files.get(&fd.raw()), Some(&File::Notices));
        state.mask = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(8)
    }

    fn reserve(&self, len: usize, align: usize) -> Result<Span, Errno> {
        Span::reserve(len, align)
    }

    fn map(&self, fd: &Fd, offset: u64, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
        let mut state = self.state();
        match *state.files.get(&fd.raw()).ok_or(Errno::EBADF)? {
            File::Notices => Err(Errno::ENODEV),
            File::Render(gpu_id) => match &state.injection.memory {
                Some((bytes, path)) if *bytes == len => map_file(path, len, address),
                _ => state.memory.map(gpu_id, offset, len, address),
            },
            File::Kfd => match offset >> 62 {
                3 => {
                    let gpu_id = (offset >> 46 & 0xffff) as u32;
                    let index = self.machine.gpus.iter().position(|gpu| gpu.gpu_id == gpu_id);
                    let index = index.ok_or(Errno::ENODEV)?;
                    if len != 8192 || offset & 0x1fff != 0 {
                        return Err(Errno::EINVAL);
                    }
                    let window = match &state.injection.doorbells {
                        Some(path) => map_file(path, 8192, address)?,
                        None => self.doorbells.map(index * 8192, 8192, address)?,
                    };
                    state.doorbells.push((window.address(), gpu_id));
                    Ok(window)
                }
                // The kernel's own event page: slots of a process that brought none.
                2 if len <= 32768 => self.event_page.map(0, len, address),
                2 => Err(Errno::EINVAL),
                0 if len == 4096 => match &state.injection.registers {
                    Some(path) => map_file(path, 4096, address),
                    None => self.mmio.map(0, 4096, address),
                },
                _ => Err(Errno::EFAULT),
            },
        }
    }

    fn read(&self, path: &str, out: &mut [u8]) -> Result<usize, Errno> {
        if self.denied.lock().expect("denied").iter().any(|prefix| path.starts_with(prefix.as_str())) {
            return Err(Errno::EPERM);
        }
        let files = self.files.lock().expect("files");
        let text = files.get(path).ok_or(Errno::ENOENT)?.as_bytes();
        let count = text.len().min(out.len());
        out[..count].copy_from_slice(&text[..count]);
        Ok(count)
    }

    fn list(&self, path: &str, entry: &mut dyn FnMut(&str)) -> Result<(), Errno> {
        let prefix = format!("{path}/");
        let names: BTreeSet<String> = {
            let files = self.files.lock().expect("files");
            let below = files.keys().filter_map(|file| file.strip_prefix(&prefix));
            below.map(|rest| rest.split('/').next().unwrap_or(rest).to_owned()).collect()
        };
        // Lexical order, which is not numeric: callers have to sort.
        names.iter().for_each(|name| entry(name));
        if names.is_empty() { Err(Errno::ENOENT) } else { Ok(()) }
    }

    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        if let Some(stat) = self.stats.lock().expect("stats").get(path) {
            return Ok(*stat);
        }
        let files = self.files.lock().expect("files");
        let directory = format!("{path}/");
        let exists = files.keys().any(|file| file == path || file.starts_with(&directory));
        if exists { Ok(Stat { mode: 0o100_444, uid: 0, gid: 0 }) } else { Err(Errno::ENOENT) }
    }

    fn read_at(&self, fd: &Fd, offset: u64, window: &Window, range: Range<usize>) -> Result<usize, Errno> {
        // A file whose bytes are a function of their position: one mebibyte and a bit.
        let _ = self.state().files.get(&fd.raw());
        let size = (1u64 << 20) + 77;
        let left = usize::try_from(size.saturating_sub(offset)).map_err(|_| Errno::EINVAL)?;
        // Short reads are legal.
        let count = left.min(range.len()).min(100_000);
        let bytes: Vec<u8> = (0..count as u64).map(|at| file_byte(offset + at)).collect();
        window.write(range.start, &bytes);
        Ok(count)
    }

    fn ring(&self, doorbells: &Window, offset: usize, value: u64) {
        sys::store_fence();
        doorbells.store64(offset, value);
        let mut state = self.state();
        if state.injection.is_asleep {
            return;
        }
        let owner = state.doorbells.iter().rev().find(|window| window.0 == doorbells.address());
        let gpu = owner.expect("a doorbell window").1;
        processor::ring(self, &mut state, gpu, offset, value);
    }

    fn wait(&self, kfd: &Fd, args: &mut WaitEvents, events: &mut [EventData]) -> Result<(), Errno> {
        args.num_events = events.len() as u32;
        sys::call_pointed(self, kfd, args, bytemuck::cast_slice_mut(events))
    }
}

/// Byte `at` of the file that [`Kernel::read_at`] shows.
pub fn file_byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}
