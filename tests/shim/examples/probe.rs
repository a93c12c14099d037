//! A small foreign client: calls `/dev/kfd` through libc and prints what it sees, one fact a line.
//!
//! `tests/foreign/main.rs` runs it with the library preloaded and knows what it has to print.
#![expect(unsafe_code, reason = "calls libc as a foreign program does")]

use bytemuck::NoUninit;
use doorbell_kfd::sys::{AcquireVm, AllocMemory, GetVersion, MapMemory, Request, alloc_flag, request};
use std::fs;
use std::os::fd::AsRawFd as _;

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
