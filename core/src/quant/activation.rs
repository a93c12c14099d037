//! The formats that activations are converted to before an integer dot product. The conversion is in `quantize`.

use super::tensor_type::Type;
use bytemuck::Pod;
use core::fmt;

/// The format of the activations in a dot product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "the field's own names")]
pub enum Activation {
    /// Unquantized, little endian.
    F32,
    /// 32 codes under one half-precision scale.
    Q8_0,
    /// Q8_0 with the scaled sum of the codes.
    Q8_1,
    /// 256 codes under one f32 scale, with the sums of 16.
    Q8_K,
}

impl Activation {
    /// The tensor type of the same layout.
    pub const fn ty(self) -> Type {
        match self {
            Self::F32 => Type::F32,
            Self::Q8_0 => Type::Q8_0,
            Self::Q8_1 => Type::Q8_1,
            Self::Q8_K => Type::Q8_K,
        }
    }

    /// Elements in one block.
    pub fn block_len(self) -> usize {
        self.ty().block_len()
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> usize {
        self.ty().block_bytes()
    }

    /// Bytes of `len` elements; `None` if `len` is no multiple of the block or on overflow.
    pub fn row_bytes(self, len: usize) -> Option<usize> {
        self.ty().row_bytes(len)
    }
}

/// An activation block; [`Activation`] names the formats.
pub trait ActivationBlock: Pod {
    /// The format of the block.
    const FORMAT: Activation;
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.ty().name())
    }
}
