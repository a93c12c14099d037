//! A list of dispatches with their dependencies, encoded to AQL packets or to a PM4 indirect buffer.
//!
//! Scopes follow one rule: right by default, cheaper only where the caller has proved it. The first packet of a
//! submission acquires from the system (host-written arguments, new code) and waits for earlier submissions, the
//! last one releases to it, every other acquires and releases within the GPU.

use super::aql::{Header, Packet, PacketKind, Scope};
use super::pm4::IndirectBuffer;
use super::recorded::{Acquire, Dependency, EncodeError, Recorded};
use crate::heap::{OutOfMemory, push};
use crate::topology::Isa;
use alloc::vec::Vec;

/// A list of dispatches. Made once, replayed often.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    list: Vec<Recorded>,
}

impl Recorder {
    /// An empty list.
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Forgets the list and keeps its memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds a dispatch.
    pub fn add(&mut self, recorded: Recorded) -> Result<(), OutOfMemory> {
        push(&mut self.list, recorded)
    }

    /// The dispatches.
    pub fn list(&self) -> &[Recorded] {
        &self.list
    }

    fn check(&self) -> Result<(), EncodeError> {
        if self.list.is_empty() {
            return Err(EncodeError::Empty);
        }
        for Recorded { dispatch, .. } in &self.list {
            let items: u64 = dispatch.workgroup.iter().map(|&items| u64::from(items)).product();
            if dispatch.grid.contains(&0) || !(1..=1024).contains(&items) {
                return Err(EncodeError::Shape(*dispatch));
            }
        }
        Ok(())
    }

    /// One AQL packet per dispatch into `out`; returns their number.
    pub fn encode_aql(&self, out: &mut [Packet]) -> Result<usize, EncodeError> {
        self.check()?;
        let (needed, available) = (self.list.len(), out.len());
        let out = out.get_mut(..needed).ok_or(EncodeError::Full { needed, available })?;
        for (index, (recorded, packet)) in self.list.iter().zip(out).enumerate() {
            let (first, last) = (index == 0, index + 1 == needed);
            let acquire = match recorded.acquire {
                _ if first => Scope::System,
                Acquire::Agent => Scope::Agent,
                Acquire::Proven => Scope::None,
            };
            let release = if last { Scope::System } else { Scope::Agent };
            let barrier = first || recorded.dependency == Dependency::Previous;
            *packet =
                recorded.dispatch.encode(Header { kind: PacketKind::Dispatch, barrier, acquire, release });
        }
        Ok(needed)
    }

    /// Words of which [`Self::encode_pm4`] and its like write no more.
    pub fn most_pm4_words(&self) -> usize {
        let each = self.list.len().saturating_mul(IndirectBuffer::MOST_WORDS);
        each.saturating_add(IndirectBuffer::EDGE_WORDS)
    }

    /// The same work as PM4 words into `out`, to be run by [`super::pm4_buffer`]; returns the number of words.
    pub fn encode_pm4(&self, isa: Isa, out: &mut [u32]) -> Result<usize, EncodeError> {
        self.pm4(isa, Report::Nothing, out)
    }

    /// As [`Self::encode_pm4`], with the number of dispatches that were started written to the 32-bit word at `va`
    /// behind each of them, [`crate::queue::Queue::started_va`] as a rule. Nothing waits for that.
    pub fn encode_pm4_counted(&self, isa: Isa, va: u64, out: &mut [u32]) -> Result<usize, EncodeError> {
        self.pm4(isa, Report::Started(va), out)
    }

    /// As [`Self::encode_pm4`], with the GPU's counter written before the first dispatch and after each one, as
    /// 64-bit words from `stamps` on: one more than there are dispatches. Each stamp waits for what is before it, so
    /// independent dispatches do not overlap.
    pub fn encode_pm4_stamped(&self, isa: Isa, stamps: u64, out: &mut [u32]) -> Result<usize, EncodeError> {
        self.pm4(isa, Report::Clock(stamps), out)
    }

    fn pm4(&self, isa: Isa, report: Report, out: &mut [u32]) -> Result<usize, EncodeError> {
        self.check()?;
        let mut buffer = IndirectBuffer::new(out, isa)?;
        if let Report::Clock(first) = report {
            buffer.stamp(first)?;
        }
        for (recorded, started) in self.list.iter().zip(1u32..) {
            buffer.dispatch(recorded)?;
            match report {
                Report::Nothing => {}
                Report::Started(va) => buffer.tell(va, started)?,
                Report::Clock(first) => buffer.stamp(first + 8 * u64::from(started))?,
            }
        }
        buffer.finish()
    }
}

