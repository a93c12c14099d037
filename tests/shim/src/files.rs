//! A client's file descriptors that are devices of the software GPU.
//!
//! A device is an anonymous file, identified by its inode: duplicates are the same device, however they are made, and
//! closing needs no hook. Not here: calls on devices (`calls.rs`).

use crate::soft_gpu::soft_gpu;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
use doorbell_kfd::sys::{Errno, Fd, Kernel as _};
use std::sync::{PoisonError, RwLock};

/// A file of the client and the file of the kernel behind it.
struct Device {
    inode: (u64, u64),
    file: i32,
}

static DEVICES: RwLock<Vec<Device>> = RwLock::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

fn inode(fd: i32) -> Option<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes the struct, whose bytes were zero before: any value is valid.
    let stat =
        unsafe { (libc::syscall(libc::SYS_fstat, fd, stat.as_mut_ptr()) == 0).then(|| stat.assume_init())? };
    Some((stat.st_dev, stat.st_ino))
}

/// Opens a device for the client.
pub(crate) fn open(path: &CStr, flags: i32) -> Result<i32, Errno> {
    let gpu = soft_gpu();
    let name = path.to_str().map_err(|_| Errno::ENOENT)?;
    let lock = gpu.lock();
    let file = gpu.kernel.open(name)?;
    drop(lock);
    let close_on_exec = if flags & libc::O_CLOEXEC != 0 { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: the name is a C string; the flags are those of the call.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, path.as_ptr(), close_on_exec) } as i32;
    let inode = inode(fd).ok_or(Errno::EMFILE)?;
    DEVICES.write().unwrap_or_else(PoisonError::into_inner).push(Device { inode, file: file.raw() });
    ANY.store(true, Ordering::Release);
    Ok(fd)
}

/// The kernel's file behind a client's descriptor, if it is a device.
pub(crate) fn device(fd: i32) -> Option<Fd> {
    if fd < 0 || !ANY.load(Ordering::Acquire) {
        return None;
    }
    let inode = inode(fd)?;
    let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    devices.iter().rev().find(|device| device.inode == inode).map(|device| Fd::new(device.file))
}
