//! The kernel's log, if this process may read it. Not here: the meaning of its lines (`doorbell-kfd`).

use rustix::fs::{Mode, OFlags};
use std::io::{ErrorKind, Read as _};

/// Limit of bytes that are kept.
const LIMIT: usize = 4 << 20;

/// Limit of records that are read, so that reading ends even if the log keeps growing.
const RECORDS: usize = 65_536;

/// All of the log that can be read now; empty where only root may read it (`kernel.dmesg_restrict`).
#[must_use]
pub fn kernel_log() -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open("/dev/kmsg", flags, Mode::empty()) else { return Vec::new() };
    let mut file = std::fs::File::from(file);
    let mut log = Vec::new();
    // one read gives one record; the longest has 8 KiB
    let mut record = [0; 8192];
    for _ in 0..RECORDS {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(count) if log.len() + count > LIMIT => break,
            Ok(count) => log.extend_from_slice(&record[..count]),
            // the record was overwritten before it was read: the next one is there
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    log
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_log_ends_and_has_whole_records() {
        let log = super::kernel_log();
        assert!(log.len() <= super::LIMIT);
        assert!(log.is_empty() || log.ends_with(b"\n"));
    }
}
