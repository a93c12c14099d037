//! Metadata values and their types.

use super::cursor::Cursor;
use super::{Array, Fault};
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
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        let mut ahead = *cursor;
        let found = ahead.u32()?;
        let row = usize::try_from(found).ok().and_then(|id| KINDS.get(id));
        let kind = row.ok_or(Fault::ValueType { found })?.0;
        *cursor = ahead;
        Ok(kind)
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

/// A metadata value, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is the kind of the same name")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// Reads a value of `kind`.
    pub(super) fn read(kind: Kind, cursor: &mut Cursor<'a>) -> Result<Self, Fault> {
        match kind.size() {
            Some(size) => Ok(Self::fixed(kind, cursor.take(size)?)),
            None if kind == Kind::String => cursor.string().map(Self::String),
            None => Array::read(cursor).map(Self::Array),
        }
    }

    /// The value of a fixed-size `kind` in its bytes.
    pub(super) fn fixed(kind: Kind, bytes: &[u8]) -> Self {
        let mut wide = [0; 8];
        let count = bytes.len().min(8);
        wide[..count].copy_from_slice(&bytes[..count]);
        let [a, b, c, d, ..] = wide;
        match kind {
            Kind::U8 => Self::U8(a),
            Kind::I8 => Self::I8(i8::from_le_bytes([a])),
            Kind::U16 => Self::U16(u16::from_le_bytes([a, b])),
            Kind::I16 => Self::I16(i16::from_le_bytes([a, b])),
            Kind::U32 => Self::U32(u32::from_le_bytes([a, b, c, d])),
            Kind::I32 => Self::I32(i32::from_le_bytes([a, b, c, d])),
            Kind::F32 => Self::F32(f32::from_le_bytes([a, b, c, d])),
            Kind::Bool => Self::Bool(a != 0),
            Kind::U64 => Self::U64(u64::from_le_bytes(wide)),
            Kind::I64 => Self::I64(i64::from_le_bytes(wide)),
            Kind::F64 => Self::F64(f64::from_le_bytes(wide)),
            Kind::String | Kind::Array => Self::String(&[]),
        }
    }

    /// The value's type.
    pub fn kind(self) -> Kind {
        match self {
            Self::U8(_) => Kind::U8,
            Self::I8(_) => Kind::I8,
            Self::U16(_) => Kind::U16,
            Self::I16(_) => Kind::I16,
            Self::U32(_) => Kind::U32,
            Self::I32(_) => Kind::I32,
            Self::F32(_) => Kind::F32,
            Self::Bool(_) => Kind::Bool,
            Self::String(_) => Kind::String,
            Self::Array(_) => Kind::Array,
            Self::U64(_) => Kind::U64,
            Self::I64(_) => Kind::I64,
            Self::F64(_) => Kind::F64,
        }
    }

    fn wide(self) -> Option<i128> {
        Some(match self {
            Self::U8(value) => value.into(),
            Self::I8(value) => value.into(),
            Self::U16(value) => value.into(),
            Self::I16(value) => value.into(),
            Self::U32(value) => value.into(),
            Self::I32(value) => value.into(),
            Self::U64(value) => value.into(),
            Self::I64(value) => value.into(),
            _ => return None,
        })
    }

    /// A non-negative integer of any width.
    pub fn as_u64(self) -> Option<u64> {
        self.wide()?.try_into().ok()
    }

    /// An integer of any width below 2^63.
    pub fn as_i64(self) -> Option<i64> {
        self.wide()?.try_into().ok()
    }

    /// A non-negative integer of any width below 2^32.
    pub fn as_u32(self) -> Option<u32> {
        self.wide()?.try_into().ok()
    }

    /// A number of either precision, rounded to single.
    pub fn as_f32(self) -> Option<f32> {
        match self {
            Self::F32(value) => Some(value),
            Self::F64(value) => Some(value as f32),
            _ => None,
        }
    }

    /// A truth value.
    pub fn as_bool(self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A string's bytes; files hold text that is not UTF-8, too.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// A string that is UTF-8.
    pub fn text(self) -> Option<&'a str> {
        core::str::from_utf8(self.as_bytes()?).ok()
    }

    /// An array.
    pub fn as_array(self) -> Option<Array<'a>> {
        match self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }
}
