//! The software kernel: files, mappings, doorbells, waits.
//!
//! The GPU runs only inside the calls that cause it: a doorbell or a wait. So time stands still between calls and
//! equal seeds give equal runs. Not here: the ioctls (`calls.rs`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use doorbell_kfd::sys::{
    Errno, EventData, Fd, HwException, Kernel, MapAddress, MemoryException, Request, Shared, Span, Stat,
    WaitEvents, Window, call_pointed, event_type, request, store_fence,
};

use spin::Mutex;

use super::events::{Events, SLOTS};
use super::files::files;
use super::inject::Injection;
use super::machine::{Machine, Release};
use super::queues::Queues;
use super::ranges::Ranges;
use crate::command::{CommandProcessor, Notice};
use crate::memory::Space;
use crate::processor::{Fault, Options, Profile, Report};

/// Kind of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum File {
    /// `/dev/kfd`.
    Kfd,
    /// A render node, by GPU.
    Render(u32),
}

/// One GPU with its address space.
pub(super) struct Device {
    pub(super) id: u32,
    pub(super) processor: CommandProcessor,
    pub(super) space: Space,
    /// Reset: nothing runs any more.
    pub(super) lost: bool,
}

/// Mutable state.
pub(super) struct State {
    pub(super) files: BTreeMap<i32, File>,
    next_fd: i32,
    pub(super) vms: BTreeMap<u32, i32>,
    pub(super) ranges: Ranges,
    pub(super) queues: Queues,
    pub(super) events: Events,
    pub(super) devices: Vec<Device>,
    pub(super) runtime_enabled: bool,
    pub(super) injection: Injection,
    interrupted: u32,
    doorbells: Vec<(u64, u32)>,
    /// All doorbells, if they are read from memory.
    pub(super) watched: Option<Window>,
    rings: u32,
}

/// A kernel with software GPUs.
pub struct SoftKernel {
    pub(super) machine: Machine,
    pub(super) files: BTreeMap<String, String>,
    pub(super) state: Mutex<State>,
    pub(super) doorbells: Shared,
    mmio: Shared,
    /// The kernel's own event page.
    event_page: Shared,
}

/// Bytes of one process's doorbells on one GPU.
pub(super) const DOORBELLS: usize = 8192;
const PAGE: usize = 4096;

impl SoftKernel {
    /// A kernel on a machine.
    ///
    /// # Errors
    ///
    /// If the host gives no memory.
    pub fn new(machine: Machine, options: &Options) -> Result<Self, Errno> {
        let devices = machine.gpus.iter().map(|gpu| Device {
            id: gpu.id,
            processor: CommandProcessor::new(gpu.chip.target, options.clone()),
            space: Space::new(),
            lost: false,
        });
        let state = State {
            files: BTreeMap::new(),
            next_fd: 0,
            vms: BTreeMap::new(),
            ranges: Ranges::default(),
            queues: Queues::default(),
            events: Events::default(),
            devices: devices.collect(),
            runtime_enabled: false,
            injection: Injection::default(),
            interrupted: 0,
            doorbells: Vec::new(),
            watched: None,
            rings: 0,
        };
        Ok(Self {
            files: files(&machine),
            doorbells: Shared::new(DOORBELLS * machine.gpus.len().max(1))?,
            mmio: Shared::new(PAGE)?,
            event_page: event_page()?,
            machine,
            state: Mutex::new(state),
        })
    }

    /// Changes the injected faults.
    pub fn inject(&self, change: impl FnOnce(&mut Injection)) {
        change(&mut self.state.lock().injection);
    }

    /// Begins a reset of every GPU: queues stop, and nothing can be opened.
    pub fn begin_reset(&self) {
        self.state.lock().reset();
    }

    /// Ends a reset: the GPUs can be opened again. Earlier queues stay stopped.
    pub fn end_reset(&self) {
        for device in &mut self.state.lock().devices {
            device.lost = false;
        }
    }

    /// Report of a GPU's dispatches so far.
    pub fn report(&self, gpu: u32) -> Option<Report> {
        let state = self.state.lock();
        state.devices.iter().find(|device| device.id == gpu).map(|device| device.processor.report.clone())
    }

    /// Counts of the dispatches of a GPU since the last call, oldest first, where [`Options::count`] is set. Times come
    /// from [`crate::processor::Model`].
    pub fn take_profiles(&self, gpu: u32) -> Vec<Profile> {
        let mut state = self.state.lock();
        let device = state.devices.iter_mut().find(|device| device.id == gpu);
        device.map(|device| device.processor.take_profiles()).unwrap_or_default()
    }

