//! One instruction: operation, operands in text order, modifiers.
//!
//! An `Inst` may hold any combination; `encode` refuses those that the chip does not have. Not here: checks, bits,
//! text.

use crate::operand::Operand;
use crate::operand_kind::{OperandKind, Type};
use crate::row::{Flags, Format, Op, Row};

/// Most operands an instruction has.
pub const MAX_OPERANDS: usize = 6;

/// Operands in text order: destinations, then sources.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operands {
    items: [Operand; MAX_OPERANDS],
    len: u8,
}

impl Operands {
    /// No operands.
    pub const EMPTY: Self = Self { items: [Operand::Off; MAX_OPERANDS], len: 0 };

    /// The operands of an array.
    pub fn new<const N: usize>(operands: [Operand; N]) -> Self {
        const { assert!(N <= MAX_OPERANDS, "no instruction has more operands") };
        let mut items = [Operand::Off; MAX_OPERANDS];
        items[..N].copy_from_slice(&operands);
        Self { items, len: N as u8 }
    }

    /// Appends an operand; false if there is no room.
    pub fn push(&mut self, operand: Operand) -> bool {
        let Some(slot) = self.items.get_mut(usize::from(self.len)) else { return false };
        *slot = operand;
        self.len += 1;
        true
    }

    /// The operands.
    pub fn as_slice(&self) -> &[Operand] {
        &self.items[..usize::from(self.len)]
    }

    /// The operands, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [Operand] {
        &mut self.items[..usize::from(self.len)]
    }
}

/// The encoding of an instruction whose format has two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Form {
    /// The format's own encoding: 32 bits for VOP1, VOP2 and VOPC.
    Short,
    /// The 64-bit VOP3 form of VOP1, VOP2 and VOPC.
    Long,
}

/// Output multiplier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutputModifier {
    /// Unchanged.
    None,
    /// Times two.
    Double,
    /// Times four.
    Quadruple,
    /// Times one half.
    Half,
}

/// Arithmetic modifiers. Bit `i` of a mask belongs to source `i`; bit 3 of `op_sel` to the destination.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Modifiers {
    /// Negated sources; of packed instructions, negated low halves.
    pub neg: u8,
    /// Absolute values; of packed instructions (`neg_hi`), negated high halves.
    pub abs: u8,
    /// High halves selected (for the low result of packed instructions).
    pub op_sel: u8,
    /// High halves selected for the high result of packed instructions.
    pub op_sel_hi: u8,
    /// Result limited to the range of its type.
    pub clamp: bool,
    /// Output multiplier.
    pub omod: OutputModifier,
}

impl Modifiers {
    /// The modifiers an instruction has when its text names none.
    pub const fn default_of(row: &Row) -> Self {
        let packed = matches!(row.format, Format::Vop3p);
        let op_sel_hi = if packed && !is_mix(row) { 0b111 } else { 0 };
        Self { neg: 0, abs: 0, op_sel: 0, op_sel_hi, clamp: false, omod: OutputModifier::None }
    }
}

/// True if the sources choose between f32 and f16 halves.
pub(crate) const fn is_mix(row: &Row) -> bool {
    matches!(row.src, [OperandKind { ty: Type::Mix, .. }, ..])
}

/// Data-parallel move of the first source between lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lanes {
    /// Each lane reads its own data.
    Own,
    /// A pattern within rows of 16 lanes.
    Dpp16(Dpp16),
    /// Any permutation within groups of eight lanes.
    Dpp8 {
        /// Source lane of each lane of the group.
        select: [u8; 8],
        /// Inactive lanes may be read.
        fetch_inactive: bool,
    },
}

/// Fields of a DPP16 move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dpp16 {
    /// Lane pattern.
    pub control: DppControl,
    /// Rows that write their result.
    pub row_mask: u8,
    /// Banks of four lanes that write their result.
    pub bank_mask: u8,
    /// A lane without a valid source reads zero instead of keeping its old result.
    pub bound_ctrl: bool,
    /// Inactive lanes may be read.
    pub fetch_inactive: bool,
}

/// Lane pattern of a DPP16 move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DppControl {
    /// Permutation within groups of four lanes.
    QuadPerm([u8; 4]),
    /// From the lane `n` higher (1 to 15).
    RowShl(u8),
    /// From the lane `n` lower (1 to 15).
    RowShr(u8),
    /// Rotation right by `n` (1 to 15).
    RowRor(u8),
    /// Row reversed.
    RowMirror,
    /// Half row reversed.
    RowHalfMirror,
    /// From lane `n` of the row (0 to 15).
    RowShare(u8),
    /// From lane `lane xor n` of the row (0 to 15).
    RowXmask(u8),
}

