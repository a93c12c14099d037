//! Every allocation of the process, by address: for accounting, leak checks and fault reports.
//!
//! The kernel's counters (`mem_info_gtt_used`) do not follow allocations, so this is what sizes are taken from.

use super::buffer::Handle;
use super::name::Name;
use super::usage::Usage;
use crate::heap::{OutOfMemory, push};
use alloc::vec::Vec;
use core::fmt;

/// One allocation, or a named piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First address.
    pub va: u64,
    /// Bytes.
    pub bytes: u64,
    /// The device that owns it.
    pub gpu_id: u32,
    /// Its purpose.
    pub usage: Usage,
    /// Its name.
    pub name: Name,
    /// The kernel's handle; `None` for a piece of another allocation.
    pub handle: Option<Handle>,
}

/// Sums over the allocations.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Allocations, pieces not counted.
    pub count: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Position of an address relative to the allocations.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Inside one, at this offset.
    Inside(Name, u64),
    /// This many bytes past the end of one.
    Past(Name, u64),
    /// This many bytes before one.
    Before(Name, u64),
    /// There are none.
    Nothing,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inside(name, offset) => write!(f, "{name}+{offset:#x}"),
            Self::Past(name, bytes) => write!(f, "{bytes} bytes past the end of {name}"),
            Self::Before(name, bytes) => write!(f, "{bytes} bytes before {name}"),
            Self::Nothing => f.write_str("no allocation"),
        }
    }
}

/// The allocations, sorted by address; a piece comes after what it is part of.
#[derive(Debug, Default)]
pub struct Allocations {
    entries: Vec<Allocation>,
}

impl Allocations {
    /// All entries by address.
    pub fn entries(&self) -> &[Allocation] {
        &self.entries
    }

    /// Sums, pieces not counted.
    pub fn totals(&self) -> Totals {
        let whole = self.entries.iter().filter(|entry| entry.handle.is_some());
        whole.fold(Totals::default(), |sum, entry| Totals {
            count: sum.count + 1,
            bytes: sum.bytes + entry.bytes,
        })
    }

    pub(crate) fn reserve(&mut self) -> Result<(), OutOfMemory> {
        self.entries.try_reserve(1).map_err(|_| OutOfMemory)
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: Allocation) -> Result<(), OutOfMemory> {
        let at = self.entries.partition_point(|other| other.va <= entry.va);
        if at == self.entries.len() {
            return push(&mut self.entries, entry);
        }
        self.reserve()?;
        self.entries.insert(at, entry);
        Ok(())
    }

    /// Removes an allocation and all its pieces.
    pub(crate) fn remove(&mut self, handle: Handle) {
        let Some(whole) = self.entries.iter().find(|entry| entry.handle == Some(handle)) else { return };
        let (start, end) = (whole.va, whole.va + whole.bytes);
        self.entries.retain(|entry| entry.va < start || entry.va >= end);
    }

    /// Removes a piece.
    pub(crate) fn remove_piece(&mut self, va: u64) {
        self.entries.retain(|entry| entry.handle.is_some() || entry.va != va);
    }

    /// The device that owns the allocation around `va`.
    pub(crate) fn owner(&self, va: u64) -> Option<u32> {
        let holds = |entry: &&Allocation| entry.va <= va && va - entry.va < entry.bytes;
        self.entries.iter().find(holds).map(|entry| entry.gpu_id)
    }

    /// The smallest entry around `va`, or the closest one.
    pub fn nearest(&self, va: u64) -> Nearest {
        let holds = |entry: &&Allocation| entry.va <= va && va - entry.va < entry.bytes;
        let inside =
            self.entries.iter().filter(holds).min_by_key(|entry| (entry.bytes, entry.handle.is_some()));
        if let Some(entry) = inside {
            return Nearest::Inside(entry.name.clone(), va - entry.va);
        }
        let end = |entry: &Allocation| entry.va + entry.bytes;
        let below = self.entries.iter().filter(|entry| end(entry) <= va);
        let below = below.max_by_key(|entry| (end(entry), core::cmp::Reverse(entry.bytes)));
        let above = self.entries.iter().find(|entry| entry.va > va);
        match (below, above) {
            (Some(below), Some(above)) if va - end(below) > above.va - va => {
                Nearest::Before(above.name.clone(), above.va - va)
            }
            (Some(below), _) => Nearest::Past(below.name.clone(), va - end(below)),
            (None, Some(above)) => Nearest::Before(above.name.clone(), above.va - va),
            (None, None) => Nearest::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, va: u64, bytes: u64, handle: Option<u64>) -> Allocation {
        let handle = handle.map(Handle);
        Allocation { va, bytes, gpu_id: 1, usage: Usage::Data, name: Name::new(name), handle }
    }

    #[test]
    fn addresses_are_shown_by_name() {
        let mut allocations = Allocations::default();
        assert_eq!(allocations.nearest(5), Nearest::Nothing);
        for entry in [
            entry("weights", 0x20_0000, 0x20_0000, Some(1)),
            entry("scratch", 0x80_0000, 0x1000, Some(2)),
            entry("layer[0]", 0x20_0000, 0x1000, None),
            entry("layer[1]", 0x20_1000, 0x1000, None),
        ] {
            allocations.add(entry).expect("room");
        }
        let text = |va| alloc::format!("{}", allocations.nearest(va));
        assert_eq!(text(0x20_1010), "layer[1]+0x10");
        assert_eq!(text(0x20_0000), "layer[0]+0x0");
        assert_eq!(text(0x30_0000), "weights+0x100000");
        assert_eq!(text(0x40_1000), "4096 bytes past the end of weights");
        assert_eq!(text(0x7f_f000), "4096 bytes before scratch");
        assert_eq!(text(0x1000), "2093056 bytes before weights");
        assert_eq!(allocations.totals(), Totals { count: 2, bytes: 0x20_1000 });
        allocations.remove_piece(0x20_1000);
        assert_eq!(allocations.entries().len(), 3);
        allocations.remove(Handle(1));
        assert_eq!(allocations.entries().len(), 1);
        allocations.remove(Handle(1));
        allocations.remove(Handle(2));
        assert_eq!(allocations.totals(), Totals::default());
    }
}
