//! The formats that keys and values are stored in.

use crate::quant::Type;
use core::fmt;
use core::str::FromStr;

/// The format of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum KvType {
    /// Half precision.
    #[default]
    F16,
    /// Single precision.
    F32,
    /// Blocks of 32 elements of a head as signed bytes under a scale, as [`Activation::Q8_0`] quantizes them:
    /// keys after they are rotated, values as they are.
    ///
    /// [`Activation::Q8_0`]: crate::quant::Activation::Q8_0
    Q8_0,
}

impl KvType {
    /// All types.
    pub const ALL: [Self; 3] = [Self::F16, Self::F32, Self::Q8_0];

    /// The format of a key or a value.
    pub const fn format(self) -> Type {
        match self {
            Self::F16 => Type::F16,
            Self::F32 => Type::F32,
            Self::Q8_0 => Type::Q8_0,
        }
    }

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        }
    }

    /// Elements of a block; heads are a whole number of them.
    pub fn block_len(self) -> usize {
        self.format().block_len()
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.format().block_bytes()
    }

    /// Bytes of a key or value of `dim` elements; `None` if that is no whole number of blocks, or on overflow.
    pub fn row_bytes(self, dim: usize) -> Option<usize> {
        self.format().row_bytes(dim)
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvType {
    type Err = UnknownKvType;

    fn from_str(name: &str) -> Result<Self, UnknownKvType> {
        Self::ALL.into_iter().find(|kv| kv.name() == name).ok_or(UnknownKvType)
    }
}

/// A name of no [`KvType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownKvType;

impl fmt::Display for UnknownKvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and values can be kept as f16, f32 or q8_0")
    }
}

impl core::error::Error for UnknownKvType {}

/// Heads that cannot be stored in a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct KvError {
    /// The type.
    pub kv: KvType,
    /// Elements of the head.
    pub dim: u32,
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kv, dim } = self;
        let len = kv.block_len();
        write!(f, "heads of {dim} elements are not blocks of {len}, in which {kv} keeps them; use f16")
    }
}

impl core::error::Error for KvError {}
