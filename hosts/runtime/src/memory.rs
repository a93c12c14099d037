//! Memory of the machine and of this process, read from `/proc` and the control groups.
//!
//! Not here: what is done when there is too little.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// All of it.
    pub total: u64,
    /// Bytes that can be used without swapping: the kernel's estimate, or less if the control group allows less.
    pub available: u64,
}

/// The memory of this machine; `None` where `/proc/meminfo` can't be read.
#[must_use]
pub fn host_memory() -> Option<HostMemory> {
    memory_of(&|path| fs::read_to_string(path).ok())
}

/// The memory of a machine whose files `read` returns.
fn memory_of(read: &dyn Fn(&Path) -> Option<String>) -> Option<HostMemory> {
    let mut memory = parse_meminfo(&read(Path::new("/proc/meminfo"))?)?;
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    for hierarchy in [V2, V1] {
        for group in hierarchy.groups(&own) {
            let text = |file: &str| read(&group.join(file));
            let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
            if let (Some(limit), Some(used)) = (number(hierarchy.limit), number(hierarchy.used)) {
                let left = hierarchy.left(limit, used, &text("memory.stat").unwrap_or_default());
                memory.total = memory.total.min(limit);
                memory.available = memory.available.min(left);
            }
        }
    }
    Some(memory)
}

/// Peak resident memory of this process in bytes.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// Files about memory in a version of the control groups (`Documentation/admin-guide/cgroup-v2.rst` and
/// `cgroup-v1/memory.rst` of the kernel). A machine may have both versions at once, with memory in one of them.
struct Hierarchy {
    root: &'static str,
    /// Name between the colons of a line of `/proc/self/cgroup`; empty in version 2.
    controller: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Keys of `memory.stat` that count pages of files, child groups included.
    files: [&'static str; 2],
}

const V2: Hierarchy = Hierarchy {
    root: "/sys/fs/cgroup",
    controller: "",
    limit: "memory.max",
    used: "memory.current",
    files: ["active_file", "inactive_file"],
};

const V1: Hierarchy = Hierarchy {
    root: "/sys/fs/cgroup/memory",
    controller: "memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_active_file", "total_inactive_file"],
};

impl Hierarchy {
    /// Folders of this process's group and of its ancestors, each of which may have a limit. In a container the process's
    /// own group appears as the root.
    fn groups(&self, own: &str) -> Vec<PathBuf> {
        let root = Path::new(self.root);
        let path = |line: &'_ str| {
            let mut parts = line.splitn(3, ':').skip(1);
            let named = parts.next()?.split(',').any(|name| name == self.controller);
            parts.next()?.strip_prefix('/').filter(|_| named).map(str::to_owned)
        };
        let own = root.join(own.lines().find_map(path).unwrap_or_default());
        own.ancestors().take_while(|group| group.starts_with(root)).map(Path::to_owned).collect()
    }

    /// Bytes that a group may still use. Pages of files count as used, but the kernel drops them when memory is needed:
    /// the pages of a model that was read before are among them.
    fn left(&self, limit: u64, used: u64, stat: &str) -> u64 {
        let value = |name: &str| -> u64 {
            let words = stat.lines().filter_map(|line| line.split_once(' '));
            words.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
        };
        let files = self.files.map(value).into_iter().fold(0, u64::saturating_add);
        limit.saturating_sub(used.saturating_sub(files))
    }
}

fn parse_meminfo(text: &str) -> Option<HostMemory> {
    Some(HostMemory { total: field(text, "MemTotal:")?, available: field(text, "MemAvailable:")? })
}

