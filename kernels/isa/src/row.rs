//! A row of the instruction table: name, format, opcodes, operands, flags, timing.
//!
//! Not here: the rows themselves and the way from an [`Op`] to its row (`table.rs`), the operand kinds
//! (`operand_kind.rs`).

use core::fmt;

use crate::chip::{Generation, Target};
use crate::operand_kind::OperandKind;

/// Marks a generation that lacks the instruction in [`Row::opcodes`].
pub const ABSENT: u16 = u16::MAX;

/// Encoding format of an instruction; also the index of its table file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Format {
    /// Scalar, one source.
    Sop1,
    /// Scalar, two sources.
    Sop2,
    /// Scalar comparison.
    Sopc,
    /// Scalar with 16-bit constant.
    Sopk,
    /// Program control.
    Sopp,
    /// Scalar memory.
    Smem,
    /// Vector, one source.
    Vop1,
    /// Vector, two sources.
    Vop2,
    /// Vector comparison.
    Vopc,
    /// Vector, 64-bit form only.
    Vop3,
    /// Vector, 64-bit form with scalar destination.
    Vop3sd,
    /// Packed, dot product, matrix.
    Vop3p,
    /// Half of a dual-issue instruction.
    Vopd,
    /// Local data share.
    Ds,
    /// Global memory.
    Global,
    /// Scratch memory.
    Scratch,
    /// Flat memory.
    Flat,
    /// Buffer memory.
    Mubuf,
}

/// Timing class: the unit that executes an instruction and how long it is busy. Figures: docs/facts/rdna.md; matrix
/// figures for gfx11, gfx12 takes half.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timing {
    /// Full-rate vector.
    Valu,
    /// Vector on 64-bit integers.
    Valu64,
    /// Quarter-rate 32-bit multiply.
    Quarter,
    /// Transcendental unit.
    Trans,
    /// Double precision.
    F64,
    /// Double-precision transcendental.
    F64Trans,
    /// Matrix on 16-bit inputs; on gfx11 8-bit ones too.
    Matrix,
    /// Matrix on inputs that go at twice that rate: of 4 bits, on gfx12 of 8 bits too.
    MatrixNarrow,
    /// Scalar.
    Salu,
    /// Scalar float.
    SaluFloat,
    /// Branch or end.
    Branch,
    /// Message.
    Message,
    /// Barrier.
    Barrier,
    /// Wait for a counter.
    Wait,
    /// Hint without effect on results.
    Hint,
    /// Scalar memory.
    Smem,
    /// Local data share.
    Lds,
    /// Vector memory.
    Vmem,
    /// Flat memory.
    Flat,
}

impl Timing {
    /// Clocks during which the issuing unit is busy with one wave of 32 lanes.
    pub fn issue_cycles(self, generation: Generation) -> u32 {
        let matrix = if generation == Generation::Gfx12 { 16 } else { 32 };
        match self {
            Self::Valu64 => 2,
            Self::Quarter | Self::Trans => 4,
            Self::F64 | Self::F64Trans => 16,
            Self::Matrix => matrix,
            Self::MatrixNarrow => matrix / 2,
            _ => 1,
        }
    }

    /// Clocks from issue to a usable result: planning values.
    pub fn latency(self, generation: Generation) -> u32 {
        match self {
            Self::Valu => 5,
            Self::Valu64 => 6,
            Self::Quarter => 8,
            Self::Trans => 10,
            Self::F64 => 22,
            Self::F64Trans => 24,
            Self::Matrix | Self::MatrixNarrow => self.issue_cycles(generation),
            Self::Salu => 2,
            Self::SaluFloat => 4,
            Self::Branch | Self::Message => 3,
            Self::Smem => 30,
            Self::Lds => 20,
            Self::Vmem | Self::Flat => 320,
            Self::Barrier | Self::Wait | Self::Hint => 1,
        }
    }
}

/// Properties of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal, $doc:literal;)*) => {
        impl Flags {
            /// No property.
            pub const NONE: Self = Self(0);
            $(#[doc = $doc] pub const $name: Self = Self(1 << $bit);)*
        }
        const FLAG_NAMES: &[(&str, Flags)] = &[$((stringify!($name), Flags::$name)),*];
    };
}

