//! Functions that take a path, which is replaced if it describes the machine.
//!
//! Not here: the replaced paths (`tree.rs`), opening devices (`devices.rs`).

use super::next::{Next, fail};
use crate::soft_gpu::soft_gpu;
use crate::tree::redirected;
use alloc::ffi::CString;
use core::ffi::CStr;
use doorbell_kfd::sys::Errno;
use libc::{DIR, FILE, c_char, c_int, c_uint, size_t, ssize_t};

/// The replacement of a caller's path, if there is one.
pub(super) fn redirect(path: *const c_char) -> Option<CString> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the callers of these functions pass a C string, which lasts for the call.
    redirected(unsafe { CStr::from_ptr(path) }, || soft_gpu().described())
}

/// Defines functions whose path is redirected before the next of the same name is called.
macro_rules! redirecting {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* @path $(, $after:ident: $after_type:ty)*) -> $answer:ty, $failed:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($before: $before_type,)* path: *const c_char $(, $after: $after_type)*) -> $answer {
            type Real = unsafe extern "C" fn($($before_type,)* *const c_char $(, $after_type)*) -> $answer;
            static NEXT: Next = Next::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name with a zero"),
                }
            );
            let next = NEXT.address();
            if next.is_null() {
                fail(Errno::ENOSYS);
                return $failed;
            }
            // SAFETY: the C library's function of this name has this type.
            let next = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Real>(next) };
            let replacement = redirect(path);
            let path = replacement.as_ref().map_or(path, |path| path.as_ptr());
            // SAFETY: the caller's arguments, but for the path, which lasts for the call.
            unsafe { next($($before,)* path $(, $after)*) }
        }
    )*};
}

redirecting! {
    fn fopen(@path, mode: *const c_char) -> *mut FILE, core::ptr::null_mut();
    fn fopen64(@path, mode: *const c_char) -> *mut FILE, core::ptr::null_mut();
    fn opendir(@path) -> *mut DIR, core::ptr::null_mut();
    fn access(@path, mode: c_int) -> c_int, -1;
    fn faccessat(folder: c_int, @path, mode: c_int, flags: c_int) -> c_int, -1;
    fn stat(@path, out: *mut libc::stat) -> c_int, -1;
    fn stat64(@path, out: *mut libc::stat64) -> c_int, -1;
    fn lstat(@path, out: *mut libc::stat) -> c_int, -1;
    fn lstat64(@path, out: *mut libc::stat64) -> c_int, -1;
    fn __xstat(version: c_int, @path, out: *mut libc::stat) -> c_int, -1;
    fn __xstat64(version: c_int, @path, out: *mut libc::stat64) -> c_int, -1;
    fn __lxstat(version: c_int, @path, out: *mut libc::stat) -> c_int, -1;
    fn __lxstat64(version: c_int, @path, out: *mut libc::stat64) -> c_int, -1;
    fn fstatat(folder: c_int, @path, out: *mut libc::stat, flags: c_int) -> c_int, -1;
    fn fstatat64(folder: c_int, @path, out: *mut libc::stat64, flags: c_int) -> c_int, -1;
    fn statx(folder: c_int, @path, flags: c_int, mask: c_uint, out: *mut libc::statx) -> c_int, -1;
    fn readlink(@path, out: *mut c_char, len: size_t) -> ssize_t, -1;
    fn readlinkat(folder: c_int, @path, out: *mut c_char, len: size_t) -> ssize_t, -1;
    fn realpath(@path, out: *mut c_char) -> *mut c_char, core::ptr::null_mut();
}