/// The value of a line such as `MemTotal:  24576 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       24576 kB\nMemFree:  1 kB\nMemAvailable:   1000 kB\n";
        assert_eq!(parse_meminfo(text), Some(HostMemory { total: 24_576 * 1024, available: 1_024_000 }));
        assert_eq!(parse_meminfo("MemTotal: x kB\nMemAvailable: 1 kB"), None);
        assert_eq!(parse_meminfo("MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB"), None);
    }

    #[test]
    fn groups_around_this_one_count() {
        let paths = |text| V2.groups(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let root = "/sys/fs/cgroup".to_owned();
        let user = format!("{root}/user.slice");
        assert_eq!(
            paths("1:name=x:/y\n0::/user.slice/a.scope\n"),
            [format!("{user}/a.scope"), user, root.clone()]
        );
        assert_eq!(paths("0::/\n"), [format!("{root}/")]);
        assert_eq!(paths(""), [format!("{root}/")]);
        let v1 = V1.groups("4:cpu,cpuacct:/c\n3:hugetlb,memory:/a\n0::/b\n");
        assert_eq!(v1, [Path::new("/sys/fs/cgroup/memory/a"), Path::new("/sys/fs/cgroup/memory")]);
    }

    /// The memory of a machine with 1,000 kB, of which 900 are available, and these files.
    fn machine(files: &[(&str, &str)]) -> HostMemory {
        let meminfo = ("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n");
        let find = |path: &Path| {
            let mut all = files.iter().chain([&meminfo]);
            all.find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        memory_of(&find).unwrap()
    }

    #[test]
    fn both_versions_of_control_groups_limit() {
        let bytes = |total, available| HostMemory { total, available };
        assert_eq!(machine(&[]), bytes(1_024_000, 921_600));
        let v1 = "/sys/fs/cgroup/memory";
        let (limit, used) =
            (format!("{v1}/a/memory.limit_in_bytes"), format!("{v1}/a/memory.usage_in_bytes"));
        let stat = format!("{v1}/a/memory.stat");
        let (root_limit, root_used) =
            (format!("{v1}/memory.limit_in_bytes"), format!("{v1}/memory.usage_in_bytes"));
        let mut files = vec![
            ("/proc/self/cgroup", "3:hugetlb,memory:/a/b\n1:name=systemd:/x\n0::/x\n"),
            (limit.as_str(), "500000\n"),
            (used.as_str(), "400000\n"),
            // no limit, as version 1 writes it
            (root_limit.as_str(), "9223372036854771712\n"),
            (root_used.as_str(), "900000\n"),
        ];
        assert_eq!(machine(&files), bytes(500_000, 100_000));
        // the total counts the group's own pages of files, too
        files.push((
            &stat,
            "active_file 1\ninactive_file 1\ntotal_active_file 50000\ntotal_inactive_file 10000\n",
        ));
        assert_eq!(machine(&files), bytes(500_000, 160_000));
        // in a container the path is the host's, and the process's own group is the root
        files[0].1 = "3:memory:/docker/0123\n";
        files[3].1 = "300000\n";
        files[4].1 = "200000\n";
        assert_eq!(machine(&files), bytes(300_000, 100_000));
        let v2 = [
            ("/proc/self/cgroup", "0::/u\n"),
            ("/sys/fs/cgroup/u/memory.max", "max\n"),
            ("/sys/fs/cgroup/u/memory.current", "5\n"),
            ("/sys/fs/cgroup/memory.max", "600000\n"),
            ("/sys/fs/cgroup/memory.current", "500000\n"),
            ("/sys/fs/cgroup/memory.stat", "active_file 20000\ninactive_file 0\n"),
        ];
        assert_eq!(machine(&v2), bytes(600_000, 120_000));
    }

    /// A large page cache is not a lack of memory.
    #[test]
    fn pages_of_files_are_available() {
        let stat = "anon 7\nfile 60\nactive_file 20\ninactive_file 30\n";
        let left = |limit, used, stat| V2.left(limit, used, stat);
        assert_eq!(left(100, 90, stat), 60);
        assert_eq!(left(100, 90, ""), 10);
        assert_eq!(left(100, 300, "active_file x\n"), 0);
        assert_eq!(left(100, 10, "active_file 18446744073709551615\ninactive_file 1\n"), 100);
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = host_memory().unwrap();
        assert!(memory.available <= memory.total && memory.total > 1 << 20);
        assert!(peak_resident().unwrap() > 4096);
    }
}
