//! Operands: registers, inline constants, literals, fixed-form constants.
//!
//! Not here: the operands that a slot takes (`operand_kind.rs`), the check that one fits (`check.rs`).

use core::fmt;

/// Consecutive vector registers.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vgpr {
    /// Number of the first register.
    pub first: u8,
    /// Number of registers.
    pub count: u8,
}

/// Consecutive registers of the scalar file, by encoding number: s0 to s105, VCC (106), ttmp0 to ttmp15 (108 to
/// 123), null (124), m0 (125), EXEC (126).
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scalar {
    /// Encoding number of the first register.
    pub first: u8,
    /// Number of registers. Always 1 for null, which stands for any width.
    pub count: u8,
}

impl Scalar {
    /// Low half of VCC: the lane mask of a wave of 32.
    pub const VCC_LO: Self = Self { first: 106, count: 1 };
    /// High half of VCC.
    pub const VCC_HI: Self = Self { first: 107, count: 1 };
    /// VCC as a pair.
    pub const VCC: Self = Self { first: 106, count: 2 };
    /// Reads as zero, ignores writes.
    pub const NULL: Self = Self { first: 124, count: 1 };
    /// Memory index register.
    pub const M0: Self = Self { first: 125, count: 1 };
    /// Low half of EXEC: the active lanes of a wave of 32.
    pub const EXEC_LO: Self = Self { first: 126, count: 1 };
    /// High half of EXEC.
    pub const EXEC_HI: Self = Self { first: 127, count: 1 };
    /// EXEC as a pair.
    pub const EXEC: Self = Self { first: 126, count: 2 };

    /// Registers of the trap-handler file; gfx12 keeps workgroup ids there.
    pub const fn ttmp(first: u8, count: u8) -> Self {
        Self { first: 108 + first, count }
    }

    /// True if the range lies inside one register file and is aligned for its width: even for pairs, a multiple of
    /// four for more.
    pub fn is_valid(self) -> bool {
        let align = match self.count {
            1 => 1,
            2 => 2,
            _ => 4,
        };
        let (start, end) = match self.first {
            0..=105 => (0u8, 106u16),
            106..=107 => (106, 108),
            108..=123 => (108, 124),
            124 => (124, 125),
            125 => (125, 126),
            126..=127 => (126, 128),
            _ => return false,
        };
        self.count > 0
            && (self.first - start).is_multiple_of(align)
            && u16::from(self.first) + u16::from(self.count) <= end
    }

    /// True if the registers are general-purpose ones (s0 to s105).
    pub fn is_general(self) -> bool {
        self.first < 106
    }
}

/// Read-only scalar sources outside the register file.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Special {
    /// Base of the LDS aperture in the flat address space.
    SharedBase,
    /// Last address of the LDS aperture.
    SharedLimit,
    /// Base of the scratch aperture.
    PrivateBase,
    /// Last address of the scratch aperture.
    PrivateLimit,
    /// Scalar condition code.
    Scc,
}

/// Encoding number and name of each [`Special`].
static SPECIALS: [(Special, u8, &str); 5] = [
    (Special::SharedBase, 235, "src_shared_base"),
    (Special::SharedLimit, 236, "src_shared_limit"),
    (Special::PrivateBase, 237, "src_private_base"),
    (Special::PrivateLimit, 238, "src_private_limit"),
    (Special::Scc, 253, "src_scc"),
];

impl Special {
    /// All scalar sources.
    pub fn all() -> impl Iterator<Item = Self> {
        SPECIALS.iter().map(|entry| entry.0)
    }

    fn entry(self) -> &'static (Self, u8, &'static str) {
        &SPECIALS[self as usize]
    }

    pub(crate) fn from_code(code: u16) -> Option<Self> {
        SPECIALS.iter().find(|entry| u16::from(entry.1) == code).map(|entry| entry.0)
    }
}

/// Floating-point constants that need no literal.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InlineFloat {
    /// 0.5
    Half,
    /// -0.5
    MinusHalf,
    /// 1.0
    One,
    /// -1.0
    MinusOne,
    /// 2.0
    Two,
    /// -2.0
    MinusTwo,
    /// 4.0
    Four,
    /// -4.0
    MinusFour,
    /// 1 / (2 pi)
    InverseTwoPi,
}

/// Constant, text, f32 bits, f16 bits; in the order of the encoding numbers from 240.
static FLOATS: [(InlineFloat, &str, u32, u16); 9] = [
    (InlineFloat::Half, "0.5", 0x3f00_0000, 0x3800),
    (InlineFloat::MinusHalf, "-0.5", 0xbf00_0000, 0xb800),
    (InlineFloat::One, "1.0", 0x3f80_0000, 0x3c00),
    (InlineFloat::MinusOne, "-1.0", 0xbf80_0000, 0xbc00),
    (InlineFloat::Two, "2.0", 0x4000_0000, 0x4000),
    (InlineFloat::MinusTwo, "-2.0", 0xc000_0000, 0xc000),
    (InlineFloat::Four, "4.0", 0x4080_0000, 0x4400),
    (InlineFloat::MinusFour, "-4.0", 0xc080_0000, 0xc400),
    (InlineFloat::InverseTwoPi, "0.15915494", 0x3e22_f983, 0x3118),
];

impl InlineFloat {
    /// All constants.
    pub fn all() -> impl Iterator<Item = Self> {
        FLOATS.iter().map(|entry| entry.0)
    }

    /// The constant with these f32 bits.
    pub fn from_f32_bits(bits: u32) -> Option<Self> {
        FLOATS.iter().find(|entry| entry.2 == bits).map(|entry| entry.0)
    }

    /// The constant with these f16 bits.
    pub fn from_f16_bits(bits: u16) -> Option<Self> {
        FLOATS.iter().find(|entry| entry.3 == bits).map(|entry| entry.0)
    }

