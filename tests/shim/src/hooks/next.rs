//! The functions that would have been called without this library, and errno.
//!
//! Not here: the replaced functions.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use doorbell_kfd::sys::Errno;

/// A function of a library behind this one.
pub(super) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Versions of `dlsym` in the C libraries of Linux on x86-64 and arm64.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

/// The real `dlsym`, which this library replaces too.
pub(super) fn dlsym() -> *mut c_void {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    let mut found = FOUND.load(Ordering::Acquire);
    if found.is_null() {
        for version in VERSIONS.iter().filter(|_| FOUND.load(Ordering::Acquire).is_null()) {
            // SAFETY: C strings; the result is only an address.
            found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            if !found.is_null() {
                FOUND.store(found, Ordering::Release);
            }
        }
    }
    found
}

impl Next {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; null if there is none.
    pub(super) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        let real = dlsym();
        if !known.is_null() || real.is_null() {
            return known;
        }
        // SAFETY: the address is that of the C library's dlsym, which has this type.
        let real = unsafe { core::mem::transmute::<*mut c_void, Dlsym>(real) };
        // SAFETY: a C string; the result is only an address.
        let found = unsafe { real(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Release);
        found
    }
}

/// Sets errno.
pub(super) fn fail(errno: Errno) {
    // SAFETY: the C library gives every thread a valid address for it.
    unsafe { *libc::__errno_location() = errno.0 };
}
