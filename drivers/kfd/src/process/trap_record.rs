//! The record that a trap handler leaves of a wave that it has stopped.

use crate::topology::Generation;

/// Bits of the message that name the doorbell; those above are exceptions, 1 << (code − 1).
const DOORBELL_BITS: u32 = 10;

/// A wave that the handler has stopped.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapRecord {
    /// Address of the instruction.
    pub pc: u64,
    /// The number of `s_trap`; 0 for an exception.
    pub trap: u8,
    /// The hardware's exception flags: TRAPSTS, on gfx12 EXCP_FLAG_PRIV.
    pub flags: u32,
    /// The exceptions, by the kernel's numbers: 1 << (code − 1).
    pub exceptions: u64,
    /// The queue: its doorbell's place in the process's slice.
    pub doorbell: u32,
}

impl TrapRecord {
    /// Reads four words; `None` where no wave has written.
    pub fn read(words: [u32; 4], generation: Generation) -> Option<Self> {
        let [low, high, flags, message] = words;
        let exceptions = u64::from(message >> DOORBELL_BITS);
        let trap = if generation == Generation::Gfx12 { high >> 28 } else { high >> 16 & 0xff };
        let pc = u64::from(low) | u64::from(high & 0xffff) << 32;
        let doorbell = message & ((1 << DOORBELL_BITS) - 1);
        (exceptions != 0).then_some(Self { pc, trap: trap as u8, flags, exceptions, doorbell })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_generation() {
        let words = [0x1234_5678, 0x0003_7fff, 1 << 11, 1 << 13 | 5];
        let record = TrapRecord::read(words, Generation::Gfx11).expect("written");
        let expected =
            TrapRecord { pc: 0x7fff_1234_5678, trap: 3, flags: 1 << 11, exceptions: 1 << 3, doorbell: 5 };
        assert_eq!(record, expected);
        let words = [0, 0x2000_0001, 0, 1 << 10];
        let record = TrapRecord::read(words, Generation::Gfx12).expect("written");
        assert_eq!((record.pc, record.trap, record.exceptions, record.doorbell), (1 << 32, 2, 1, 0));
        assert_eq!(TrapRecord::read([0; 4], Generation::Gfx11), None);
        assert_eq!(TrapRecord::read([1, 1, 1, 1023], Generation::Gfx12), None, "no exception in the message");
    }
}
