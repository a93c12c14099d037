//! Arrays of metadata values: checked once while parsing, read in place afterwards.

use super::cursor::{Cursor, LENGTH_LIMIT};
use super::{Fault, Kind, Value};

/// Values of one type; strings or numbers, never arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array<'a> {
    kind: Kind,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads and checks an array; strings are walked once.
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

    /// Whether there are none.
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
