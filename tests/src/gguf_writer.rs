//! Writes GGUF files, versions 2 and 3, whole or split.
//!
//! It checks nothing but sizes, so that tests can write files that a reader must refuse. Reading is in core.
//!
//! Source of the layout: ggml's `docs/gguf.md` and `gguf.cpp` (version 3, little endian).

use doorbell_core::quant::Type;
use std::io::{self, Write};

/// A metadata value, of any of the 13 value types.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the value type of its name")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// Bytes, which need not be UTF-8.
    String(Vec<u8>),
    /// The element type's id and the elements, which need not agree.
    Array(u32, Vec<Self>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.as_bytes().to_vec())
    }
}

impl Value {
    /// The id that precedes the value in a file.
    pub fn type_id(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) => 8,
            Self::Array(..) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    /// An array of strings.
    pub fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::Array(8, items.into_iter().map(|item| Self::String(item.as_ref().to_vec())).collect())
    }

    /// An array of 32-bit integers.
    pub fn i32s(items: impl IntoIterator<Item = i32>) -> Self {
        Self::Array(5, items.into_iter().map(Self::I32).collect())
    }

    /// An array of 32-bit floats.
    pub fn f32s(items: impl IntoIterator<Item = f32>) -> Self {
        Self::Array(6, items.into_iter().map(Self::F32).collect())
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(x) => out.push(*x),
            Self::I8(x) => out.extend(x.to_le_bytes()),
            Self::U16(x) => out.extend(x.to_le_bytes()),
            Self::I16(x) => out.extend(x.to_le_bytes()),
            Self::U32(x) => out.extend(x.to_le_bytes()),
            Self::I32(x) => out.extend(x.to_le_bytes()),
            Self::F32(x) => out.extend(x.to_le_bytes()),
            Self::Bool(x) => out.push(u8::from(*x)),
            Self::String(x) => put_string(out, x),
            Self::Array(element, items) => {
                out.extend(element.to_le_bytes());
                out.extend((items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| item.put(out));
            }
            Self::U64(x) => out.extend(x.to_le_bytes()),
            Self::I64(x) => out.extend(x.to_le_bytes()),
            Self::F64(x) => out.extend(x.to_le_bytes()),
        }
    }
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

/// Header entry of one tensor: name, dimensions (fastest first), type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name bytes, e.g. `blk.0.attn_q.weight`.
    pub name: Vec<u8>,
    /// Elements per dimension, row length first.
    pub dims: Vec<u64>,
    /// Element type.
    pub ty: Type,
}

impl TensorInfo {
    /// A tensor's description.
    pub fn new(name: impl AsRef<[u8]>, dims: &[u64], ty: Type) -> Self {
        Self { name: name.as_ref().to_vec(), dims: dims.to_vec(), ty }
    }

    /// Bytes of the data. Panics if a row is not a whole number of blocks.
    pub fn bytes(&self) -> usize {
        let columns = self.dims.first().copied().unwrap_or(1);
        let rows: u64 = self.dims.iter().skip(1).product();
        let row = self.ty.row_bytes(columns as usize).expect("fixture rows are whole blocks");
        row * rows as usize
    }
}

/// A file in memory: metadata and tensors in the order in which they were added.
#[derive(Clone, Debug)]
pub struct GgufFile {
    /// Format version: 2 or 3 for a file that can be read.
    pub version: u32,
    /// Bytes to which tensor data is aligned. Written as `general.alignment` when it is not 32.
    pub alignment: u32,
    /// Metadata in file order.
    pub metadata: Vec<(Vec<u8>, Value)>,
    /// Tensors in file order, each with its data.
    pub tensors: Vec<(TensorInfo, Vec<u8>)>,
}

impl Default for GgufFile {
    fn default() -> Self {
        Self { version: 3, alignment: 32, metadata: Vec::new(), tensors: Vec::new() }
    }
}

impl GgufFile {
    /// An empty version 3 file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metadata pair.
    pub fn meta(&mut self, key: impl AsRef<[u8]>, value: Value) -> &mut Self {
        self.metadata.push((key.as_ref().to_vec(), value));
        self
    }

    /// Adds a tensor with these bytes, whose length may be wrong.
    pub fn tensor(&mut self, name: &str, dims: &[u64], ty: Type, data: Vec<u8>) -> &mut Self {
        self.tensors.push((TensorInfo::new(name, dims, ty), data));
        self
    }

