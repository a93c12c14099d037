//! Functions that open devices, call them and map them.
//!
//! Everything else goes straight to the kernel. Not here: calls on devices (`calls.rs`).

use super::next::fail;
use super::paths::redirect;
use crate::calls::{self, Mapping};
use crate::files;
use crate::soft_gpu::soft_gpu;
use alloc::ffi::CString;
use core::ffi::CStr;
use doorbell_kfd::sys::Errno;
use libc::{c_char, c_int, c_long, c_ulong, c_void, mode_t, off_t, size_t};

fn is_device(path: &CStr) -> bool {
    let path = path.to_bytes();
    path == b"/dev/kfd" || path.starts_with(b"/dev/dri/renderD")
}

fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !path.is_null() {
        // SAFETY: the caller passes a C string, which lasts for the call.
        let name = unsafe { CStr::from_ptr(path) };
        // A listing asks for the folder that a name would be, so only plain opening is a device's.
        if is_device(name) && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 {
            return files::open(name, flags).unwrap_or_else(|errno| {
                fail(errno);
                -1
            });
        }
    }
    let replacement = redirect(path);
    let path = replacement.as_ref().map_or(path, |path| path.as_ptr());
    // SAFETY: the caller's arguments, but for the path, which lasts for the call.
    unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) as c_int }
}

/// Defines the spellings of open.
macro_rules! opening {
    ($($name:ident($($folder:ident)?),)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($folder: c_int,)? path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            let folder = libc::AT_FDCWD;
            $(let _ = folder; let folder = $folder;)?
            open_at(folder, path, flags, mode)
        }
    )*};
}

opening! { open(), open64(), __open_2(), __open64_2(), openat(at), openat64(at), __openat_2(at), __openat64_2(at), }

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int {
    let Some(file) = files::device(fd) else {
        // SAFETY: the caller's arguments.
        return unsafe { libc::syscall(libc::SYS_ioctl, fd, request, arg) as c_int };
    };
    match calls::ioctl(soft_gpu(), &file, request as u32, arg) {
        Ok(()) => 0,
        Err(errno) => {
            fail(errno);
            -1
        }
    }
}

pub(super) unsafe extern "C" fn map(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let Some(file) = files::device(fd) else {
        // SAFETY: the caller's arguments.
        let answer: c_long =
            unsafe { libc::syscall(libc::SYS_mmap, address, len, protection, flags, fd, offset) };
        return answer as *mut c_void;
    };
    let offset = offset.cast_unsigned();
    let mapping = Mapping { address: address as u64, len, protection, flags, offset };
    match calls::map(soft_gpu(), &file, &mapping) {
        Ok(address) => address as *mut c_void,
        Err(errno) => {
            fail(errno);
            libc::MAP_FAILED
        }
    }
}

/// Defines the spellings of mmap.
macro_rules! mapping {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            address: *mut c_void,
            len: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            // SAFETY: the caller's arguments.
            unsafe { map(address, len, protection, flags, fd, offset) }
        }
    )*};
}

mapping! { mmap mmap64 }

/// Closes, for libdrm's spelling of it.
pub(super) fn close(fd: c_int) -> c_int {
    // SAFETY: the caller's descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// Opens a render node.
pub(super) fn open_render(minor: c_int) -> Result<c_int, Errno> {
    let path = CString::new(format!("/dev/dri/renderD{minor}")).map_err(|_| Errno::EINVAL)?;
    files::open(&path, libc::O_RDWR | libc::O_CLOEXEC)
}
