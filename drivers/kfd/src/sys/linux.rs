//! The real kernel, by raw system calls. Retries and policy are not here.

use super::abi::{AllocMemory, alloc_flag};
use super::bus_error::BusGuard;
use super::errno::Errno;
use super::kernel::{Fd, Kernel, Stat};
use super::request::{self, Request};
use super::window::{MapAddress, Span, Window};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Range;
use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

/// The Linux kernel this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

struct Raw<'a> {
    request: Request,
    arg: &'a mut [u8],
}

// SAFETY: the argument is a live, writable buffer of at least `request.size()` bytes and its pointer field, if
// the request has one, refers to a live buffer of at least the counted size; `Linux::ioctl` checks both.
unsafe impl Ioctl for Raw<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.request.0
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.arg.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

fn borrow(fd: &Fd) -> Result<BorrowedFd<'_>, Errno> {
    if fd.raw() < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: not negative; the file is open until `Kernel::close` consumes the `Fd`, which is borrowed here.
    Ok(unsafe { BorrowedFd::borrow_raw(fd.raw()) })
}

/// Writes the address of `pointed` into the argument after checking that the counted elements fit it.
fn link(request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
    if !request.is_known() || arg.len() < request.size() {
        return Err(Errno::EINVAL);
    }
    if request == request::ALLOC_MEMORY_OF_GPU {
        let alloc: AllocMemory = bytemuck::pod_read_unaligned(&arg[..size_of::<AllocMemory>()]);
        // Caller-owned memory would let a device write where Rust has exclusive references.
        if alloc.flags & alloc_flag::USERPTR != 0 {
            return Err(Errno::EINVAL);
        }
    }
    let Some(shape) = request.pointer_field() else { return Ok(()) };
    let count: u32 = bytemuck::pod_read_unaligned(&arg[shape.count..shape.count + 4]);
    let needed = usize::try_from(count).ok().and_then(|count| count.checked_mul(shape.element));
    if needed.is_none_or(|needed| needed > pointed.len()) {
        return Err(Errno::EINVAL);
    }
    let address = pointed.as_mut_ptr().expose_provenance() as u64;
    arg[shape.pointer..shape.pointer + 8].copy_from_slice(&address.to_ne_bytes());
    Ok(())
}

fn open(path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?)
}