/// Values that a PM4 list writes to memory while it runs.
#[derive(Clone, Copy, Debug)]
enum Report {
    Nothing,
    /// The number of dispatches started so far, to this address.
    Started(u64),
    /// The clock between dispatches, from this address on.
    Clock(u64),
}

#[cfg(test)]
mod tests {
    use super::super::aql::Dispatch;
    use super::*;
    use crate::code::Kernel;

    fn recorded(kernel: u64, kernarg: u64, dependency: Dependency, acquire: Acquire) -> Recorded {
        let kernel = Kernel {
            descriptor: kernel,
            entry: kernel + 0x100,
            rsrc1: 0x60AF_0003,
            rsrc2: 0x0000_0384,
            rsrc3: 0x10,
            kernarg_bytes: 16,
            group_bytes: 1024,
            is_wave32: true,
        };
        let (workgroup, grid) = ([64, 1, 1], [640, 1, 1]);
        let dispatch =
            Dispatch { workgroup, grid, group_bytes: 1024, kernel_object: kernel.descriptor, kernarg };
        Recorded { kernel, dispatch, dependency, acquire }
    }

    fn list() -> Recorder {
        let mut recorder = Recorder::new();
        for (index, (dependency, acquire)) in [
            (Dependency::None, Acquire::Agent),
            (Dependency::None, Acquire::Agent),
            (Dependency::Previous, Acquire::Agent),
            (Dependency::Previous, Acquire::Proven),
            (Dependency::Previous, Acquire::Agent),
        ]
        .into_iter()
        .enumerate()
        {
            recorder.add(recorded(0x10_0000, 0x2000 + index as u64 * 64, dependency, acquire)).expect("room");
        }
        recorder
    }

    #[test]
    fn scopes_are_right_by_default() {
        let mut packets = [Packet::INVALID; 5];
        assert_eq!(list().encode_aql(&mut packets), Ok(5));
        let headers = packets.map(|packet| packet.header());
        assert_eq!(headers, [0x0D02, 0x0A02, 0x0B02, 0x0902, 0x1302]);
        assert_eq!(list().encode_aql(&mut packets[..4]), Err(EncodeError::Full { needed: 5, available: 4 }));
        let mut one = Recorder::new();
        assert_eq!(one.encode_aql(&mut packets), Err(EncodeError::Empty));
        one.add(recorded(0, 0, Dependency::None, Acquire::Proven)).expect("room");
        assert_eq!(one.encode_aql(&mut packets), Ok(1));
        assert_eq!(packets[0].header(), 0x1502);
    }

    #[test]
    fn pm4_writes_what_changes_and_waits_where_it_must() {
        let mut words = [0; 256];
        let used = list().encode_pm4(Isa::GFX1100, &mut words).expect("room");
        let mut at = 0;
        let mut opcodes = Vec::new();
        while at < used {
            let word = words[at];
            assert_eq!(word >> 30, 3, "a type-3 packet at {at}");
            opcodes.push((word >> 8 & 0xff, words[at + 1]));
            at += (word >> 16 & 0x3fff) as usize + 2;
        }
        assert_eq!(at, used);
        let count = |opcode: u32| opcodes.iter().filter(|found| found.0 == opcode).count();
        assert_eq!(count(0x15), 5, "dispatches");
        assert_eq!(count(0x46), 4, "three dependencies and the end");
        assert_eq!(count(0x58), 4, "the start, two dependencies that are not proven, and the end");
        let programs = opcodes.iter().filter(|found| **found == (0x76, 0x20C)).count();
        assert_eq!(programs, 1, "one kernel, written once");
        let arguments = opcodes.iter().filter(|found| **found == (0x76, 0x240)).count();
        assert_eq!(arguments, 5);
        let first = words.iter().position(|&word| word == 0x20C).expect("PGM_LO");
        assert_eq!(words[first + 1], 0x10_0100 >> 8);
        let rsrc = words.iter().position(|&word| word == 0x212).expect("PGM_RSRC1");
        assert_eq!(&words[rsrc + 1..rsrc + 3], &[0x60AF_0003 | 1 << 20, 0x384 | 2 << 15]);
        let dispatch = words.iter().position(|&word| word == 0xC003_1500).expect("DISPATCH_DIRECT");
        assert_eq!(&words[dispatch + 1..dispatch + 5], &[10, 1, 1, 0x8005]);
        let second =
            words[dispatch + 5..].iter().position(|&word| word >> 8 & 0xff == 0x15).expect("a second");
        assert_eq!(&words[dispatch + 5..][..second], &[0xC001_7600, 0x240, 0x2040], "one word has changed");
        assert!(used <= list().most_pm4_words());
        assert!(matches!(
            list().encode_pm4(Isa::GFX1100, &mut words[..used - 1]),
            Err(EncodeError::Full { .. })
        ));
    }

