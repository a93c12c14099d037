//! A client's ioctl or mmap on a device, as the kernel's entry code takes it.
//!
//! Source: `kfd_chardev.c:kfd_ioctl` (only the number selects the call; short arguments are filled with zeroes, long
//! ones cut). Not here: the calls themselves (doorbell-soft).

use crate::soft_gpu::SoftGpu;
use crate::{files, user_memory};
use core::time::Duration;
use doorbell_kfd::sys::{Errno, Fd, Kernel as _, PointerField, Request, alloc_flag, request, wait_result};
use std::time::Instant;

const PAGE: u64 = 4096;
/// Direction bits of a request word: the kernel reads, writes.
const READS: u32 = 1 << 30;
const WRITES: u32 = 2 << 30;
/// Elements behind a pointer, at most.
const MOST: usize = 1 << 16;
/// A wait that never ends.
const FOREVER: u32 = u32::MAX;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(slot) = bytes.get_mut(at..at + 4) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
}

/// One ioctl on a device.
pub(crate) fn ioctl(gpu: &'static SoftGpu, file: &Fd, sent: u32, address: u64) -> Result<(), Errno> {
    if !gpu.is_owner() {
        return Err(Errno::EBADF);
    }
    let sent = Request(sent);
    let known = Request::all().map(|(_, request)| request);
    let known = known.into_iter().find(|known| known.kind() == sent.kind() && known.nr() == sent.nr());
    let request = known.unwrap_or(sent);
    let mut arg = vec![0; request.size().max(sent.size())];
    if sent.0 & READS != 0 {
        user_memory::read(address, &mut arg[..sent.size()])?;
    }
    let result = run(gpu, file, request, &mut arg);
    if gpu.settings.trace {
        let outcome = result.map_or_else(|errno| errno.to_string(), |()| "0".to_owned());
        eprintln!("doorbell-shim: {} {:#010x} {outcome} {}", request.name(), sent.0, hex(&arg));
    }
    if sent.0 & WRITES != 0 {
        user_memory::write(address, &arg[..sent.size()])?;
    }
    result
}

fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = (0..bytes.len()).step_by(8).map(|at| format!("{:x}", long(bytes, at))).collect();
    words.join(" ")
}

/// Runs a call on copies of its data, with the parts that only a host can do.
fn run(gpu: &'static SoftGpu, file: &Fd, request: Request, arg: &mut [u8]) -> Result<(), Errno> {
    let pointed = request.pointer_field();
    let (pointer, len) = pointed.map_or(Ok((0, 0)), |pointed| extent(&pointed, arg))?;
    let mut data = vec![0; len];
    user_memory::read(pointer, &mut data)?;
    let result = match request {
        request::WAIT_EVENTS => return wait(gpu, file, arg, &mut data, pointer),
        request::ACQUIRE_VM => {
            let drm = files::device(word(arg, 0).cast_signed()).ok_or(Errno::EINVAL)?;
            put(arg, 0, drm.raw().cast_unsigned());
            call(gpu, file, request, arg, &mut data)
        }
        request::ALLOC_MEMORY_OF_GPU if word(arg, 36) & alloc_flag::USERPTR != 0 => {
            adopt(gpu, file, request, arg)
        }
        request::CREATE_QUEUE => {
            gpu.watch();
            call(gpu, file, request, arg, &mut data)
        }
        request::GET_CLOCK_COUNTERS => {
            let result = call(gpu, file, request, arg, &mut data);
            clocks(arg);
            result
        }
        _ => call(gpu, file, request, arg, &mut data),
    };
    if matches!(request, request::GET_PROCESS_APERTURES_NEW | request::AMDGPU_INFO) {
        user_memory::write(pointer, &data)?;
    }
    result
}

fn call(gpu: &SoftGpu, file: &Fd, request: Request, arg: &mut [u8], data: &mut [u8]) -> Result<(), Errno> {
    let _lock = gpu.lock();
    gpu.kernel.ioctl(file, request, arg, data)
}