    /// Faults of waves on a GPU so far.
    pub fn faults(&self, gpu: u32) -> Vec<Fault> {
        let state = self.state.lock();
        let device = state.devices.iter().find(|device| device.id == gpu);
        device.map(|device| device.processor.faults.clone()).unwrap_or_default()
    }

    /// Allocations, queues and open files that are still held.
    pub fn held(&self) -> (usize, usize, usize) {
        let state = self.state.lock();
        (state.ranges.count(), state.queues.all.len(), state.files.len())
    }
}

impl State {
    /// Runs every queue as far as it goes, again and again while signals of one let another go on.
    pub(super) fn run(&mut self) {
        let mut moved = !self.is_past_doorbell(self.injection.hang_after);
        while moved {
            moved = false;
            let mut messages = Vec::new();
            let Self { queues, devices, events, .. } = self;
            for entry in queues.all.values_mut() {
                let Some(device) = devices.iter_mut().find(|device| device.id == entry.gpu && !device.lost)
                else {
                    continue;
                };
                let before = entry.queue.read;
                let notices = device.processor.run(&mut entry.queue, &mut device.space);
                moved |= entry.queue.read != before;
                let gpu = device.id;
                let mut faulted = false;
                for notice in notices {
                    match notice {
                        Notice::Interrupt(id) => events.interrupt(id),
                        Notice::Wave(message) => messages.push((gpu, message)),
                        Notice::PageFault { page, write, present } => {
                            let exception = page_fault(gpu, page, write, present);
                            events.raise(event_type::MEMORY, exception.encode());
                            faulted = true;
                        }
                    }
                }
                if faulted {
                    entry.queue.is_stopped = true;
                    device.lost = true;
                }
            }
            for (gpu, message) in messages {
                self.exception(gpu, message);
            }
        }
        // A fault evicts all queues of the process from the GPU; they never come back.
        for device in &mut self.devices {
            let lost = device.lost;
            for entry in self.queues.all.values_mut().filter(|entry| lost && entry.gpu == device.id) {
                entry.queue.is_stopped = true;
            }
        }
    }

    /// A reset of every GPU: memory is lost, queues stop.
    fn reset(&mut self) {
        for device in &mut self.devices {
            device.lost = true;
            let exception =
                HwException { reset_type: 0, reset_cause: 0, memory_lost: true, gpu_id: device.id };
            self.events.raise(event_type::HW_EXCEPTION, exception.encode());
        }
    }

    /// A page fault on every GPU.
    fn fault(&mut self) {
        for device in &mut self.devices {
            let page = self.ranges.first(device.id).map_or(0, |range| range.va);
            device.lost = true;
            self.events.raise(event_type::MEMORY, page_fault(device.id, page, false, false).encode());
        }
    }

    /// True if more than `after` doorbells have been rung.
    fn is_past_doorbell(&self, after: Option<u32>) -> bool {
        after.is_some_and(|after| self.rings > after)
    }

    pub(super) fn doorbell(&mut self, gpu: u32, offset: usize, value: u64) {
        for entry in self.queues.all.values_mut() {
            if entry.gpu == gpu && entry.doorbell == offset {
                entry.queue.rung = Some(value);
            }
        }
        self.rings += 1;
        if self.is_past_doorbell(self.injection.reset_after) {
            self.injection.reset_after = None;
            self.reset();
        }
        if self.is_past_doorbell(self.injection.fault_after) {
            self.injection.fault_after = None;
            self.fault();
        }
        if !self.injection.evicted {
            self.run();
        }
    }
}

/// An event page with every slot unsignalled.
fn event_page() -> Result<Shared, Errno> {
    let page = Shared::new(SLOTS as usize * 8)?;
    let window = page.map(0, page.len(), MapAddress::Anywhere)?;
    (0..SLOTS as usize).for_each(|slot| window.store64(slot * 8, u64::MAX));
    Ok(page)
}

/// The exception of a page fault.
fn page_fault(gpu_id: u32, page: u64, write: bool, present: bool) -> MemoryException {
    MemoryException {
        not_present: !present,
        read_only: write,
        no_execute: false,
        imprecise: false,
        va: page,
        gpu_id,
        error_type: 0,
    }
}

