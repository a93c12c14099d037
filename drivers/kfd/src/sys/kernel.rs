//! The system-call seam: what this crate asks of a kernel. [`super::Linux`] is one, a software GPU another.
//!
//! Memory that a device shares is reached through [`Window`]s, which are real memory in either case; only what a
//! software kernel has to notice (a doorbell store, a wait) is a call here.

use super::abi::{EventData, WaitEvents};
use super::bus_error::BusGuard;
use super::errno::Errno;
use super::request::{Request, WAIT_EVENTS};
use super::retry::retry;
use super::window::{MapAddress, Span, Window};
use core::fmt;
use core::ops::Range;

/// An open file of a [`Kernel`]. It is closed by [`Kernel::close`], not by dropping.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd {
    raw: i32,
}

impl Fd {
    /// Wraps the number that a kernel gave out. The file must stay open until the value is closed or forgotten.
    pub const fn new(raw: i32) -> Self {
        Self { raw }
    }

    /// The number.
    pub const fn raw(&self) -> i32 {
        self.raw
    }
}

impl fmt::Display for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd {}", self.raw)
    }
}

/// Owner and permission of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `st_mode`: type and permission bits.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
}

/// The calls this crate makes. All methods may be called from any thread.
pub trait Kernel: Sync {
    /// Opens `path` for reading and writing, close-on-exec.
    fn open(&self, path: &str) -> Result<Fd, Errno>;

    /// Closes a file.
    fn close(&self, fd: Fd);

    /// One ioctl, not repeated. `arg` is the argument struct's bytes, at least [`Request::size`] of them;
    /// `pointed` is what the struct's pointer field refers to (empty when the request has none). The
    /// implementation stores the pointer itself; the caller has set the count.
    fn ioctl(&self, fd: &Fd, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno>;

    /// Reserves `len` bytes of address space, aligned to `align` (a power of two), that nothing else will use.
    fn reserve(&self, len: usize, align: usize) -> Result<Span, Errno>;

    /// Maps `len` bytes of `fd` at its file offset `offset`, shared, readable and writable.
    fn map(&self, fd: &Fd, offset: u64, len: usize, address: MapAddress<'_>) -> Result<Window, Errno>;

    /// Ends a mapping; inside a [`Span`] the addresses become inaccessible again.
    fn unmap(&self, window: Window) {
        drop(window);
    }

    /// Keeps accesses to a window from ending the program when the kernel takes its pages away; `None` where that
    /// does not happen.
    fn guard(&self, window: &Window) -> Option<BusGuard> {
        let _ = window;
        None
    }

    /// The same for every window that is or will be mapped into a reservation.
    fn guard_span(&self, span: &Span) -> Option<BusGuard> {
        let _ = span;
        None
    }

    /// Reads a small file from its start and returns the bytes read; the rest is cut.
    fn read(&self, path: &str, out: &mut [u8]) -> Result<usize, Errno>;

    /// Calls `entry` with each name in a directory except `.` and `..`, in no order. It may call the kernel.
    fn list(&self, path: &str, entry: &mut dyn FnMut(&str)) -> Result<(), Errno>;

    /// Owner and permission of a path, links followed.
    fn stat(&self, path: &str) -> Result<Stat, Errno>;

    /// Reads from `fd` at `offset` straight into `window[range]` and returns the bytes read, 0 at the end.
    fn read_at(&self, fd: &Fd, offset: u64, window: &Window, range: Range<usize>) -> Result<usize, Errno>;

    /// Reads what an open stream has now, and does not wait: `EAGAIN` when it has nothing.
    fn receive(&self, fd: &Fd, out: &mut [u8]) -> Result<usize, Errno> {
        let _ = (fd, out);
        Err(Errno::ENOTTY)
    }

    /// Writes to an open stream.
    fn send(&self, fd: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
        let _ = (fd, bytes);
        Err(Errno::ENOTTY)
    }

    /// Stores a doorbell: one 64-bit store after everything the caller stored before, write-combined stores
    /// included.
    fn ring(&self, doorbells: &Window, offset: usize, value: u64) {
        super::window::store_fence();
        doorbells.store64(offset, value);
    }

    /// WAIT_EVENTS: sleeps until one of `events` (or all, by `args.wait_for_all`) is set or `args.timeout`
    /// milliseconds are over; repeats after signals with what is left of the time.
    fn wait(&self, kfd: &Fd, args: &mut WaitEvents, events: &mut [EventData]) -> Result<(), Errno> {
        args.num_events = u32::try_from(events.len()).map_err(|_| Errno::EINVAL)?;
        retry(WAIT_EVENTS, bytemuck::bytes_of_mut(args), |args| {
            self.ioctl(kfd, WAIT_EVENTS, args, bytemuck::cast_slice_mut(events))
        })
    }
}