flags! {
    DPP = 0, "Takes data-parallel lane moves in every form it has.";
    CLAMP = 1, "Takes clamp in the 64-bit form.";
    OMOD = 2, "Takes an output multiplier in the 64-bit form.";
    OPSEL = 3, "Takes half selects in the 64-bit form.";
    NEG = 4, "Packed: takes neg_lo and neg_hi on every source (signedness for integer dot products).";
    NEG_C = 5, "Packed: takes neg_lo and neg_hi on the third source only.";
    MATRIX = 6, "Matrix instruction: ignores EXEC, which must be all ones.";
    SHORT_ONLY = 7, "Has no 64-bit form.";
    READS_DST = 8, "The destination is also a source, or keeps part of its old value.";
    VCC_IN = 9, "Reads VCC without naming it.";
    SCC_IN = 10, "Reads SCC.";
    SCC_OUT = 11, "Writes SCC.";
    EXEC_IN = 12, "A scalar instruction that reads EXEC.";
    EXEC_OUT = 13, "Writes EXEC without naming it.";
    BRANCHES = 14, "May change the program counter.";
    ENDS = 15, "Ends the wave.";
    LOAD = 16, "Reads memory.";
    STORE = 17, "Writes memory.";
    ATOMIC = 18, "Reads and writes memory; the destination exists only in the returning form.";
    PERMUTES = 19, "Moves data between lanes through the LDS unit without touching memory.";
    INVALIDATES = 20, "Discards cached lines.";
    WRITEBACK = 21, "Writes dirty lines back.";
    PREFETCH = 22, "Asks for lines without returning data.";
    TWO_OFFSETS = 23, "The 16-bit offset is two 8-bit offsets.";
    SIGNED = 25, "Integer dot product: neg_lo of the first two sources marks them signed.";
    INDEXED = 26, "A register number is offset by M0: the registers touched are not those named.";
    SWIZZLE = 24, "The offset is a swizzle pattern.";
}

impl Flags {
    /// Union, usable in constants.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if any property of `other` is present.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(FLAG_NAMES.iter().filter(|(_, flag)| self.has(*flag)).map(|(name, _)| name))
            .finish()
    }
}

/// One instruction of the table.
#[derive(Debug)]
pub struct Row {
    /// Mnemonic without encoding suffix.
    pub name: &'static str,
    /// Encoding format.
    pub format: Format,
    /// Opcode per generation (see [`Generation::column`]), or [`ABSENT`].
    pub opcodes: [u16; 3],
    /// Destinations in text order. In the returning form only, for atomics.
    pub dst: &'static [OperandKind],
    /// Sources in text order.
    pub src: &'static [OperandKind],
    /// Properties.
    pub flags: Flags,
    /// Timing class.
    pub timing: Timing,
}

impl Row {
    /// The opcode on a target.
    pub fn opcode(&self, target: Target) -> Option<u16> {
        let code = self.opcodes[target.generation().column()];
        (code != ABSENT).then_some(code)
    }

    /// True if the row has a property.
    pub const fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    /// True if a 32-bit and a 64-bit encoding both exist.
    pub fn has_two_forms(&self) -> bool {
        matches!(self.format, Format::Vop1 | Format::Vop2 | Format::Vopc) && !self.has(Flags::SHORT_ONLY)
    }

    /// True if the instruction belongs to the vector ALU.
    pub fn is_vector(&self) -> bool {
        matches!(
            self.format,
            Format::Vop1
                | Format::Vop2
                | Format::Vopc
                | Format::Vop3
                | Format::Vop3sd
                | Format::Vop3p
                | Format::Vopd
        )
    }
}

/// An instruction, as the index of its row. The constants are in [`op`](crate::op).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(u16);

/// Bits of an [`Op`] that index inside its table.
const ROW_BITS: u32 = 9;

impl Op {
    pub(crate) const fn new(table: Format, row: u16) -> Self {
        Self(((table as u16) << ROW_BITS) | row)
    }

    pub(crate) const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }

    /// Table and row of the instruction.
    pub(crate) const fn position(self) -> (usize, usize) {
        ((self.0 >> ROW_BITS) as usize, (self.0 & ((1 << ROW_BITS) - 1)) as usize)
    }
}

/// The raw number of row `row` of table `table`, for indexes built at compile time.
pub(crate) const fn raw_op(table: usize, row: usize) -> u16 {
    ((table << ROW_BITS) | row) as u16
}
