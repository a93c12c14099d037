//! The metadata section: keys and values in file order.

use super::cursor::Cursor;
use super::names::Names;
use super::{Fault, GgufError, Kind, Label, Subject, Value};
use crate::heap::{self, Heap};

/// Most entries of a file.
pub(super) const ENTRY_LIMIT: u64 = 1 << 16;

/// Least bytes of an entry: a key, the type of its value, and at least one byte of each.
pub(super) const ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;

/// One key with its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key; any bytes, at least one.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// Offset of the entry in the file, in bytes.
    pub at: u64,
}

/// All entries.
#[derive(Clone, Debug)]
pub(super) struct Metadata<'a> {
    pub(super) entries: heap::Vec<'a, Entry<'a>>,
    names: Names<'a>,
}

impl<'a> Metadata<'a> {
    /// Reads `count` entries, which the caller has checked against the limit and the bytes left.
    pub(super) fn read(cursor: &mut Cursor<'a>, count: u64, heap: Heap<'a>) -> Result<Self, GgufError> {
        // Each entry has at least a quarter of its size in the file.
        let room = usize::try_from(count).unwrap_or(usize::MAX);
        let mut entries = heap::with_capacity(heap, room).map_err(|error| memory(cursor, error))?;
        for index in 0..count {
            let entry = entry(cursor, index)?;
            heap::push(&mut entries, entry).map_err(|error| memory(cursor, error))?;
        }
        let name = |position: usize| entries[position].key;
        let names = Names::new(heap, entries.len(), name).map_err(|error| memory(cursor, error))?;
        if let Some(position) = names.duplicate(name) {
            let Entry { key, at, .. } = entries[position];
            return Err(Subject::Key(Label::new(key)).fault(at, Fault::DuplicateKey));
        }
        Ok(Self { entries, names })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        heap::held(&self.entries) + self.names.heap_bytes()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry<'a>> {
        self.names.find(key, |position| self.entries[position].key).map(|position| &self.entries[position])
    }
}

fn memory(cursor: &Cursor<'_>, error: heap::OutOfMemory) -> GgufError {
    Subject::Header.fault(cursor.at(), error.into())
}

fn entry<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<Entry<'a>, GgufError> {
    let at = cursor.at();
    let key = cursor.string().map_err(|fault| Subject::Entry(index).fault(at, fault))?;
    if key.is_empty() {
        return Err(Subject::Entry(index).fault(at, Fault::EmptyKey));
    }
    let kind = Kind::read(cursor);
    let value = kind.and_then(|kind| Value::read(kind, cursor));
    let value = value.map_err(|fault| Subject::Key(Label::new(key)).fault(cursor.at(), fault))?;
    Ok(Entry { key, value, at })
}
