//! Metadata values: single ones, and arrays, which are checked once while parsing and read in place afterwards.

use super::cursor::{Cursor, LENGTH_LIMIT};
use super::error::Fault;
use super::value_kind::Kind;

impl Kind {
    /// Reads a type id; an unknown one leaves the cursor before it.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        let mut ahead = *cursor;
        let found = ahead.u32()?;
        let kind = Self::from_id(found).ok_or(Fault::ValueType { found })?;
        *cursor = ahead;
        Ok(kind)
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

    /// A boolean.
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

/// Values of one type; strings or numbers, never arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    kind: Kind,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads and checks an array; strings are scanned once.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, Fault> {
        let kind = Kind::read(cursor)?;
        if kind == Kind::Array {
            return Err(Fault::NestedArray);
        }
        let found = cursor.u64()?;
        if found > LENGTH_LIMIT {
            return Err(Fault::TooLong { found, limit: LENGTH_LIMIT });
        }
        // At most 2^30 elements of at most 8 bytes; a string has at least its own length.
        let least = found * kind.size().unwrap_or(8);
        if least > cursor.left() {
            return Err(Fault::Truncated { needed: least, present: cursor.left() });
        }
        let start = *cursor;
        if kind == Kind::String {
            for _ in 0..found {
                cursor.string()?;
            }
        } else {
            cursor.take(least)?;
        }
        let bytes = { start }.take(cursor.at() - start.at())?;
        Ok(Self { kind, len: usize::try_from(found).unwrap_or(0), bytes })
    }

    /// The elements' type.
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// The number of elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The elements in order.
    pub fn iter(self) -> Values<'a> {
        Values { kind: self.kind, left: self.len, cursor: Cursor::new(self.bytes) }
    }

    /// The element at `index`, in constant time; `None` beyond the end and for strings (see [`Self::strings`]).
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        let size = usize::try_from(self.kind.size()?).ok()?;
        let start = index.checked_mul(size)?;
        Some(Value::fixed(self.kind, self.bytes.get(start..start.checked_add(size)?)?))
    }

    /// The strings in order; `None` for other elements.
    pub fn strings(self) -> Option<Strings<'a>> {
        (self.kind == Kind::String).then(|| Strings { left: self.len, cursor: Cursor::new(self.bytes) })
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

/// The elements of an array in order.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    kind: Kind,
    left: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        Value::read(self.kind, &mut self.cursor).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// The strings of an array in order.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    left: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strings<'_> {}
