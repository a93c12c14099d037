//! Operand kinds: the operands that a slot of an instruction takes, and the type of their bits.
//!
//! A kind is a class (register file or constant) and a type (width and interpretation). The tables are written with
//! the constants of this file. Not here: the position of a slot in the encoding (`encode`, `decode`).

/// Width and interpretation of an operand's bits.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// Untyped 16 bits.
    B16,
    /// IEEE half.
    F16,
    /// bfloat16.
    BF16,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Untyped 32 bits.
    B32,
    /// IEEE single.
    F32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Two halves.
    PF16,
    /// Two bfloat16.
    PBF16,
    /// Two signed 16-bit integers.
    PI16,
    /// Two unsigned 16-bit integers.
    PU16,
    /// f32 or one half of a register as f16, chosen by op_sel_hi (`v_fma_mix`).
    Mix,
    /// Untyped 64 bits.
    B64,
    /// IEEE double.
    F64,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// Three dwords.
    B96,
    /// Four dwords.
    B128,
    /// Eight dwords.
    B256,
    /// Sixteen dwords.
    B512,
}

impl Type {
    /// Registers the type occupies.
    pub const fn dwords(self) -> u8 {
        match self {
            Self::B64 | Self::F64 | Self::I64 | Self::U64 => 2,
            Self::B96 => 3,
            Self::B128 => 4,
            Self::B256 => 8,
            Self::B512 => 16,
            _ => 1,
        }
    }

    /// True if a VOP1/2/3 source of this type takes negation and absolute value.
    pub const fn takes_sign(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::PF16 | Self::PBF16 | Self::Mix)
    }

    /// True if the type is one 16-bit value: 32-bit encodings then only reach v0 to v127, the upper bit being
    /// reserved for the half select.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::B16 | Self::F16 | Self::BF16 | Self::I16 | Self::U16)
    }
}

/// Fixed-form constants in the encoding, by the way they are printed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Immediate {
    /// simm16 in hexadecimal.
    Hex,
    /// simm16 in decimal.
    Decimal,
    /// simm16 in decimal, not written when zero (`s_endpgm`).
    Optional,
    /// Branch distance in dwords from the next instruction.
    Branch,
    /// gfx11 `s_waitcnt` fields.
    WaitCount,
    /// `s_delay_alu` fields.
    Delay,
    /// `s_waitcnt_depctr` / `s_wait_alu` fields.
    DependencyCounter,
    /// Message of `s_sendmsg`.
    Message,
    /// Message of `s_sendmsg_rtn`, in the 8-bit source field.
    MessageReturn,
    /// Hardware register, bit offset and size.
    HardwareRegister,
    /// Prefetch length in cache lines minus one.
    Length,
    /// Signed 24-bit byte offset written as an operand (prefetches).
    Offset24,
}

/// Register files and constants that an operand may be.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// The format's data class. Vector formats: destinations in VGPRs, sources in VGPRs, scalar registers, inline
    /// constants or a literal. Scalar formats: scalar registers, sources also constants. Memory formats: VGPRs
    /// (scalar registers for scalar memory).
    Data,
    /// VGPRs only.
    Vgpr,
    /// VGPRs or an inline constant (matrix accumulator input).
    Accumulator,
    /// A scalar source in a vector format: scalar register, inline constant or literal. As a destination: SGPR.
    Scalar,
    /// Lane select: scalar register or inline constant.
    Lane,
    /// Lane mask of a wave of 32: one scalar register, implicitly VCC in 32-bit encodings.
    Mask,
    /// Scalar registers only.
    Register,
    /// The null register.
    Null,
    /// A 32-bit constant that follows the instruction.
    Literal,
    /// Global address: two VGPRs without scalar base, one VGPR (32-bit offset) with it.
    GlobalAddress,
    /// Scratch address: one VGPR or off.
    ScratchAddress,
    /// Buffer address: one or two VGPRs by offen and idxen, or off.
    BufferAddress,
    /// Scalar base: SGPRs or off.
    Base,
    /// Scalar-memory offset register or off (written together with the immediate offset).
    ScalarOffset,
    /// Buffer offset: scalar register or inline integer.
    BufferOffset,
    /// Barrier number: m0 or an inline integer.
    Barrier,
    /// A fixed-form constant.
    Immediate(Immediate),
}

/// The operands that one slot of an instruction takes.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OperandKind {
    /// Register files and constants.
    pub class: Class,
    /// Width and interpretation.
    pub ty: Type,
}

const fn kind(class: Class, ty: Type) -> OperandKind {
    OperandKind { class, ty }
}

macro_rules! kinds {
    ($($name:ident = $class:expr, $ty:ident, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: OperandKind = kind($class, Type::$ty);)*
    };
}

