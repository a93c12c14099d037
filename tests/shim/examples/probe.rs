//! A small foreign client: calls `/dev/kfd` through libc and prints what it sees, one fact a line.
//!
//! `tests/foreign/main.rs` runs it with the library preloaded and knows what it has to print.
#![expect(unsafe_code, reason = "calls libc as a foreign program does")]

use bytemuck::NoUninit;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use doorbell_kfd::sys::{
    AcquireVm, AllocMemory, CreateQueue, GetVersion, MapMemory, Request, alloc_flag, queue_type, request,
};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::time::Instant;

const PAGE: usize = 4096;

/// One ioctl: 0 or errno.
fn call<T: NoUninit>(fd: i32, request: Request, arg: &mut T) -> i32 {
    // SAFETY: every request takes a struct of this type.
    let answer = unsafe { libc::ioctl(fd, request.0.into(), core::ptr::from_mut(arg)) };
    if answer == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) }
}

fn open(path: &str) -> fs::File {
    fs::File::options().read(true).write(true).open(path).expect(path)
}

/// A page of anonymous memory.
fn page() -> *mut u8 {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping disturbs nothing.
    let page = unsafe { libc::mmap(core::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED, "no memory");
    page.cast()
}

/// A buffer of one page in system memory, mapped for the GPU and for us at the same address.
fn buffer(kfd: i32, render: &fs::File, gpu_id: u32) -> *mut u8 {
    let at = page();
    let flags = alloc_flag::GTT | alloc_flag::WRITABLE | alloc_flag::EXECUTABLE;
    let (va_addr, size) = (at as u64, PAGE as u64);
    let mut memory = AllocMemory { va_addr, size, gpu_id, flags, ..AllocMemory::default() };
    assert_eq!(call(kfd, request::ALLOC_MEMORY_OF_GPU, &mut memory), 0, "allocation");
    let device_ids_array_ptr = core::ptr::from_ref(&gpu_id) as u64;
    let mut map = MapMemory { handle: memory.handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
    assert_eq!(call(kfd, request::MAP_MEMORY_TO_GPU, &mut map), 0, "map");
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    let (file, offset) = (render.as_raw_fd(), memory.mmap_offset.cast_signed());
    // SAFETY: the page at this address is ours and nothing refers to it.
    let mapped = unsafe { libc::mmap(at.cast(), PAGE, protection, flags, file, offset) };
    assert_eq!(mapped, at.cast(), "mmap");
    at
}

/// A PM4 queue that stores one word, rung by a store to memory alone.
fn queue(kfd: i32, render: &fs::File, gpu_id: u32) {
    let [ring, pointers, result] = [(); 3].map(|()| buffer(kfd, render, gpu_id));
    let mut queue = CreateQueue {
        ring_base_address: ring as u64,
        write_pointer_address: pointers as u64 + 0x38,
        read_pointer_address: pointers as u64 + 0x80,
        ring_size: PAGE as u32,
        gpu_id,
        queue_type: queue_type::COMPUTE,
        queue_percentage: 100,
        queue_priority: 7,
        ..CreateQueue::default()
    };
    println!("queue {}", call(kfd, request::CREATE_QUEUE, &mut queue));
    let (protection, len) = (libc::PROT_READ | libc::PROT_WRITE, 2 * PAGE);
    let offset = (queue.doorbell_offset & !0x1fff).cast_signed();
    // SAFETY: a new mapping disturbs nothing.
    let doorbells =
        unsafe { libc::mmap(core::ptr::null_mut(), len, protection, libc::MAP_SHARED, kfd, offset) };
    assert_ne!(doorbells, libc::MAP_FAILED, "doorbells");
    // WRITE_DATA to memory: control, address, one word.
    let words = [0xc003_3700, 5 << 8 | 1 << 20, result as u64 as u32, (result as u64 >> 32) as u32, 77];
    let doorbell = doorbells.wrapping_byte_add((queue.doorbell_offset & 0x1fff) as usize);
    let end = Instant::now() + Duration::from_secs(60);
    // SAFETY: all of it is mapped and aligned; the GPU reads and writes it at any time, hence volatile.
    let (stored, read) = unsafe {
        for (index, word) in words.into_iter().enumerate() {
            ring.cast::<u32>().add(index).write_volatile(word);
        }
        pointers.add(0x38).cast::<u64>().write_volatile(words.len() as u64);
        fence(Ordering::SeqCst);
        doorbell.cast::<u64>().write_volatile(words.len() as u64);
        let consumed = pointers.add(0x80).cast::<u64>();
        while consumed.read_volatile() == 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        (result.cast::<u32>().read_volatile(), consumed.read_volatile())
    };
    println!("stored {stored} after {read} words");
}

fn main() {
    let names = fs::read_dir("/dev/dri").expect("/dev/dri").flatten().map(|entry| entry.file_name());
    println!("render nodes {:?}", names.collect::<Vec<_>>());
    let topology = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties";
    let properties = fs::read_to_string(topology).expect(topology);
    println!(
        "{}",
        properties.lines().find(|line| line.starts_with("gfx_target_version")).unwrap_or_default()
    );
    println!("hidden {}", fs::metadata("/sys/class/kfd/kfd/nothing").is_err());

    let kfd = open("/dev/kfd");
    let again = kfd.try_clone().expect("a duplicate");
    drop(kfd);
    let fd = again.as_raw_fd();
    let mut version = GetVersion::default();
    let errno = call(fd, request::GET_VERSION, &mut version);
    println!("version {errno} {}.{}", version.major_version, version.minor_version);
    println!("unknown {}", call(fd, Request(0xC028_4B82), &mut [0u64; 5]));

    let gpu_id = 0x1234;
    let own = page();
    // SAFETY: the page was just mapped and is used here alone.
    unsafe { own.write(42) };
    let flags = alloc_flag::USERPTR | alloc_flag::WRITABLE;
    let (va_addr, size) = (own as u64, PAGE as u64);
    let mut memory =
        AllocMemory { va_addr, size, mmap_offset: va_addr, gpu_id, flags, ..AllocMemory::default() };
    println!("without a VM {}", call(fd, request::ALLOC_MEMORY_OF_GPU, &mut memory));
    let render = open("/dev/dri/renderD128");
    let mut vm = AcquireVm { drm_fd: render.as_raw_fd().cast_unsigned(), gpu_id };
    println!("acquire {}", call(fd, request::ACQUIRE_VM, &mut vm));
    println!("own memory {}", call(fd, request::ALLOC_MEMORY_OF_GPU, &mut memory));
    // SAFETY: the page is mapped still, at the same address.
    println!("holds {}", unsafe { own.read() });
    let mut map = MapMemory { handle: memory.handle, n_devices: 1, ..MapMemory::default() };
    println!("bad pointer {}", call(fd, request::MAP_MEMORY_TO_GPU, &mut map));
    map.device_ids_array_ptr = core::ptr::from_ref(&gpu_id) as u64;
    println!("map {} done {}", call(fd, request::MAP_MEMORY_TO_GPU, &mut map), map.n_success);

    queue(fd, &render, gpu_id);

    // SAFETY: the child only calls ioctl and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut version = GetVersion::default();
        let errno = call(fd, request::GET_VERSION, &mut version);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(errno) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, the place is valid.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("in a child {}", libc::WEXITSTATUS(status));
}
