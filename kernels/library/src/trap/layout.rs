//! Registers and bits of the handler by generation, and the numbers that it shares with kernel and host.

use doorbell_compiler::isa::{Generation, Target};

/// Program counter of the wave.
pub(crate) const PC: u8 = 0;
pub(crate) const PC_HIGH: u8 = 1;
/// The number of the trap; later a copy of M0.
pub(crate) const TRAP: u8 = 2;
/// The interrupt's message: the queue's doorbell and a bit for each exception.
pub(crate) const MESSAGE: u8 = 3;
pub(crate) const CAUSE: u8 = 4;
pub(crate) const SLOT: u8 = 5;
pub(crate) const STATE: u8 = 12;
pub(crate) const RECORDS: u8 = 14;

/// Bits of a doorbell's number; the exceptions' bits are above them.
pub(crate) const DOORBELL_BITS: i8 = 10;

/// Exceptions by the kernel's numbers (`enum kfd_dbg_trap_exception_code`).
pub(crate) const ABORT: i8 = 1;
pub(crate) const USER_TRAP: i8 = 2;
pub(crate) const ILLEGAL: i8 = 4;
pub(crate) const VIOLATION: i8 = 5;
pub(crate) const APERTURE: i8 = 6;

/// Numbers of `s_trap` with a meaning (LLVM, `AMDGPUUsage.rst`, trap handler ABI).
pub(crate) const TRAP_ABORT: i8 = 2;
pub(crate) const TRAP_DEBUG: i8 = 3;

/// Messages of `s_sendmsg`.
pub(crate) const MSG_INTERRUPT: i32 = 1;
pub(crate) const MSG_GET_DOORBELL: i32 = 0x80;

/// Registers and bits that the handler reads, in one generation.
pub(crate) struct Layout {
    /// Lowest bit and width of the trap's number in the high half of the program counter.
    pub(crate) trap: (u32, u32),
    /// The register of exception flags, and in it: memory violation, aperture violation, illegal instruction.
    pub(crate) flags: u32,
    pub(crate) not_present: i8,
    pub(crate) violation: i8,
    pub(crate) illegal: i8,
    /// The register that is written on leaving: number, lowest bit, width; and the bit that halts.
    pub(crate) state: (u32, u32, u32),
    pub(crate) halt: i8,
}

impl Layout {
    /// The layout of a chip.
    pub(crate) fn of(target: Target) -> &'static Self {
        if target.generation() == Generation::Gfx12 { &GFX12 } else { &GFX11 }
    }
}

const GFX11: Layout = Layout {
    trap: (16, 8),
    flags: 3,
    not_present: 28,
    violation: 8,
    illegal: 11,
    state: (2, 0, 32),
    halt: 13,
};

const GFX12: Layout = Layout {
    trap: (28, 4),
    flags: 17,
    not_present: 12,
    violation: 4,
    illegal: 6,
    // Barrier bits below may have changed since they were read.
    state: (4, 9, 7),
    halt: 14,
};

/// Number of the gfx12 register of relaxed scheduling, whose bits the first level leaves in ttmp1.
pub(crate) const SCHED_MODE: (u32, u32, u32) = (26, 0, 2);
pub(crate) const SCHED_MODE_AT: u32 = 26;

/// The wave's number on its SIMD unit.
pub(crate) const WAVE_NUMBER: (u32, u32, u32) = (23, 0, 5);
