//! `dlsym`: a caller that looks a function up in the C library itself gets ours too.
//!
//! Source: python's ctypes looks functions up in a library's own handle. Not here: the functions.

use super::devices::map;
use super::next;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// Address of the real `dlsym`, once it was looked up.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Returns our function of a name, or null.
unsafe extern "C" fn replaced(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    REAL.store(next::dlsym(), Ordering::Release);
    if name.is_null() || handle == libc::RTLD_NEXT {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller passes a C string.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"mmap" | b"mmap64" => map as *mut c_void,
        _ => core::ptr::null_mut(),
    }
}

// The real one finds its caller by the return address, so it is jumped to.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {replaced}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 2f",
        "mov rax, qword ptr [rip + {real}]",
        "jmp rax",
        "2:",
        "ret",
        replaced = sym replaced,
        real = sym REAL,
    )
}
