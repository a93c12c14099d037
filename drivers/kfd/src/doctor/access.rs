//! User and groups of this process, and the permissions of device nodes.

use crate::sys::{Kernel, Stat};
use core::fmt;

/// User, groups and surroundings of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Effective user.
    pub uid: u32,
    /// Supplementary and effective groups.
    pub groups: heapless::Vec<u32, 64>,
    /// Inside a container, by the marks that container engines leave.
    pub is_container: bool,
    /// SELinux enforces.
    pub is_selinux_enforcing: bool,
}

impl Identity {
    /// Reads procfs and the usual marks.
    pub fn read(kernel: &dyn Kernel) -> Self {
        let mut buffer = [0; 4096];
        let count = kernel.read("/proc/self/status", &mut buffer).unwrap_or(0);
        let mut this = Self::default();
        for line in buffer[..count].split(|&byte| byte == b'\n') {
            let mut numbers = line
                .split(u8::is_ascii_whitespace)
                .skip(1)
                .filter_map(|word| core::str::from_utf8(word).ok()?.parse::<u32>().ok());
            if line.starts_with(b"Uid:") {
                this.uid = numbers.nth(1).unwrap_or(0);
            } else if line.starts_with(b"Gid:") {
                this.add(numbers.nth(1));
            } else if line.starts_with(b"Groups:") {
                numbers.for_each(|group| this.add(Some(group)));
            }
        }
        let marks = ["/.dockerenv", "/run/.containerenv"];
        this.is_container = marks.iter().any(|mark| kernel.stat(mark).is_ok());
        let mut flag = [0; 1];
        let enforce = kernel.read("/sys/fs/selinux/enforce", &mut flag);
        this.is_selinux_enforcing = enforce == Ok(1) && flag[0] == b'1';
        this
    }

    fn add(&mut self, group: Option<u32>) {
        if let Some(group) = group {
            let _ = self.groups.push(group);
        }
    }

    /// True if the permission bits of a node let this process read and write it.
    pub fn may_use(&self, stat: Stat) -> bool {
        let shift = if self.uid == stat.uid {
            6
        } else if self.groups.contains(&stat.gid) {
            3
        } else {
            0
        };
        self.uid == 0 || stat.mode >> shift & 0o6 == 0o6
    }
}

/// A node that could not be opened for lack of permission.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The node.
    pub path: heapless::String<40>,
    /// Permission bits.
    pub mode: u32,
    /// Its group.
    pub gid: u32,
    /// The group's name here; empty when it has none.
    pub group: heapless::String<32>,
    /// The bits would let us in: something else denies.
    pub should_work: bool,
}

impl Access {
    /// Looks at a node.
    pub fn read(kernel: &dyn Kernel, identity: &Identity, path: &str) -> Option<Self> {
        let stat = kernel.stat(path).ok()?;
        Some(Self {
            path: path.chars().take(40).filter(char::is_ascii).collect(),
            mode: stat.mode & 0o777,
            gid: stat.gid,
            group: group_name(kernel, stat.gid),
            should_work: identity.may_use(stat),
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is of group {}", self.path, self.gid)?;
        if !self.group.is_empty() {
            write!(f, " ({})", self.group)?;
        }
        write!(f, ", mode {:o}", self.mode)
    }
}

fn group_name(kernel: &dyn Kernel, gid: u32) -> heapless::String<32> {
    let mut buffer = [0; 8192];
    let count = kernel.read("/etc/group", &mut buffer).unwrap_or(0);
    let name = buffer[..count].split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next()?;
        let number = core::str::from_utf8(fields.nth(1)?).ok()?.parse::<u32>().ok()?;
        (number == gid).then_some(name)
    });
    let printable = name.unwrap_or_default().iter().filter(|byte| byte.is_ascii_graphic());
    printable.take(32).map(|&byte| char::from(byte)).collect()
}
