//! Tags of a cache: set-associative, least recently used.
//!
//! Data stays in memory. Not here: the order of cache levels (`meter.rs`).

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a line.
pub(super) const LINE: u64 = 128;
const WAYS: usize = 16;

/// The tags of one cache.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    /// Line number plus one, newest first within a set; 0 is empty.
    sets: Vec<[u64; WAYS]>,
}

impl Tags {
    /// An empty cache of this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let count = (bytes / LINE / WAYS as u64).max(1);
        Self { sets: vec![[0; WAYS]; usize::try_from(count).unwrap_or(1)] }
    }

    /// Looks up a line and makes it the newest; returns true on a hit.
    pub(super) fn touch(&mut self, line: u64) -> bool {
        let at = (line % self.sets.len() as u64) as usize;
        let set = &mut self.sets[at];
        let found = set.iter().position(|tag| *tag == line + 1);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = line + 1;
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE, Tags};

    #[test]
    fn the_oldest_line_of_a_set_goes() {
        let mut tags = Tags::new(16 * LINE);
        assert!((0..16).all(|line| !tags.touch(line)));
        assert!((0..16).all(|line| tags.touch(line)));
        assert!(!tags.touch(16));
        assert!(!tags.touch(0));
        assert!(tags.touch(16));
    }
}
