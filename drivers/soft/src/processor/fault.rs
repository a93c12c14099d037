//! Faults: causes that stop a wave.
//!
//! Not here: findings of the sanitizers, which do not stop it (`finding.rs`).

use core::fmt;

use doorbell_isa::DecodeError;

use crate::memory::MemoryFault;

/// Cause of a fault.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// An access that the address space refuses.
    Memory(MemoryFault),
    /// Bytes at the program counter that are no instruction of this chip.
    Illegal(DecodeError),
    /// A register beyond those the kernel descriptor allocates.
    Register {
        /// Number of the vector register.
        number: usize,
        /// Registers allocated.
        allocated: usize,
    },
    /// An LDS access beyond the group's segment.
    Lds {
        /// Byte address.
        address: u64,
        /// Bytes of the segment.
        size: usize,
    },
    /// A scratch access beyond the lane's segment.
    Scratch {
        /// Byte offset.
        offset: u64,
        /// Bytes per lane.
        size: usize,
    },
    /// s_trap.
    Trap {
        /// Its number.
        id: u8,
    },
    /// The wave halted itself.
    Halted,
    /// An instruction whose use here is not possible: reserved barrier, misaligned program counter.
    Unsupported(&'static str),
    /// The instruction budget is used up.
    Budget,
    /// Nothing can make progress.
    Deadlock,
}

/// A stopped wave.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Address of the instruction.
    pub pc: u64,
    /// Workgroup.
    pub group: [u32; 3],
    /// Wave of the group.
    pub wave: u32,
    /// The cause.
    pub cause: Cause,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(fault) => fault.fmt(f),
            Self::Illegal(error) => error.fmt(f),
            Self::Register { number, allocated } => {
                write!(f, "v{number} used, the descriptor allocates {allocated} registers")
            }
            Self::Lds { address, size } => write!(f, "LDS address {address:#x} of {size:#x} bytes"),
            Self::Scratch { offset, size } => write!(f, "scratch offset {offset:#x} of {size:#x} bytes"),
            Self::Trap { id } => write!(f, "trap {id}"),
            Self::Halted => f.write_str("halted"),
            Self::Unsupported(what) => f.write_str(what),
            Self::Budget => f.write_str("instruction budget used up"),
            Self::Deadlock => f.write_str("no wave can make progress"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pc {:#x}, group {:?}, wave {}: {}", self.pc, self.group, self.wave, self.cause)
    }
}

impl core::error::Error for Fault {}

impl From<MemoryFault> for Cause {
    fn from(fault: MemoryFault) -> Self {
        Self::Memory(fault)
    }
}
