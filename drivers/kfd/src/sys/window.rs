//! Memory shared with a device: reserved address space ([`Span`]) and mapped pieces of it ([`Window`]).
//!
//! Every access is atomic or copies through atomics, because the other side changes the memory at any time.
//! The meaning of the bytes is the callers'.

use super::errno::Errno;
use alloc::sync::Arc;
use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Page size that mappings are measured in: 4 KiB, as KFD's checks assume.
pub(crate) const PAGE: usize = 4096;

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

#[derive(Debug)]
struct Reserved {
    base: NonNull<c_void>,
    len: usize,
}

// SAFETY: `Reserved` owns address space, which any thread may unmap.
unsafe impl Send for Reserved {}
// SAFETY: as above; it has no interior mutability.
unsafe impl Sync for Reserved {}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: `base..base+len` was reserved by `Span::reserve` for this value alone, and every `Window`
        // inside it holds a reference count on this value, so none is alive.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.len) };
    }
}

/// Address space that nothing else in the process uses; inaccessible until a [`Window`] is mapped into it.
/// Clones refer to the same reservation, which ends with the last clone and the last window.
#[derive(Clone, Debug)]
pub struct Span(Arc<Reserved>);

impl Span {
    /// Reserves `len` bytes (whole pages) at an address aligned to `align`, a power of two of at least a page.
    pub fn reserve(len: usize, align: usize) -> Result<Self, Errno> {
        if len == 0 || !len.is_multiple_of(PAGE) || !align.is_power_of_two() || align < PAGE {
            return Err(Errno::EINVAL);
        }
        let padded = len.checked_add(align).ok_or(Errno::ENOMEM)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice disturbs nothing.
        let raw = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                padded,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let skip = raw.addr().wrapping_neg() % align;
        let base = raw.wrapping_byte_add(skip);
        if skip != 0 {
            // SAFETY: the first `skip` bytes of the mapping just made, which is not in use yet.
            unsafe { rustix::mm::munmap(raw, skip) }?;
        }
        if align != skip {
            // SAFETY: the tail of the mapping just made, behind the `len` bytes that are kept.
            unsafe { rustix::mm::munmap(base.wrapping_byte_add(len), align - skip) }?;
        }
        let base = NonNull::new(base).ok_or(Errno::ENOMEM)?;
        Ok(Self(Arc::new(Reserved { base, len })))
    }

    /// First address.
    pub fn address(&self) -> u64 {
        self.0.base.as_ptr().addr() as u64
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Never: a span has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The address of a mapping.
#[derive(Clone, Copy, Debug)]
pub enum MapAddress<'a> {
    /// The kernel chooses.
    Anywhere,
    /// At a byte offset (whole pages) inside a reservation.
    At(&'a Span, usize),
}

#[derive(Debug)]
enum Release {
    /// Make the addresses inaccessible again; the count keeps the reservation alive.
    Restore(#[expect(dead_code, reason = "held for its reference count")] Arc<Reserved>),
    /// Give the addresses back.
    Unmap,
}

/// A piece of mapped memory that a device (or another mapping) shares.
///
/// Offsets out of bounds or misaligned panic: they are this program's own mistakes, never input.
#[derive(Debug)]
pub struct Window {
    base: NonNull<u8>,
    len: usize,
    release: Release,
}

// SAFETY: the memory is only ever touched through atomics.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Maps `len` bytes of a file, shared. The caller's file decides what the memory is.
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        address: MapAddress<'_>,
    ) -> Result<Self, Errno> {
        let len = len.checked_next_multiple_of(PAGE).filter(|&len| len != 0).ok_or(Errno::EINVAL)?;
        let (at, flags, release) = match address {
            MapAddress::Anywhere => (core::ptr::null_mut(), MapFlags::SHARED, Release::Unmap),
            MapAddress::At(span, start) => {
                let end = start.checked_add(len).ok_or(Errno::EINVAL)?;
                if end > span.len() || !start.is_multiple_of(PAGE) {
                    return Err(Errno::EINVAL);
                }
                let at = span.0.base.as_ptr().wrapping_byte_add(start);
                (at, MapFlags::SHARED | MapFlags::FIXED, Release::Restore(span.0.clone()))
            }
        };
        // SAFETY: either the kernel chooses free addresses, or the fixed range was checked to lie inside a
        // reservation that only windows use. Overlapping windows stay sound: all their accesses are atomic.
        let raw =
            unsafe { rustix::mm::mmap(at, len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset) }?;
        let base = NonNull::new(raw.cast()).ok_or(Errno::ENOMEM)?;
        let window = Self { base, len, release };
        // SAFETY: the range was mapped above; DONTFORK changes nothing for this process.
        let _ = unsafe { rustix::mm::madvise(raw, len, Advice::LinuxDontFork) };
        Ok(window)
    }

    /// First address: the GPU's too, as buffers keep one address on both sides.
    pub fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    /// Bytes, whole pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a window has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        let inside = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        assert!(inside && offset.is_multiple_of(align_of::<T>()), "offset {offset:#x} in {:#x}", self.len);
        // SAFETY: `offset` lies inside the mapping, as asserted.
        unsafe { self.base.byte_add(offset).cast() }
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds and aligned by `at`; mapped as long as `self`; only touched through atomics.
        unsafe { self.at::<AtomicU32>(offset).as_ref() }
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in bounds and aligned by `at`; mapped as long as `self`; only touched through atomics.
        unsafe { self.at::<AtomicU64>(offset).as_ref() }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: in bounds by `at`; mapped as long as `self`; only touched through atomics.
        unsafe { self.at::<AtomicU8>(offset).as_ref() }
    }

