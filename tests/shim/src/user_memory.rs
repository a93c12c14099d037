//! The client's memory: copied as a kernel copies it, and mapped where the client wants it.
//!
//! Not here: the calls that copy (`calls.rs`).

use doorbell_kfd::sys::{Errno, Window};

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;
const PAGE: usize = 4096;

fn piece(base: *mut libc::c_void, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base, iov_len: len }
}

/// Copies from the client's address.
pub(crate) fn read(address: u64, out: &mut [u8]) -> Result<(), Errno> {
    if out.is_empty() {
        return Ok(());
    }
    let here = piece(out.as_mut_ptr().cast(), out.len());
    let there = piece(address as *mut libc::c_void, out.len());
    // SAFETY: `here` is `out`; whatever `there` is, the kernel checks it.
    let copied =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0) };
    if copied == out.len().cast_signed() { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Copies to the client's address.
pub(crate) fn write(address: u64, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    let here = piece(bytes.as_ptr().cast_mut().cast(), bytes.len());
    let there = piece(address as *mut libc::c_void, bytes.len());
    // SAFETY: `here` is `bytes`, which is only read; whatever `there` is, the kernel checks it. The client passed
    // the address to be written to.
    let copied =
        unsafe { libc::process_vm_writev(libc::getpid(), &raw const here, 1, &raw const there, 1, 0) };
    if copied == bytes.len().cast_signed() { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Copies all of the client's memory from an address on into the start of a window; zero pages stay untouched.
pub(crate) fn fill(window: &Window, address: u64, len: usize) -> Result<(), Errno> {
    let mut buffer = vec![0; CHUNK.min(len)];
    let mut done = 0;
    while done < len {
        let part = &mut buffer[..CHUNK.min(len - done)];
        read(address + done as u64, part)?;
        for (number, page) in part.chunks(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                window.write(done + number * PAGE, page);
            }
        }
        done += part.len();
    }
    Ok(())
}

/// Hands a mapping to the client: it stays, at the address that the client chose if it chose one.
pub(crate) fn give(window: Window, fixed: Option<u64>, protection: i32) -> Result<u64, Errno> {
    let (base, len) = (window.address() as *mut libc::c_void, window.len());
    core::mem::forget(window);
    let mut at = base;
    if let Some(address) = fixed {
        // SAFETY: the mapping is ours alone, nobody refers to it; what lies at the target is the client's, which
        // asked for its replacement.
        at = unsafe {
            libc::mremap(
                base,
                len,
                len,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                address as *mut libc::c_void,
            )
        };
        if at == libc::MAP_FAILED {
            // SAFETY: as above; nothing was moved.
            unsafe { libc::munmap(base, len) };
            return Err(Errno::EINVAL);
        }
    }
    // SAFETY: the mapping belongs to the client from here on, and has the protection that it asked for. Children of
    // a fork see it as they see other shared memory.
    unsafe {
        libc::madvise(at, len, libc::MADV_DOFORK);
        libc::mprotect(at, len, protection);
    }
    Ok(at as u64)
}