/// Address and bytes of the data that an argument points at.
fn extent(pointed: &PointerField, arg: &[u8]) -> Result<(u64, usize), Errno> {
    let count = word(arg, pointed.count) as usize;
    if count > MOST {
        return Err(Errno::ENOMEM);
    }
    Ok((long(arg, pointed.pointer), count * pointed.element))
}

/// Waits by polling: time does not pass in the software kernel.
fn wait(gpu: &SoftGpu, file: &Fd, arg: &mut [u8], data: &mut [u8], pointer: u64) -> Result<(), Errno> {
    let timeout = word(arg, 16);
    let end = Instant::now().checked_add(Duration::from_millis(timeout.into()));
    let sent = arg.to_vec();
    loop {
        let lock = gpu.lock();
        let result = gpu.kernel.ioctl(file, request::WAIT_EVENTS, arg, data);
        let left = match end {
            _ if timeout >= FOREVER - 1 => Duration::MAX,
            Some(end) => end.saturating_duration_since(Instant::now()),
            None => Duration::MAX,
        };
        if result.is_err() || word(arg, 20) != wait_result::TIMEOUT || left.is_zero() {
            drop(lock);
            put(arg, 16, u32::try_from(left.as_millis()).unwrap_or(timeout));
            if result.is_ok() {
                user_memory::write(pointer, data)?;
            }
            return result;
        }
        gpu.sleep(lock, left);
        arg.copy_from_slice(&sent);
    }
}

/// USERPTR: the pages at the client's address become the allocation's, with what they hold.
fn adopt(gpu: &SoftGpu, file: &Fd, request: Request, arg: &mut [u8]) -> Result<(), Errno> {
    let (address, size) = (long(arg, 24), long(arg, 8));
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    call(gpu, file, request, arg, &mut [])?;
    let handle = long(arg, 16);
    let size = usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(PAGE as usize));
    let moved = size.ok_or(Errno::ENOMEM).and_then(|size| {
        let window = gpu.kernel.backing(handle)?;
        user_memory::fill(&window, address, size)?;
        user_memory::give(window, Some(address), libc::PROT_READ | libc::PROT_WRITE)
    });
    if moved.is_err() {
        call(gpu, file, request::FREE_MEMORY_OF_GPU, &mut handle.to_le_bytes(), &mut [])?;
    }
    moved.map(drop)
}

/// The CPU's clocks, in GET_CLOCK_COUNTERS.
fn clocks(arg: &mut [u8]) {
    for (at, clock) in [(8, libc::CLOCK_MONOTONIC_RAW), (16, libc::CLOCK_BOOTTIME)] {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the struct.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        let nanos = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        put(arg, at, nanos as u32);
        put(arg, at + 4, (nanos >> 32) as u32);
    }
}

/// Arguments of a client's mmap besides the file.
pub(crate) struct Mapping {
    /// Address, 0 for any.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) len: usize,
    /// PROT bits.
    pub(crate) protection: i32,
    /// MAP bits.
    pub(crate) flags: i32,
    /// Offset in the file.
    pub(crate) offset: u64,
}

/// One mmap of a device.
pub(crate) fn map(gpu: &SoftGpu, file: &Fd, mapping: &Mapping) -> Result<u64, Errno> {
    if !gpu.is_owner() {
        return Err(Errno::EBADF);
    }
    // Every mapping is of whole pages, whatever the caller says.
    let len = mapping.len.checked_next_multiple_of(PAGE as usize).ok_or(Errno::ENOMEM)?;
    let lock = gpu.lock();
    let window = gpu.kernel.map(file, mapping.offset, len, doorbell_kfd::sys::MapAddress::Anywhere);
    drop(lock);
    if gpu.settings.trace {
        let Mapping { address, len, offset, .. } = mapping;
        let outcome = window.as_ref().map_or_else(ToString::to_string, |_| "ok".to_owned());
        eprintln!("doorbell-shim: mmap {offset:#x} {len:#x} at {address:#x} {outcome}");
    }
    let fixed = (mapping.flags & libc::MAP_FIXED != 0).then_some(mapping.address);
    user_memory::give(window?, fixed, mapping.protection)
}
