//! The table of weight formats: one row with everything that kernels decide by the type of weights.

use super::codes::{E2M1_DOUBLED, IQ4_NL_VALUES};
use doorbell_core::quant::Type;

/// A weight format, as kernels see it.
#[derive(Debug)]
pub(crate) struct FormatSpec {
    /// The type.
    pub(crate) ty: Type,
    /// The layout of a block.
    pub(crate) layout: BlockFormat,
    /// The codes of weights.
    pub(crate) codes: Codes,
    /// Codes have a minimum of their own; other unsigned ones stand for numbers around zero.
    pub(crate) has_minimum: bool,
    /// Consecutive weights that share a scale.
    pub(crate) scale_group: u32,
    /// Loads of 32 weights.
    pub(crate) loads: usize,
    /// Registers that those loads fill.
    pub(crate) registers: usize,
}

/// The layout of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockFormat {
    /// Floats without blocks.
    Floats,
    /// 32 weights after a header.
    Block32(Header),
    /// Q4_K and Q5_K: 256 weights in eight sub-blocks.
    Q4KQ5K,
    /// Q6_K: 256 weights in sixteen sub-blocks.
    Q6K,
    /// IQ4_XS: 256 weights in eight sub-blocks.
    Iq4Xs,
}

/// The header of a block of 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Header {
    /// A scale in f16.
    Scale,
    /// Scale and minimum in f16.
    ScaleMinimum,
    /// An exponent of eight bits.
    Exponent,
}

/// The codes of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codes {
    /// No codes: the weights themselves.
    None,
    /// Signed bytes.
    Bytes,
    /// Unsigned integers of this number of bits: nibbles, and upper bits apart from them.
    Bits(u32),
    /// Numbers of four bits of an entry in a table of sixteen signed bytes, four a dword.
    Table([u32; 4]),
}

/// Weight types that kernels read.
pub const WEIGHT_TYPES: [Type; FORMATS.len()] = {
    let mut types = [Type::F32; FORMATS.len()];
    let mut index = 0;
    while index < types.len() {
        types[index] = FORMATS[index].ty;
        index += 1;
    }
    types
};

#[rustfmt::skip]
const FORMATS: [FormatSpec; 14] = {
    use BlockFormat::{Block32, Floats, Iq4Xs, Q4KQ5K, Q6K};
    use Codes::{Bits, Bytes, None, Table};
    use Header::{Exponent, Scale, ScaleMinimum};
    //  type         layout                 codes                minimum scale loads registers
    [
        row(Type::F32,    Floats,                None,                 false, 32, 8, 32),
        row(Type::F16,    Floats,                None,                 false, 32, 4, 16),
        row(Type::BF16,   Floats,                None,                 false, 32, 4, 16),
        row(Type::Q4_0,   Block32(Scale),        Bits(4),              false, 32, 2, 6),
        row(Type::Q4_1,   Block32(ScaleMinimum), Bits(4),              true,  32, 2, 6),
        row(Type::Q5_0,   Block32(Scale),        Bits(5),              false, 32, 3, 6),
        row(Type::Q5_1,   Block32(ScaleMinimum), Bits(5),              true,  32, 3, 6),
        row(Type::Q8_0,   Block32(Scale),        Bytes,                false, 32, 3, 9),
        row(Type::IQ4_NL, Block32(Scale),        Table(IQ4_NL_VALUES), false, 32, 2, 6),
        row(Type::MXFP4,  Block32(Exponent),     Table(E2M1_DOUBLED),  false, 32, 2, 6),
        row(Type::Q4_K,   Q4KQ5K,                Bits(4),              true,  32, 2, 8),
        row(Type::Q5_K,   Q4KQ5K,                Bits(5),              true,  32, 3, 12),
        row(Type::Q6_K,   Q6K,                   Bits(6),              false, 16, 5, 11),
        row(Type::IQ4_XS, Iq4Xs,                 Table(IQ4_NL_VALUES), false, 32, 2, 6),
    ]
};

const fn row(
    ty: Type,
    layout: BlockFormat,
    codes: Codes,
    has_minimum: bool,
    scale_group: u32,
    loads: usize,
    registers: usize,
) -> FormatSpec {
    FormatSpec { ty, layout, codes, has_minimum, scale_group, loads, registers }
}

impl FormatSpec {
    /// The row of a type; `None` if no kernel reads it.
    pub(crate) fn find(ty: Type) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.ty == ty)
    }

    /// The row of a type that a kernel reads; F32's for any other, which `supports` has refused.
    pub(crate) fn of(ty: Type) -> &'static Self {
        Self::find(ty).unwrap_or(&FORMATS[0])
    }

    /// True if weights are codes with scales, false if they are floats.
    pub(crate) fn is_coded(&self) -> bool {
        self.codes != Codes::None
    }

    /// True if codes are signed bytes.
    pub(crate) fn is_signed(&self) -> bool {
        matches!(self.codes, Codes::Bytes | Codes::Table(_))
    }

    /// The middle of codes that are unsigned, else 0.
    pub(crate) fn center(&self) -> u32 {
        if let Codes::Bits(bits) = self.codes { 1 << (bits - 1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads fill the bytes of 32 weights and of what they share, in whole registers.
    #[test]
    fn registers_hold_the_loads() {
        for format in &FORMATS {
            let bytes = 32 * format.ty.block_bytes() / format.ty.block_len();
            assert!(4 * format.registers >= bytes, "{}", format.ty);
            assert!(format.loads <= format.registers, "{}", format.ty);
        }
    }
}
