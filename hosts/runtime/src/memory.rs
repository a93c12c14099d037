//! How much memory the machine and this process have. Reads `/proc` and the control group; decides nothing.

use std::fs;

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
    let group =
        |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    if let (Some(limit), Some(used)) = (group("memory.max"), group("memory.current")) {
        memory.total = memory.total.min(limit);
        memory.available = memory.available.min(limit.saturating_sub(used));
    }
    Some(memory)
}

/// The most memory that this process has had resident so far, in bytes.
#[must_use]
pub fn peak_resident() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
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
    fn this_machine_has_memory() {
        let memory = memory().unwrap();
        assert!(memory.available <= memory.total && memory.total > 1 << 20);
        assert!(peak_resident().unwrap() > 4096);
    }
}