impl Kernel for Linux {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        Ok(Fd::new(open(path, OFlags::RDWR)?.into_raw_fd()))
    }

    fn close(&self, fd: Fd) {
        if fd.raw() >= 0 {
            // SAFETY: the `Fd` is consumed, so the number is not used afterwards.
            unsafe { rustix::io::close(fd.raw()) };
        }
    }

    fn ioctl(&self, fd: &Fd, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
        link(request, arg, pointed)?;
        // SAFETY: `link` checked the argument's size, its pointer field and the size behind it, and refuses
        // requests that are not in the table.
        unsafe { rustix::ioctl::ioctl(borrow(fd)?, Raw { request, arg }) }?;
        Ok(())
    }

    fn reserve(&self, len: usize, align: usize) -> Result<Span, Errno> {
        Span::reserve(len, align)
    }

    fn map(&self, fd: &Fd, offset: u64, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
        Window::map(borrow(fd)?, offset, len, address)
    }

    fn guard(&self, window: &Window) -> Option<BusGuard> {
        BusGuard::new(window)
    }

    fn guard_span(&self, span: &Span) -> Option<BusGuard> {
        BusGuard::span(span)
    }

    fn read(&self, path: &str, out: &mut [u8]) -> Result<usize, Errno> {
        let file = open(path, OFlags::RDONLY)?;
        let mut filled = 0;
        while filled < out.len() {
            match rustix::io::read(&file, &mut out[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(filled)
    }

    fn list(&self, path: &str, entry: &mut dyn FnMut(&str)) -> Result<(), Errno> {
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(next) = entries.next() {
            if let Ok(name) = next?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                entry(name);
            }
        }
        Ok(())
    }

    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        let stat = rustix::fs::stat(path)?;
        Ok(Stat { mode: stat.st_mode, uid: stat.st_uid, gid: stat.st_gid })
    }

    fn receive(&self, fd: &Fd, out: &mut [u8]) -> Result<usize, Errno> {
        Ok(rustix::io::read(borrow(fd)?, out)?)
    }

    fn send(&self, fd: &Fd, bytes: &[u8]) -> Result<usize, Errno> {
        Ok(rustix::io::write(borrow(fd)?, bytes)?)
    }

    fn read_at(&self, fd: &Fd, offset: u64, window: &Window, range: Range<usize>) -> Result<usize, Errno> {
        loop {
            match window.read_file(borrow(fd)?, offset, range.clone()) {
                Err(Errno::EINTR) => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shared;
    use super::*;

    #[test]
    fn windows_of_one_shared_file_show_each_others_stores() {
        let shared = Shared::new(8192).expect("memfd");
        let span = Linux.reserve(1 << 21, 1 << 21).expect("address space");
        assert_eq!(span.address() % (1 << 21), 0);
        let here = shared.map(0, 8192, MapAddress::At(&span, 4096)).expect("map");
        let there = shared.map(0, 8192, MapAddress::Anywhere).expect("map");
        assert_eq!(here.address(), span.address() + 4096);
        let bytes: [u8; 29] = core::array::from_fn(|i| i as u8 + 1);
        here.write(4091, &bytes);
        let mut back = [0; 29];
        there.read(4091, &mut back);
        assert_eq!(back, bytes);
        there.store64(8, 7);
        assert_eq!(here.fetch_sub64(8, 9), 7);
        assert_eq!(there.load64(8), u64::MAX - 1);
        drop(here);
        let again = shared.map(4096, 4096, MapAddress::At(&span, 0)).expect("map");
        assert_eq!(again.load32(0), there.load32(4096));
        assert!(shared.map(0, 8192, MapAddress::At(&span, (1 << 21) - 4096)).is_err());
        assert!(shared.map(8192, 4096, MapAddress::Anywhere).is_err());
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        let fd = Linux.open("/dev/null").expect("null device");
        let mut arg = [0; 96];
        let unknown = Request(0xC010_4B24);
        assert_eq!(Linux.ioctl(&fd, unknown, &mut arg, &mut []), Err(Errno::EINVAL));
        assert_eq!(Linux.ioctl(&fd, request::CREATE_QUEUE, &mut arg[..95], &mut []), Err(Errno::EINVAL));
        arg[8] = 2;
        let mut one_event = [0; 48];
        assert_eq!(Linux.ioctl(&fd, request::WAIT_EVENTS, &mut arg, &mut one_event), Err(Errno::EINVAL));
        arg[8] = 1;
        assert_eq!(Linux.ioctl(&fd, request::WAIT_EVENTS, &mut arg, &mut one_event), Err(Errno::ENOTTY));
        arg[36] = 4;
        assert_eq!(Linux.ioctl(&fd, request::ALLOC_MEMORY_OF_GPU, &mut arg, &mut []), Err(Errno::EINVAL));
        Linux.close(fd);
        assert_eq!(Linux.open("/no/such/file"), Err(Errno::ENOENT));
    }

    #[test]
    fn files_and_directories_are_read() {
        let mut text = [0; 64];
        let count = Linux.read("/proc/sys/kernel/ostype", &mut text).expect("procfs");
        assert_eq!(&text[..count], b"Linux\n");
        let mut found = false;
        Linux.list("/proc/self", &mut |name| found |= name == "status").expect("procfs");
        assert!(found);
        assert_eq!(Linux.stat("/").expect("root").uid, 0);
        let fd = Linux.open("/dev/null").expect("null device");
        assert_eq!((Linux.send(&fd, b"text"), Linux.receive(&fd, &mut [0; 8])), (Ok(4), Ok(0)));
        Linux.close(fd);
        let fd = Linux.open("/dev/zero").expect("zero device");
        let shared = Shared::new(4096).expect("memfd");
        let window = shared.map(0, 4096, MapAddress::Anywhere).expect("map");
        window.store32(0, 5);
        assert_eq!(Linux.read_at(&fd, 0, &window, 0..16), Ok(16));
        assert_eq!(window.load32(0), 0);
        assert_eq!(Linux.read_at(&fd, 0, &window, 0..4097), Err(Errno::EINVAL));
        Linux.close(fd);
    }
}
