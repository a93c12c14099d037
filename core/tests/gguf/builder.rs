//! Writes GGUF files piece by piece, so that a test can get any piece wrong. No rule is checked here.

use doorbell_core::gguf::{Gguf, GgufError};
use doorbell_core::heap::{Global, Heap};

pub(crate) const HEAP: Heap<'static> = &Global;

/// A file under construction.
#[derive(Clone)]
pub(crate) struct Builder {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    /// Overrides of the counts.
    pub(crate) tensor_count: Option<u64>,
    pub(crate) entry_count: Option<u64>,
    pub(crate) alignment: usize,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<Vec<u8>>,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

pub(crate) fn array(kind: u32, count: u64, elements: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), elements].concat()
}

/// An array of strings.
pub(crate) fn strings<'a>(items: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let items: Vec<_> = items.into_iter().map(string).collect();
    array(8, items.len() as u64, &items.concat())
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            entry_count: None,
            alignment: 32,
            entries: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    /// An entry of type id `kind` with the bytes of its value.
    pub(crate) fn entry(mut self, key: impl AsRef<[u8]>, kind: u32, value: impl AsRef<[u8]>) -> Self {
        self.entries.push([&string(key.as_ref()), &kind.to_le_bytes()[..], value.as_ref()].concat());
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.entry(key, 4, value.to_le_bytes())
    }

    pub(crate) fn u16(self, key: &str, value: u16) -> Self {
        self.entry(key, 2, value.to_le_bytes())
    }

    /// Declares a tensor at `offset` without data.
    pub(crate) fn declare(mut self, name: impl AsRef<[u8]>, dims: &[u64], kind: u32, offset: u64) -> Self {
        let dims: Vec<_> = dims.iter().map(|dim| dim.to_le_bytes()).collect();
        let rank = (dims.len() as u32).to_le_bytes();
        let rest = [kind.to_le_bytes().as_slice(), &offset.to_le_bytes()].concat();
        self.tensors.push([&string(name.as_ref()), &rank[..], dims.as_flattened(), &rest].concat());
        self
    }

    /// Declares a tensor behind the ones before, with `bytes` bytes of data.
    pub(crate) fn tensor(mut self, name: impl AsRef<[u8]>, dims: &[u64], kind: u32, bytes: usize) -> Self {
        let offset = self.data.len().next_multiple_of(self.alignment);
        self.data.resize(offset, 0);
        let first = self.data.len();
        self.data.extend((0..bytes).map(|index| (first + index) as u8));
        self.declare(name, dims, kind, offset as u64)
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let tensor_count = self.tensor_count.unwrap_or(self.tensors.len() as u64);
        let entry_count = self.entry_count.unwrap_or(self.entries.len() as u64);
        let mut file = [&self.magic[..], &self.version.to_le_bytes()].concat();
        file.extend(tensor_count.to_le_bytes());
        file.extend(entry_count.to_le_bytes());
        file.extend(self.entries.concat());
        file.extend(self.tensors.concat());
        if !self.data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
            file.extend(&self.data);
        }
        file
    }

    /// The reader's error about the file.
    #[track_caller]
    pub(crate) fn refusal(&self) -> GgufError {
        Gguf::parse(&self.build(), HEAP).unwrap_err()
    }
}
