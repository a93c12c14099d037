//! A whole model: header, metadata and tensors of one file or of a split set.

use super::cursor::Cursor;
use super::metadata::{ENTRY_BYTES, ENTRY_LIMIT, Metadata};
use super::names::Names;
use super::tensor::{self, TENSOR_BYTES, TENSOR_LIMIT};
use super::{Entry, Fault, GgufError, Label, Subject, Tensor, Value};
use crate::heap::{self, Heap};

/// The alignment of files that declare none, in bytes.
const DEFAULT_ALIGNMENT: u32 = 32;

/// A parsed model, borrowed from the bytes of its files.
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    version: u32,
    alignment: u32,
    metadata: Metadata<'a>,
    tensors: heap::Vec<'a, Tensor<'a>>,
    names: Names<'a>,
}

impl<'a> Gguf<'a> {
    /// Parses one file. A part of a split set is parsed alone; see [`Self::split`].
    pub fn parse(bytes: &'a [u8], heap: Heap<'a>) -> Result<Self, GgufError> {
        let cursor = &mut Cursor::new(bytes);
        let header = Header::read(cursor)?;
        let metadata = Metadata::read(cursor, header.entries, heap)?;
        let alignment = alignment(&metadata)?;
        let tensors = tensor::read(cursor, header.tensors, alignment.into(), bytes, heap)?;
        let names = index(&tensors, heap)?;
        Ok(Self { version: header.version, alignment, metadata, tensors, names })
    }

    /// Adds the tensors of a further file of the set, with index `part`.
    pub(super) fn append(&mut self, other: &Self, part: usize) -> Result<(), GgufError> {
        let added = other.tensors.iter().map(|tensor| Tensor { part, ..*tensor });
        let reserved = heap::reserve(&mut self.tensors, added.len());
        reserved.map_err(|error| Subject::Set.fault(0, error.into()))?;
        self.tensors.extend(added);
        Ok(())
    }

    /// Indexes the tensors of all files of the set.
    pub(super) fn reindex(&mut self, heap: Heap<'a>) -> Result<(), GgufError> {
        self.names = index(&self.tensors, heap)?;
        Ok(())
    }

    /// The GGUF version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of tensor data, in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Bytes of heap: the tables of keys and tensors. Texts and data stay in the file.
    pub fn heap_bytes(&self) -> usize {
        self.metadata.heap_bytes() + heap::held(&self.tensors) + self.names.heap_bytes()
    }

    /// All metadata in file order.
    pub fn metadata(&self) -> &[Entry<'a>] {
        &self.metadata.entries
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata.get(key.as_bytes()).map(|entry| entry.value)
    }

    /// All tensors in file order, those of a split set file by file.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        let found = self.names.find(name.as_bytes(), |position| self.tensors[position].name)?;
        self.tensors.get(found)
    }
}

/// Sorts the names and refuses duplicates.
fn index<'a>(tensors: &[Tensor<'a>], heap: Heap<'a>) -> Result<Names<'a>, GgufError> {
    let name = |position: usize| tensors[position].name;
    let names = Names::new(heap, tensors.len(), name);
    let names = names.map_err(|error| Subject::Header.fault(0, error.into()))?;
    match names.duplicate(name).map(|position| &tensors[position]) {
        Some(Tensor { name, at, part, .. }) => {
            let error = Subject::Tensor(Label::new(name)).fault(*at, Fault::DuplicateTensor);
            Err(GgufError { part: *part, ..error })
        }
        None => Ok(names),
    }
}

fn alignment(metadata: &Metadata<'_>) -> Result<u32, GgufError> {
    const KEY: &[u8] = b"general.alignment";
    let Some(Entry { value, at, .. }) = metadata.get(KEY) else { return Ok(DEFAULT_ALIGNMENT) };
    match *value {
        Value::U32(found) if found.is_power_of_two() => Ok(found),
        Value::U32(found) => Err(Fault::Alignment { found }),
        other => Err(Fault::AlignmentType { found: other.kind() }),
    }
    .map_err(|fault| Subject::Key(Label::new(KEY)).fault(*at, fault))
}

/// The fixed start of a file.
struct Header {
    version: u32,
    tensors: u64,
    entries: u64,
}

impl Header {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        let at = cursor.at();
        let found = cursor.magic().map_err(|fault| Subject::Header.fault(at, fault))?;
        if found != *b"GGUF" {
            return Err(Subject::Header.fault(at, Fault::Magic { found }));
        }
        let at = cursor.at();
        Self::rest(cursor).map_err(|fault| Subject::Header.fault(at, fault))
    }

    fn rest(cursor: &mut Cursor<'_>) -> Result<Self, Fault> {
        match cursor.u32()? {
            // A small number in the other byte order.
            found if found != 0 && found.trailing_zeros() >= 16 => Err(Fault::BigEndian),
            found if !(2..=3).contains(&found) => Err(Fault::Version { found }),
            version => {
                let (tensors, entries) = (cursor.u64()?, cursor.u64()?);
                for (found, limit) in [(tensors, TENSOR_LIMIT), (entries, ENTRY_LIMIT)] {
                    if found > limit {
                        return Err(Fault::Count { found, limit });
                    }
                }
                let needed = tensors * TENSOR_BYTES + entries * ENTRY_BYTES;
                if needed > cursor.left() {
                    return Err(Fault::Truncated { needed, present: cursor.left() });
                }
                Ok(Self { version, tensors, entries })
            }
        }
    }
}
