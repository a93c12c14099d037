//! The kernel's error numbers, with names. What each means for a given call is in `doctor`.

use core::fmt;

/// A Linux error number (`asm-generic/errno-base.h`, `errno.h`), positive.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal: $text:literal,)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($value);)*
        }
        const NAMES: &[(i32, &str, &str)] = &[$(($value, stringify!($name), $text),)*];
    };
}

errnos! {
    EPERM = 1: "operation not permitted",
    ENOENT = 2: "no such file or directory",
    ESRCH = 3: "no such process",
    EINTR = 4: "interrupted by a signal",
    EIO = 5: "input/output error",
    EBADF = 9: "bad file descriptor",
    EAGAIN = 11: "try again",
    ENOMEM = 12: "out of memory",
    EACCES = 13: "permission denied",
    EFAULT = 14: "bad address",
    EBUSY = 16: "device or resource busy",
    EEXIST = 17: "exists already",
    ENODEV = 19: "no such device",
    ENOTDIR = 20: "not a directory",
    EINVAL = 22: "invalid argument",
    ENFILE = 23: "too many open files in the system",
    EMFILE = 24: "too many open files in the process",
    ENOTTY = 25: "the kernel does not know this request",
    ENOSPC = 28: "no space left",
    ENOSYS = 38: "the kernel does not have this call",
    ENAMETOOLONG = 36: "name too long",
    ETIME = 62: "timer expired",
    EOVERFLOW = 75: "value too large",
    EOPNOTSUPP = 95: "operation not supported",
    EADDRINUSE = 98: "address in use",
    ETIMEDOUT = 110: "timed out",
    ENOTSUPP = 524: "operation not supported (kernel-internal number)",
}

impl Errno {
    fn row(self) -> Option<&'static (i32, &'static str, &'static str)> {
        NAMES.iter().find(|row| row.0 == self.0)
    }

    /// The symbolic name, e.g. `EINVAL`; `errno` for a number this crate has no row for.
    pub fn name(self) -> &'static str {
        self.row().map_or("errno", |row| row.1)
    }

    /// The meaning of the number by itself, in a few words.
    pub fn text(self) -> &'static str {
        self.row().map_or("unknown error", |row| row.2)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name(), self.0, self.text())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl core::error::Error for Errno {}