kinds! {
    B16 = Class::Data, B16, "Untyped 16-bit data.";
    F16 = Class::Data, F16, "Half.";
    BF16 = Class::Data, BF16, "bfloat16.";
    I16 = Class::Data, I16, "Signed 16-bit integer.";
    U16 = Class::Data, U16, "Unsigned 16-bit integer.";
    B32 = Class::Data, B32, "Untyped dword.";
    F32 = Class::Data, F32, "Single.";
    I32 = Class::Data, I32, "Signed integer.";
    U32 = Class::Data, U32, "Unsigned integer.";
    PF16 = Class::Data, PF16, "Two halves.";
    PBF16 = Class::Data, PBF16, "Two bfloat16.";
    PI16 = Class::Data, PI16, "Two signed 16-bit integers.";
    PU16 = Class::Data, PU16, "Two unsigned 16-bit integers.";
    MIX = Class::Data, Mix, "Single, or half of a register.";
    B64 = Class::Data, B64, "Untyped 64-bit data.";
    F64 = Class::Data, F64, "Double.";
    I64 = Class::Data, I64, "Signed 64-bit integer.";
    U64 = Class::Data, U64, "Unsigned 64-bit integer.";
    B96 = Class::Data, B96, "Three dwords of data.";
    B128 = Class::Data, B128, "Four dwords of data.";
    B256 = Class::Data, B256, "Eight dwords of data.";
    B512 = Class::Data, B512, "Sixteen dwords of data.";
    V32 = Class::Vgpr, B32, "One VGPR.";
    V64 = Class::Vgpr, B64, "Two VGPRs.";
    V128 = Class::Vgpr, B128, "Four VGPRs.";
    V256 = Class::Vgpr, B256, "Eight VGPRs.";
    C128 = Class::Accumulator, B128, "Four VGPRs or an inline constant.";
    C256 = Class::Accumulator, B256, "Eight VGPRs or an inline constant.";
    S32 = Class::Scalar, B32, "Scalar operand of a vector instruction.";
    SF32 = Class::Scalar, F32, "Scalar single of a vector instruction.";
    SF16 = Class::Scalar, F16, "Scalar half of a vector instruction.";
    LANE = Class::Lane, B32, "Lane select.";
    MASK = Class::Mask, B32, "Lane mask.";
    R32 = Class::Register, B32, "One scalar register.";
    R64 = Class::Register, B64, "A pair of scalar registers.";
    R128 = Class::Register, B128, "Four scalar registers.";
    NULL = Class::Null, B32, "The null register.";
    K16 = Class::Literal, F16, "16-bit constant in a trailing dword.";
    K32 = Class::Literal, B32, "Trailing dword.";
    ADDR32 = Class::Vgpr, B32, "LDS address.";
    ADDR64 = Class::Vgpr, B64, "Flat address.";
    GADDR = Class::GlobalAddress, B64, "Global address or offset.";
    SADDR = Class::ScratchAddress, B32, "Scratch address.";
    VOFFSET = Class::BufferAddress, B32, "Buffer index and offset.";
    SBASE = Class::Base, B64, "Scalar base address.";
    SBASE32 = Class::Base, B32, "Scalar scratch offset.";
    SOFFSET = Class::ScalarOffset, B32, "Scalar-memory offset register.";
    SOFFREG = Class::Register, B32, "Scalar-memory offset register, null for none.";
    SOFF32 = Class::BufferOffset, B32, "Buffer offset.";
    BARRIER = Class::Barrier, B32, "Barrier number.";
    HEX16 = Class::Immediate(Immediate::Hex), B16, "simm16, hexadecimal.";
    DEC16 = Class::Immediate(Immediate::Decimal), B16, "simm16, decimal.";
    OPT16 = Class::Immediate(Immediate::Optional), B16, "simm16, written unless zero.";
    BRANCH = Class::Immediate(Immediate::Branch), I16, "Branch distance in dwords.";
    WAITCNT = Class::Immediate(Immediate::WaitCount), B16, "Wait counter fields.";
    DELAY = Class::Immediate(Immediate::Delay), B16, "Delay fields.";
    DEPCTR = Class::Immediate(Immediate::DependencyCounter), B16, "Dependency counter fields.";
    MESSAGE = Class::Immediate(Immediate::Message), B16, "Message.";
    MESSAGE8 = Class::Immediate(Immediate::MessageReturn), B16, "Message with return value.";
    HWREG = Class::Immediate(Immediate::HardwareRegister), B16, "Hardware register field.";
    LENGTH = Class::Immediate(Immediate::Length), B16, "Prefetch length.";
    SIMM24 = Class::Immediate(Immediate::Offset24), B32, "Byte offset.";
}