impl Kernel for SoftKernel {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        let mut state = self.state.lock();
        let file = if path == "/dev/kfd" {
            let refused = self.machine.gpus.is_empty() && self.machine.release == Release::V7_2;
            let resetting = state.devices.iter().any(|device| device.lost) && state.files.is_empty();
            if resetting && self.machine.release == Release::V6_1 {
                return Err(Errno::EAGAIN);
            }
            if refused || resetting {
                return Err(Errno::EINVAL);
            }
            File::Kfd
        } else {
            let minor = path.strip_prefix("/dev/dri/renderD").and_then(|minor| minor.parse::<u32>().ok());
            let gpu = self.machine.gpus.iter().find(|gpu| Some(gpu.render) == minor);
            File::Render(gpu.ok_or(Errno::ENOENT)?.id)
        };
        state.next_fd += 1;
        let number = state.next_fd;
        state.files.insert(number, file);
        Ok(Fd::new(number))
    }

    fn close(&self, fd: Fd) {
        self.state.lock().files.remove(&fd.raw());
    }

    fn ioctl(&self, fd: &Fd, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.interrupted < state.injection.interruptions {
            state.interrupted += 1;
            return Err(Errno::EINTR);
        }
        state.interrupted = 0;
        if let Some((refused, errno)) = state.injection.refuse
            && refused == request
        {
            return Err(errno);
        }
        if arg.len() < request.size() {
            return Err(Errno::EFAULT);
        }
        match state.files.get(&fd.raw()).copied() {
            None => Err(Errno::EBADF),
            Some(File::Render(gpu)) if request == request::AMDGPU_INFO => self.drm_info(gpu, arg, pointed),
            Some(File::Render(_)) => Err(Errno::ENOTTY),
            Some(File::Kfd) => self.call(state, request, arg, pointed),
        }
    }

    fn reserve(&self, len: usize, align: usize) -> Result<Span, Errno> {
        Span::reserve(len, align)
    }

    fn map(&self, fd: &Fd, offset: u64, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
        let mut state = self.state.lock();
        match state.files.get(&fd.raw()).copied().ok_or(Errno::EBADF)? {
            File::Render(gpu) => state.ranges.map(gpu, offset, len, address),
            File::Kfd => match offset >> 62 {
                3 => {
                    let gpu = (offset >> 46 & 0xffff) as u32;
                    let index = self.machine.gpus.iter().position(|device| device.id == gpu);
                    let index = index.ok_or(Errno::ENODEV)?;
                    if len != DOORBELLS || offset & 0x1fff != 0 {
                        return Err(Errno::EINVAL);
                    }
                    let window = self.doorbells.map(index * DOORBELLS, DOORBELLS, address)?;
                    state.doorbells.push((window.address(), gpu));
                    Ok(window)
                }
                2 if len > self.event_page.len() => Err(Errno::EINVAL),
                2 => self.event_page.map(0, len, address),
                0 if len == PAGE => self.mmio.map(0, PAGE, address),
                1 if self.machine.release == Release::V7_2 => Err(Errno::EINVAL),
                _ => Err(Errno::EFAULT),
            },
        }
    }

    fn read(&self, path: &str, out: &mut [u8]) -> Result<usize, Errno> {
        let text = self.files.get(path).ok_or(Errno::ENOENT)?.as_bytes();
        let count = text.len().min(out.len());
        out[..count].copy_from_slice(&text[..count]);
        Ok(count)
    }

    fn list(&self, path: &str, entry: &mut dyn FnMut(&str)) -> Result<(), Errno> {
        let prefix = format!("{path}/");
        let below = self.files.keys().filter_map(|file| file.strip_prefix(&prefix));
        let names: BTreeSet<String> =
            below.map(|rest| rest.split('/').next().unwrap_or(rest).to_string()).collect();
        names.iter().for_each(|name| entry(name));
        if names.is_empty() { Err(Errno::ENOENT) } else { Ok(()) }
    }

    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        let directory = format!("{path}/");
        let is_device = path == "/dev/kfd" || path.starts_with("/dev/dri/");
        let known = self.files.keys().any(|file| file == path || file.starts_with(&directory));
        match (is_device, known) {
            (true, _) => Ok(Stat { mode: 0o020_666, uid: 0, gid: 0 }),
            (false, true) => Ok(Stat { mode: 0o100_444, uid: 0, gid: 0 }),
            _ => Err(Errno::ENOENT),
        }
    }

    fn read_at(&self, _: &Fd, _: u64, _: &Window, _: Range<usize>) -> Result<usize, Errno> {
        // There are no ordinary files here: models are read by the host's kernel.
        Err(Errno::EBADF)
    }

    fn ring(&self, doorbells: &Window, offset: usize, value: u64) {
        store_fence();
        doorbells.store64(offset, value);
        let mut state = self.state.lock();
        let owner = state.doorbells.iter().rev().find(|window| window.0 == doorbells.address());
        if let Some((_, gpu)) = owner.copied() {
            state.doorbell(gpu, offset, value);
        }
    }

    fn wait(&self, kfd: &Fd, args: &mut WaitEvents, events: &mut [EventData]) -> Result<(), Errno> {
        args.num_events = u32::try_from(events.len()).map_err(|_| Errno::EINVAL)?;
        call_pointed(self, kfd, args, bytemuck::cast_slice_mut(events))
    }
}