/// Scope of a gfx12 memory access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Compute unit.
    Cu,
    /// Shader engine.
    Se,
    /// Device.
    Device,
    /// System.
    System,
}

/// Cache behavior of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cache {
    /// gfx11 bits.
    Gfx11 {
        /// Coherent past L0; of atomics, return the old value.
        glc: bool,
        /// Streaming in L2.
        slc: bool,
        /// No allocation in the memory-side cache.
        dlc: bool,
    },
    /// gfx12 fields.
    Gfx12 {
        /// Coherence scope.
        scope: Scope,
        /// Temporal hint, three bits; of atomics, bit 0 returns the old value.
        hint: u8,
    },
}

impl Cache {
    /// No bits set; valid for every target.
    pub const PLAIN: Self = Self::Gfx11 { glc: false, slc: false, dlc: false };

    /// True if no bit is set.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Gfx11 { glc, slc, dlc } => !(glc || slc || dlc),
            Self::Gfx12 { scope, hint } => scope == Scope::Cu && hint == 0,
        }
    }

    /// True if an atomic with these bits returns the old value.
    pub fn returns(self) -> bool {
        match self {
            Self::Gfx11 { glc, .. } => glc,
            Self::Gfx12 { hint, .. } => hint & 1 != 0,
        }
    }
}

/// Address modifiers of memory instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Memory {
    /// Byte offset; two unsigned bytes (low byte first) where the row has [`Flags::TWO_OFFSETS`].
    pub offset: i32,
    /// Cache behavior.
    pub cache: Cache,
    /// Buffer: the address register holds an offset.
    pub offen: bool,
    /// Buffer: the address register holds an index.
    pub idxen: bool,
}

impl Memory {
    /// Offset zero, plain caching.
    pub const PLAIN: Self = Self { offset: 0, cache: Cache::PLAIN, offen: false, idxen: false };
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Inst {
    /// Operation.
    pub op: Op,
    /// Encoding.
    pub form: Form,
    /// Operands in text order.
    pub operands: Operands,
    /// Arithmetic modifiers.
    pub modifiers: Modifiers,
    /// Lane moves.
    pub lanes: Lanes,
    /// Address modifiers.
    pub memory: Memory,
    /// Second half of a dual-issue instruction.
    pub second: Option<(Op, Operands)>,
}

impl Inst {
    /// An instruction without modifiers, in the short form.
    pub fn new<const N: usize>(op: Op, operands: [Operand; N]) -> Self {
        Self::with_operands(op, Operands::new(operands))
    }

    /// An instruction without modifiers, in the short form.
    pub fn with_operands(op: Op, operands: Operands) -> Self {
        Self {
            op,
            form: Form::Short,
            operands,
            modifiers: Modifiers::default_of(op.row()),
            lanes: Lanes::Own,
            memory: Memory::PLAIN,
            second: None,
        }
    }

    /// The same instruction in the 64-bit form.
    pub fn long(mut self) -> Self {
        self.form = Form::Long;
        self
    }

    /// The same instruction with a byte offset.
    pub fn offset(mut self, offset: i32) -> Self {
        self.memory.offset = offset;
        self
    }

    /// The same instruction with cache bits.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.memory.cache = cache;
        self
    }

    /// The same instruction with source `index` negated.
    pub fn negate(mut self, index: u8) -> Self {
        self.modifiers.neg ^= 1 << index;
        self
    }

    /// The same instruction with a lane move.
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// A dual-issue instruction of two halves.
    pub fn dual<const N: usize, const M: usize>(x: (Op, [Operand; N]), y: (Op, [Operand; M])) -> Self {
        Self { second: Some((y.0, Operands::new(y.1))), ..Self::new(x.0, x.1) }
    }

    /// The row.
    pub fn row(&self) -> &'static Row {
        self.op.row()
    }

    /// True if the destination of the row is present: always, except for atomics that return no value.
    pub fn has_dst(&self) -> bool {
        !(self.row().has(Flags::ATOMIC) && self.row().format != Format::Ds) || self.memory.cache.returns()
    }

    /// Kinds of the operands in text order.
    pub fn kinds(&self) -> impl Iterator<Item = OperandKind> + Clone + use<> {
        let row = self.row();
        let dst = if self.has_dst() { row.dst } else { &[] };
        dst.iter().chain(row.src).copied()
    }

    /// Destinations.
    pub fn dst(&self) -> &[Operand] {
        let operands = self.operands.as_slice();
        let count = if self.has_dst() { self.row().dst.len() } else { 0 };
        &operands[..count.min(operands.len())]
    }

    /// Sources.
    pub fn src(&self) -> &[Operand] {
        let operands = self.operands.as_slice();
        &operands[self.dst().len()..]
    }
}