    /// Aligned 32-bit words of a piece of the window.
    pub fn words32(&self, offset: usize, count: usize) -> &[AtomicU32] {
        let end = count.checked_mul(4).and_then(|len| offset.checked_add(len));
        let inside = end.is_some_and(|end| end <= self.len);
        assert!(inside && offset.is_multiple_of(4), "{count} words at {offset:#x} in {:#x}", self.len);
        // SAFETY: in bounds and aligned, as asserted; mapped as long as `self`; only touched through atomics.
        unsafe { core::slice::from_raw_parts(self.base.byte_add(offset).cast().as_ptr(), count) }
    }

    /// Loads a 32-bit word (acquire).
    #[inline]
    pub fn load32(&self, offset: usize) -> u32 {
        self.word32(offset).load(Ordering::Acquire)
    }

    /// Loads a 64-bit word (acquire).
    #[inline]
    pub fn load64(&self, offset: usize) -> u64 {
        self.word64(offset).load(Ordering::Acquire)
    }

    /// Stores a 32-bit word (release).
    #[inline]
    pub fn store32(&self, offset: usize, value: u32) {
        self.word32(offset).store(value, Ordering::Release);
    }

    /// Stores a 64-bit word (release).
    #[inline]
    pub fn store64(&self, offset: usize, value: u64) {
        self.word64(offset).store(value, Ordering::Release);
    }

    /// Subtracts from a 64-bit word, wrapping, and returns the value before: how a packet processor counts down.
    pub fn fetch_sub64(&self, offset: usize, value: u64) -> u64 {
        self.word64(offset).fetch_sub(value, Ordering::AcqRel)
    }

    /// Copies `bytes` in, in ascending order, eight at a time where aligned (so that write-combined memory is
    /// written in full lines). Not one atomic unit; publish with a releasing store afterwards.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "write {offset:#x} in {:#x}", self.len);
        let head = (offset.wrapping_neg() % 8).min(bytes.len());
        let (first, rest) = bytes.split_at(head);
        let (words, last) = rest.as_chunks::<8>();
        let mut at = offset;
        for &byte in first {
            self.byte(at).store(byte, Ordering::Relaxed);
            at += 1;
        }
        for &word in words {
            self.word64(at).store(u64::from_ne_bytes(word), Ordering::Relaxed);
            at += 8;
        }
        for &byte in last {
            self.byte(at).store(byte, Ordering::Relaxed);
            at += 1;
        }
    }

    /// Copies bytes out, eight at a time where aligned; not one atomic unit.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let end = offset.checked_add(out.len());
        assert!(end.is_some_and(|end| end <= self.len), "read {offset:#x} in {:#x}", self.len);
        let head = (offset.wrapping_neg() % 8).min(out.len());
        let (first, rest) = out.split_at_mut(head);
        let (words, last) = rest.as_chunks_mut::<8>();
        let mut at = offset;
        for byte in first {
            *byte = self.byte(at).load(Ordering::Relaxed);
            at += 1;
        }
        for word in words {
            *word = self.word64(at).load(Ordering::Relaxed).to_ne_bytes();
            at += 8;
        }
        for byte in last {
            *byte = self.byte(at).load(Ordering::Relaxed);
            at += 1;
        }
        fence(Ordering::Acquire);
    }

    /// Reads a file into a piece of this window by one `pread`.
    pub(super) fn read_file(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        range: core::ops::Range<usize>,
    ) -> Result<usize, Errno> {
        if range.start > range.end || range.end > self.len {
            return Err(Errno::EINVAL);
        }
        let buffer = core::ptr::slice_from_raw_parts_mut(
            self.base.as_ptr().wrapping_byte_add(range.start).cast::<core::mem::MaybeUninit<u8>>(),
            range.end - range.start,
        );
        // SAFETY: the range lies inside the mapping. The kernel writes it during the call only; a device or
        // thread that reads it meanwhile does so by atomics and may see old or new bytes.
        let (filled, _) = rustix::io::pread(fd, unsafe { &mut *buffer }, offset)?;
        Ok(filled.len())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let base = self.base.as_ptr().cast();
        match self.release {
            // SAFETY: the range belongs to a reservation and this window mapped it; making it inaccessible
            // leaves no dangling access but a clean fault.
            Release::Restore(_) => unsafe {
                let _ = rustix::mm::mmap_anonymous(
                    base,
                    self.len,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
                );
            },
            // SAFETY: this window mapped the range at an address of the kernel's choice and owns it.
            Release::Unmap => unsafe {
                let _ = rustix::mm::munmap(base, self.len);
            },
        }
    }
}

/// Orders all earlier stores, write-combined ones included, before all later ones.
#[inline]
pub fn store_fence() {
    fence(Ordering::SeqCst);
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: SFENCE is part of the x86-64 baseline.
        #[allow(unused_unsafe, reason = "the intrinsic is safe on newer compilers")]
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
    }
}