    /// For each dispatch of a list: true if caches are invalidated before it.
    fn acquires(list: &[(Dependency, Acquire)]) -> Vec<bool> {
        let mut recorder = Recorder::new();
        for (index, (dependency, acquire)) in list.iter().enumerate() {
            recorder.add(recorded(0x10_0000, index as u64 * 64, *dependency, *acquire)).expect("room");
        }
        let mut words = [0; 512];
        let used = recorder.encode_pm4(Isa::GFX1100, &mut words).expect("room");
        let (mut at, mut emptied, mut found) = (0, false, Vec::new());
        while at < used {
            match words[at] >> 8 & 0xff {
                0x58 => emptied = true,
                0x15 => found.push(core::mem::take(&mut emptied)),
                _ => {}
            }
            at += (words[at] >> 16 & 0x3fff) as usize + 2;
        }
        found
    }

    #[test]
    fn what_was_proven_for_one_is_not_for_the_next() {
        use Acquire::{Agent, Proven};
        use Dependency::{None, Previous};
        let list = [(Previous, Agent), (Previous, Proven), (None, Agent), (None, Agent), (Previous, Agent)];
        assert_eq!(acquires(&list), [true, false, true, false, true]);
    }

    #[test]
    fn a_list_counts_what_it_starts() {
        let (mut plain, mut counted) = ([0; 256], [0; 256]);
        let used = list().encode_pm4(Isa::GFX1151, &mut plain).expect("room");
        let counted_dwords =
            list().encode_pm4_counted(Isa::GFX1151, 0x7f00_0000_1040, &mut counted).expect("room");
        assert_eq!(counted_dwords, used + 5 * 5);
        let writes = counted.windows(5).filter(|words| words[0] == 0xC003_3700);
        let expected: Vec<[u32; 4]> = (1..=5).map(|started| [0x500, 0x1040, 0x7f00, started]).collect();
        assert!(writes.map(|words| &words[1..]).eq(expected.iter()));
    }

    #[test]
    fn partial_groups_are_counted_by_the_hardware() {
        let mut recorder = Recorder::new();
        let mut partial = recorded(0x10_0000, 0, Dependency::None, Acquire::Agent);
        partial.dispatch.grid = [100, 3, 1];
        recorder.add(partial).expect("room");
        let mut words = [0; 128];
        recorder.encode_pm4(Isa::GFX1201, &mut words).expect("room");
        let threads = words.iter().position(|&word| word == 0x207).expect("NUM_THREAD_X");
        assert_eq!(&words[threads + 1..threads + 4], &[64 | 36 << 16, 1 | 1 << 16, 1 | 1 << 16]);
        let dispatch = words.iter().position(|&word| word == 0xC003_1500).expect("DISPATCH_DIRECT");
        assert_eq!(&words[dispatch + 1..dispatch + 5], &[2, 3, 1, 0x8007]);
        let rsrc = words.iter().position(|&word| word == 0x212).expect("PGM_RSRC1");
        assert_eq!(words[rsrc + 1], 0x60AF_0003, "no workaround on gfx12");
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (workgroup, grid) in [([0, 1, 1], [1, 1, 1]), ([1025, 1, 1], [1, 1, 1]), ([64, 1, 1], [64, 0, 1])]
        {
            let mut recorder = Recorder::new();
            let mut bad = recorded(0, 0, Dependency::None, Acquire::Agent);
            (bad.dispatch.workgroup, bad.dispatch.grid) = (workgroup, grid);
            recorder.add(bad).expect("room");
            let error = EncodeError::Shape(bad.dispatch);
            assert_eq!(recorder.encode_aql(&mut [Packet::INVALID]), Err(error));
            assert_eq!(recorder.encode_pm4(Isa::GFX1100, &mut [0; 64]), Err(error));
        }
    }
}
