//! An open file that closes itself. Which files are opened is decided elsewhere.

use crate::sys::{Errno, Fd, Kernel};
use core::fmt;

pub(crate) struct OpenFile<'k> {
    kernel: &'k dyn Kernel,
    fd: Fd,
}

impl<'k> OpenFile<'k> {
    pub(crate) fn open(kernel: &'k dyn Kernel, path: &str) -> Result<Self, Errno> {
        Ok(Self { kernel, fd: kernel.open(path)? })
    }

    /// Takes a file that a request has opened.
    pub(crate) fn adopt(kernel: &'k dyn Kernel, fd: Fd) -> Self {
        Self { kernel, fd }
    }

    pub(crate) fn kernel(&self) -> &'k dyn Kernel {
        self.kernel
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }
}

impl Drop for OpenFile<'_> {
    fn drop(&mut self) {
        self.kernel.close(Fd::new(self.fd.raw()));
    }
}

impl fmt::Debug for OpenFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fd)
    }
}
