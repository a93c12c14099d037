//! A kernel over the software one on which files, permissions and answers can be changed.

use core::ops::Range;
use doorbell_kfd::sys::{
    Errno, EventData, Fd, Kernel, MapAddress, Request, Span, Stat, WaitEvents, Window, amdgpu_query, request,
};
use doorbell_soft::kernel::SoftKernel;
use std::collections::BTreeMap;

/// A replacement for the contents of a path.
#[derive(Clone, Debug)]
pub(crate) enum Instead {
    /// This text.
    Text(String),
    /// Nothing: it and everything below isn't there.
    Missing,
    /// An error at reading or opening, with the path still there.
    Refused(Errno),
    /// A device node with this mode and group, which can't be opened for the reason given.
    Node(u32, u32, Errno),
}

/// The kernel with changes.
pub(crate) struct Broken<'s> {
    soft: &'s SoftKernel,
    paths: BTreeMap<String, Instead>,
    /// The minor number that GET_VERSION returns instead of the release's own.
    pub(crate) minor: Option<u32>,
    /// The scheduler firmware that render nodes report.
    pub(crate) scheduler: Option<u32>,
}

impl<'s> Broken<'s> {
    /// The software kernel with what every Linux system has beside KFD.
    pub(crate) fn new(soft: &'s SoftKernel) -> Self {
        let mut this = Self { soft, paths: BTreeMap::new(), minor: None, scheduler: None };
        this.text(
            "/proc/self/status",
            "Name:\tdoorbell\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 100\n",
        );
        this.text("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:992:\n");
        this.text("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n");
        this.text("/proc/sys/kernel/osrelease", "test-release\n");
        this
    }

    /// Gives a path another meaning.
    pub(crate) fn set(&mut self, path: &str, instead: Instead) {
        self.paths.insert(path.to_owned(), instead);
    }

    /// A file with this text.
    pub(crate) fn text(&mut self, path: &str, text: &str) {
        self.set(path, Instead::Text(text.to_owned()));
    }

    /// The replacement for a path or a folder that it is in.
    fn instead(&self, path: &str) -> Option<&Instead> {
        let below = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let folder = self.paths.iter().find(|(folder, instead)| {
            below(folder) && matches!(instead, Instead::Missing | Instead::Refused(_))
        });
        self.paths.get(path).or(folder.map(|entry| entry.1))
    }
}

impl Kernel for Broken<'_> {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        match self.instead(path) {
            Some(Instead::Missing) => Err(Errno::ENOENT),
            Some(Instead::Refused(errno) | Instead::Node(_, _, errno)) => Err(*errno),
            _ => self.soft.open(path),
        }
    }

    fn close(&self, fd: Fd) {
        self.soft.close(fd);
    }

    fn ioctl(&self, fd: &Fd, request: Request, arg: &mut [u8], pointed: &mut [u8]) -> Result<(), Errno> {
        let word = |at: usize, arg: &[u8]| u32::from_le_bytes(*arg[at..].first_chunk().unwrap());
        if request == request::AMDGPU_INFO && word(12, arg) == amdgpu_query::FW_VERSION {
            let version = self.scheduler.ok_or(Errno::EINVAL)?;
            pointed[..4].copy_from_slice(&version.to_le_bytes());
            return Ok(());
        }
        self.soft.ioctl(fd, request, arg, pointed)?;
        if let (request::GET_VERSION, Some(minor)) = (request, self.minor) {
            arg[4..8].copy_from_slice(&minor.to_le_bytes());
        }
        Ok(())
    }

    fn reserve(&self, len: usize, align: usize) -> Result<Span, Errno> {
        self.soft.reserve(len, align)
    }

    fn map(&self, fd: &Fd, offset: u64, len: usize, address: MapAddress<'_>) -> Result<Window, Errno> {
        self.soft.map(fd, offset, len, address)
    }

    fn read(&self, path: &str, out: &mut [u8]) -> Result<usize, Errno> {
        match self.instead(path) {
            Some(Instead::Text(text)) => {
                let count = text.len().min(out.len());
                out[..count].copy_from_slice(&text.as_bytes()[..count]);
                Ok(count)
            }
            Some(Instead::Missing | Instead::Node(..)) => Err(Errno::ENOENT),
            Some(Instead::Refused(errno)) => Err(*errno),
            None => self.soft.read(path, out),
        }
    }

    fn list(&self, path: &str, entry: &mut dyn FnMut(&str)) -> Result<(), Errno> {
        if let Some(Instead::Missing) = self.instead(path) {
            return Err(Errno::ENOENT);
        }
        let folder = format!("{path}/");
        let mut names = Vec::new();
        let soft = self.soft.list(path, &mut |name| names.push(name.to_owned()));
        let added = self.paths.iter().filter(|(_, instead)| matches!(instead, Instead::Text(_)));
        for rest in added.filter_map(|(file, _)| file.strip_prefix(&folder)) {
            names.push(rest.split('/').next().unwrap_or(rest).to_owned());
        }
        names.sort();
        names.dedup();
        names.retain(|name| !matches!(self.paths.get(&format!("{folder}{name}")), Some(Instead::Missing)));
        names.iter().for_each(|name| entry(name));
        if names.is_empty() { soft.and(Err(Errno::ENOENT)) } else { Ok(()) }
    }

    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        match self.instead(path) {
            Some(Instead::Text(_)) => Ok(Stat { mode: 0o100_644, uid: 0, gid: 0 }),
            Some(Instead::Missing) => Err(Errno::ENOENT),
            Some(Instead::Node(mode, gid, _)) => Ok(Stat { mode: 0o020_000 | mode, uid: 0, gid: *gid }),
            Some(Instead::Refused(_)) | None => self.soft.stat(path),
        }
    }

    fn read_at(&self, fd: &Fd, offset: u64, window: &Window, range: Range<usize>) -> Result<usize, Errno> {
        self.soft.read_at(fd, offset, window, range)
    }

    fn ring(&self, doorbells: &Window, offset: usize, value: u64) {
        self.soft.ring(doorbells, offset, value);
    }

    fn wait(&self, kfd: &Fd, args: &mut WaitEvents, events: &mut [EventData]) -> Result<(), Errno> {
        self.soft.wait(kfd, args, events)
    }
}
