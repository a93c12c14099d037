//! The types of metadata values.

use core::fmt;

/// The type of a metadata value; the discriminant is its id in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Kind {
    /// Unsigned, 8 bits.
    U8 = 0,
    /// Signed, 8 bits.
    I8 = 1,
    /// Unsigned, 16 bits.
    U16 = 2,
    /// Signed, 16 bits.
    I16 = 3,
    /// Unsigned, 32 bits.
    U32 = 4,
    /// Signed, 32 bits.
    I32 = 5,
    /// Single precision.
    F32 = 6,
    /// One byte; anything but zero is true.
    Bool = 7,
    /// A length and bytes, by custom UTF-8.
    String = 8,
    /// Values of one type.
    Array = 9,
    /// Unsigned, 64 bits.
    U64 = 10,
    /// Signed, 64 bits.
    I64 = 11,
    /// Double precision.
    F64 = 12,
}

/// Kind, name, and bytes of a value (0: no fixed number), by id.
const KINDS: [(Kind, &str, u64); 13] = [
    (Kind::U8, "u8", 1),
    (Kind::I8, "i8", 1),
    (Kind::U16, "u16", 2),
    (Kind::I16, "i16", 2),
    (Kind::U32, "u32", 4),
    (Kind::I32, "i32", 4),
    (Kind::F32, "f32", 4),
    (Kind::Bool, "bool", 1),
    (Kind::String, "string", 0),
    (Kind::Array, "array", 0),
    (Kind::U64, "u64", 8),
    (Kind::I64, "i64", 8),
    (Kind::F64, "f64", 8),
];

impl Kind {
    /// The type with this id in files.
    pub(super) fn from_id(id: u32) -> Option<Self> {
        Some(KINDS.get(usize::try_from(id).ok()?)?.0)
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Bytes of one value; `None` for strings and arrays.
    pub(super) fn size(self) -> Option<u64> {
        Some(KINDS[self as usize].2).filter(|size| *size > 0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