    /// The value as f32 bits.
    pub fn f32_bits(self) -> u32 {
        FLOATS[self as usize].2
    }

    /// The value as f16 bits.
    pub fn f16_bits(self) -> u16 {
        FLOATS[self as usize].3
    }

    pub(crate) fn text(self) -> &'static str {
        FLOATS[self as usize].1
    }
}

/// One operand.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operand {
    /// Vector registers.
    Vgpr(Vgpr),
    /// Scalar registers.
    Scalar(Scalar),
    /// Read-only scalar source.
    Special(Special),
    /// Integer constant from -16 to 64.
    Int(i8),
    /// Floating-point constant.
    Float(InlineFloat),
    /// 32-bit constant after the instruction; the high half for doubles, sign- or zero-extended otherwise.
    Literal(u32),
    /// Fixed-form constant.
    Immediate(i32),
    /// No register where one is optional.
    Off,
}

/// One vector register.
pub const fn v(number: u8) -> Operand {
    v_range(number, 1)
}

/// `count` vector registers from `first`.
pub const fn v_range(first: u8, count: u8) -> Operand {
    Operand::Vgpr(Vgpr { first, count })
}

/// One scalar register.
pub const fn s(number: u8) -> Operand {
    s_range(number, 1)
}

/// `count` scalar registers from `first`.
pub const fn s_range(first: u8, count: u8) -> Operand {
    Operand::Scalar(Scalar { first, count })
}

impl Operand {
    /// Low half of VCC.
    pub const VCC_LO: Self = Self::Scalar(Scalar::VCC_LO);
    /// Null register.
    pub const NULL: Self = Self::Scalar(Scalar::NULL);
    /// Low half of EXEC.
    pub const EXEC_LO: Self = Self::Scalar(Scalar::EXEC_LO);

    /// The shortest operand for a 32-bit integer.
    pub fn int(value: i32) -> Self {
        match i8::try_from(value) {
            Ok(small @ -16..=64) => Self::Int(small),
            _ => match InlineFloat::from_f32_bits(value.cast_unsigned()) {
                Some(float) => Self::Float(float),
                None => Self::Literal(value.cast_unsigned()),
            },
        }
    }

    /// The shortest operand for an f32.
    pub fn float(value: f32) -> Self {
        Self::int(value.to_bits().cast_signed())
    }

    /// The nine-bit source number. [`Operand::Immediate`] and [`Operand::Off`] have none and give null.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Vgpr(reg) => 256 + u32::from(reg.first),
            Self::Scalar(reg) => u32::from(reg.first),
            Self::Special(special) => u32::from(special.entry().1),
            Self::Int(value) if value >= 0 => 128 + u32::from(value.unsigned_abs()),
            Self::Int(value) => 192 + u32::from(value.unsigned_abs()),
            Self::Float(float) => 240 + float as u32,
            Self::Literal(_) => LITERAL_CODE,
            Self::Immediate(_) | Self::Off => u32::from(Scalar::NULL.first),
        }
    }

    /// The operand with a nine-bit source number, `count` registers wide. A literal gets `literal`.
    pub(crate) fn from_code(code: u16, count: u8, literal: Option<u32>) -> Option<Self> {
        let small = u8::try_from(code & 0xff).ok()?;
        Some(match code {
            256..=511 => Self::Vgpr(Vgpr { first: small, count }),
            124 => Self::NULL,
            0..=127 => Self::Scalar(Scalar { first: small, count }),
            128..=192 => Self::Int((small - 128).cast_signed()),
            193..=208 => Self::Int(-(small - 192).cast_signed()),
            240..=248 => Self::Float(FLOATS[usize::from(small - 240)].0),
            255 => Self::Literal(literal?),
            _ => Self::Special(Special::from_code(code)?),
        })
    }

    /// The literal value.
    pub fn literal(self) -> Option<u32> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }

    /// The vector registers.
    pub fn vgpr(self) -> Option<Vgpr> {
        if let Self::Vgpr(reg) = self { Some(reg) } else { None }
    }

    /// The scalar registers.
    pub fn scalar(self) -> Option<Scalar> {
        if let Self::Scalar(reg) = self { Some(reg) } else { None }
    }
}

/// Source number that announces a literal.
pub(crate) const LITERAL_CODE: u32 = 255;

fn range(f: &mut fmt::Formatter<'_>, prefix: &str, first: u8, count: u8) -> fmt::Result {
    if count == 1 {
        write!(f, "{prefix}{first}")
    } else {
        write!(f, "{prefix}[{first}:{}]", u16::from(first) + u16::from(count) - 1)
    }
}

impl fmt::Display for Vgpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        range(f, "v", self.first, self.count)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.count) {
            (106, 1) => f.write_str("vcc_lo"),
            (107, 1) => f.write_str("vcc_hi"),
            (106, _) => f.write_str("vcc"),
            (124, _) => f.write_str("null"),
            (125, _) => f.write_str("m0"),
            (126, 1) => f.write_str("exec_lo"),
            (127, 1) => f.write_str("exec_hi"),
            (126, _) => f.write_str("exec"),
            (first @ 108..=123, count) => range(f, "ttmp", first - 108, count),
            (first, count) => range(f, "s", first, count),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vgpr(reg) => reg.fmt(f),
            Self::Scalar(reg) => reg.fmt(f),
            Self::Special(special) => f.write_str(special.entry().2),
            Self::Int(value) => value.fmt(f),
            Self::Float(float) => f.write_str(float.text()),
            Self::Literal(value) => write!(f, "0x{value:x}"),
            Self::Immediate(value) => value.fmt(f),
            Self::Off => f.write_str("off"),
        }
    }
}