    /// Adds a tensor of 32-bit floats.
    pub fn tensor_f32(&mut self, name: &str, dims: &[u64], data: &[f32]) -> &mut Self {
        self.tensor(name, dims, Type::F32, data.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// The whole file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let infos: Vec<TensorInfo> = self.tensors.iter().map(|(info, _)| info.clone()).collect();
        let lens: Vec<usize> = self.tensors.iter().map(|(_, data)| data.len()).collect();
        let mut out = head(self.version, self.alignment, &self.metadata, &infos, &lens);
        for (_, data) in &self.tensors {
            out.extend(data);
            pad(&mut out, self.alignment);
        }
        out
    }

    /// The file as `count` parts: the first has all metadata, each has its share of the tensors in order,
    /// and all have the `split.*` keys.
    pub fn to_parts(&self, count: usize) -> Vec<Vec<u8>> {
        let share = self.tensors.len().div_ceil(count.max(1)).max(1);
        (0..count)
            .map(|number| {
                let mut part = Self { version: self.version, alignment: self.alignment, ..Self::default() };
                if number == 0 {
                    part.metadata.clone_from(&self.metadata);
                }
                part.meta("split.no", Value::U16(number as u16));
                part.meta("split.count", Value::U16(count as u16));
                part.meta("split.tensors.count", Value::I32(self.tensors.len() as i32));
                part.tensors = self.tensors.iter().skip(number * share).take(share).cloned().collect();
                part.to_bytes()
            })
            .collect()
    }
}

fn padded(len: usize, alignment: u32) -> usize {
    len.next_multiple_of(alignment.max(1) as usize)
}

fn pad(out: &mut Vec<u8>, alignment: u32) {
    out.resize(padded(out.len(), alignment), 0);
}

/// Everything before the data section, padded to it. `lens` are the data bytes of each tensor.
fn head(
    version: u32,
    alignment: u32,
    metadata: &[(Vec<u8>, Value)],
    infos: &[TensorInfo],
    lens: &[usize],
) -> Vec<u8> {
    let own = (alignment != 32).then(|| (b"general.alignment".to_vec(), Value::U32(alignment)));
    let pairs = metadata.len() + usize::from(own.is_some());
    let mut out = b"GGUF".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((infos.len() as u64).to_le_bytes());
    out.extend((pairs as u64).to_le_bytes());
    for (key, value) in metadata.iter().chain(&own) {
        put_string(&mut out, key);
        out.extend(value.type_id().to_le_bytes());
        value.put(&mut out);
    }
    let mut offset = 0;
    for (info, len) in infos.iter().zip(lens) {
        put_string(&mut out, &info.name);
        out.extend((info.dims.len() as u32).to_le_bytes());
        info.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
        out.extend(info.ty.id().to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += padded(*len, alignment);
    }
    pad(&mut out, alignment);
    out
}

/// Writes a file that does not fit in memory: the head first, then each tensor's bytes in pieces.
#[derive(Debug)]
pub struct GgufStream<W: Write> {
    out: W,
    lens: Vec<usize>,
    begun: usize,
    left: usize,
    pad: usize,
}

impl<W: Write> GgufStream<W> {
    /// Writes the head of a version 3 file with alignment 32.
    pub fn begin(mut out: W, metadata: &[(Vec<u8>, Value)], infos: &[TensorInfo]) -> io::Result<Self> {
        let lens: Vec<usize> = infos.iter().map(TensorInfo::bytes).collect();
        out.write_all(&head(3, 32, metadata, infos, &lens))?;
        Ok(Self { out, lens, begun: 0, left: 0, pad: 0 })
    }

    /// Appends bytes to the data section; a piece may not cross the border between two tensors.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.left == 0 {
            self.left = *self.lens.get(self.begun).ok_or(io::ErrorKind::WriteZero)?;
            self.begun += 1;
            self.pad = padded(self.left, 32) - self.left;
        }
        self.left = self.left.checked_sub(piece.len()).ok_or(io::ErrorKind::InvalidInput)?;
        self.out.write_all(piece)?;
        if self.left == 0 {
            self.out.write_all(&[0; 32][..self.pad])?;
        }
        Ok(())
    }

    /// Flushes and returns the writer. An error if bytes of a tensor are missing.
    pub fn finish(mut self) -> io::Result<W> {
        if self.left != 0 || self.begun != self.lens.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_layout_of_the_format() {
        let mut file = GgufFile { alignment: 16, ..GgufFile::default() };
        file.meta("a", Value::Bool(true)).meta("b", Value::strings(["x"]));
        file.tensor_f32("t", &[2], &[1.0, 2.0]).tensor_f32("u", &[1], &[3.0]);
        let bytes = file.to_bytes();
        assert_eq!(&bytes[..8], b"GGUF\x03\0\0\0");
        assert_eq!(bytes[8..24], [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..38], [1, 0, 0, 0, 0, 0, 0, 0, b'a', 7, 0, 0, 0, 1]);
        assert_eq!(bytes.len() % 16, 0);
        let data = bytes.len() - 32;
        assert_eq!(bytes[data..data + 8], [0, 0, 128, 63, 0, 0, 0, 64]);
        assert_eq!(bytes[data + 16..data + 20], [0, 0, 64, 64]);
    }

    #[test]
    fn a_stream_writes_the_same_bytes_and_counts_them() {
        let mut file = GgufFile::new();
        file.meta("a", Value::U8(1)).tensor_f32("t", &[2], &[1.0, 2.0]).tensor_f32("u", &[1], &[3.0]);
        let infos: Vec<TensorInfo> = file.tensors.iter().map(|(info, _)| info.clone()).collect();
        let mut stream = GgufStream::begin(Vec::new(), &file.metadata, &infos).unwrap();
        stream.write(&file.tensors[0].1[..4]).unwrap();
        assert!(stream.write(&[0; 5]).is_err());
        let mut stream = GgufStream::begin(Vec::new(), &file.metadata, &infos).unwrap();
        for (_, data) in &file.tensors {
            data.chunks(4).for_each(|piece| stream.write(piece).unwrap());
        }
        assert_eq!(stream.finish().unwrap(), file.to_bytes());
    }

    #[test]
    fn tensors_are_divided_among_the_parts() {
        let mut file = GgufFile::new();
        file.meta("a", Value::U8(1));
        for name in ["t", "u", "v"] {
            file.tensor_f32(name, &[1], &[0.0]);
        }
        let counts: Vec<u8> = file.to_parts(2).iter().map(|part| part[8]).collect();
        assert_eq!(counts, [2, 1]);
    }
}
