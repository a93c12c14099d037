//! How much memory the machine and this process have. Reads `/proc` and the control group; decides nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What can be used without swapping: the kernel's estimate, or less if the control group allows less.
    pub available: u64,
}

/// The memory of this machine; `None` where `/proc/meminfo` can't be read.
#[must_use]
pub fn memory() -> Option<Memory> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let mut memory = parse_meminfo(&meminfo)?;
    for group in groups(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()) {
        let text = |file: &str| fs::read_to_string(group.join(file)).ok();
        let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
        if let (Some(limit), Some(used)) = (number("memory.max"), number("memory.current")) {
            let left = left(limit, used, &text("memory.stat").unwrap_or_default());
            memory.total = memory.total.min(limit);
            memory.available = memory.available.min(left);
        }
    }
    Some(memory)
}

/// The most memory that this process has had resident so far, in bytes.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// The folders of this process's control group and of those around it, each of which may have a limit. In a container
/// its own group is seen as the root.
fn groups(own: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = root.join(own);
    own.ancestors().take_while(|group| group.starts_with(root)).map(Path::to_owned).collect()
}

/// What a group of this limit may still use. Pages of files count as used, and go when others are needed: among them
/// are those of a model that was read before.
fn left(limit: u64, used: u64, stat: &str) -> u64 {
    let value = |name: &str| -> u64 {
        let words = stat.lines().filter_map(|line| line.split_once(' '));
        words.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    let files = value("active_file").saturating_add(value("inactive_file"));
    limit.saturating_sub(used.saturating_sub(files))
}

fn parse_meminfo(text: &str) -> Option<Memory> {
    Some(Memory { total: field(text, "MemTotal:")?, available: field(text, "MemAvailable:")? })
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
        assert_eq!(parse_meminfo(text), Some(Memory { total: 24_576 * 1024, available: 1_024_000 }));
        assert_eq!(parse_meminfo("MemTotal: x kB\nMemAvailable: 1 kB"), None);
        assert_eq!(parse_meminfo("MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB"), None);
    }

    #[test]
    fn groups_around_this_one_count() {
        let paths = |text| groups(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let root = "/sys/fs/cgroup".to_owned();
        let user = format!("{root}/user.slice");
        assert_eq!(
            paths("1:name=x:/y\n0::/user.slice/a.scope\n"),
            [format!("{user}/a.scope"), user, root.clone()]
        );
        assert_eq!(paths("0::/\n"), [format!("{root}/")]);
        assert_eq!(paths(""), [format!("{root}/")]);
    }

    /// Row 9 of the reports: a large page cache is no lack of memory.
    #[test]
    fn pages_of_files_are_available() {
        let stat = "anon 7\nfile 60\nactive_file 20\ninactive_file 30\n";
        assert_eq!(left(100, 90, stat), 60);
        assert_eq!(left(100, 90, ""), 10);
        assert_eq!(left(100, 300, "active_file x\n"), 0);
        assert_eq!(left(100, 10, "active_file 18446744073709551615\ninactive_file 1\n"), 100);
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = memory().unwrap();
        assert!(memory.available <= memory.total && memory.total > 1 << 20);
        assert!(peak_resident().unwrap() > 4096);
    }
}
