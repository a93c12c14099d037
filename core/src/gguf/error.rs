//! Errors of parsing: the fault, its byte offset, and the key or tensor that has it.

use super::Kind;
use crate::heap::OutOfMemory;
use crate::quant::Type;
use core::fmt;

/// The first 64 bytes of a name from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Label {
    bytes: heapless::Vec<u8, 64, u8>,
    cut: bool,
}

impl Label {
    pub(crate) fn new(name: &[u8]) -> Self {
        let kept = &name[..name.len().min(64)];
        Self { bytes: heapless::Vec::from_slice(kept).unwrap_or_default(), cut: kept.len() < name.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            write!(f, "{}", chunk.valid().escape_debug())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        f.write_str(if self.cut { "..." } else { "" })
    }
}

/// The part of the file that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Subject {
    /// Magic, version and counts.
    Header,
    /// The metadata entry with this index, before its key is known.
    Entry(u64),
    /// The metadata entry with this key.
    Key(Label),
    /// The tensor declaration with this index, before its name is known.
    Declaration(u64),
    /// The tensor with this name.
    Tensor(Label),
    /// The consistency of the files of a split set.
    Set,
}

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Fault {
    /// The file ends before something that it declares.
    Truncated {
        /// Bytes needed here.
        needed: u64,
        /// Bytes that are left.
        present: u64,
    },
    /// The first four bytes are not `GGUF`.
    Magic {
        /// The bytes found.
        found: [u8; 4],
    },
    /// A version other than 2 and 3.
    Version {
        /// The version found.
        found: u32,
    },
    /// A file in the other byte order.
    BigEndian,
    /// More entries or tensors than the limit, or a negative count.
    Count {
        /// The count found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// More elements than an array or bytes than a string may have.
    TooLong {
        /// The length found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A metadata entry with an empty key.
    EmptyKey,
    /// A key that occurs twice.
    DuplicateKey,
    /// A value type id that GGUF does not have.
    ValueType {
        /// The id found.
        found: u32,
    },
    /// An array of arrays.
    NestedArray,
    /// `general.alignment` that is not a u32.
    AlignmentType {
        /// The type found.
        found: Kind,
    },
    /// `general.alignment` that is zero or no power of two.
    Alignment {
        /// The value found.
        found: u32,
    },
    /// A tensor name of 64 bytes or more.
    NameLength {
        /// Its length.
        found: u64,
    },
    /// A tensor name that occurs twice.
    DuplicateTensor,
    /// More than four dimensions.
    Rank {
        /// The number of dimensions found.
        found: u32,
    },
    /// A negative dimension.
    Dimension {
        /// Its index, from 0, the fastest-varying first.
        axis: u8,
        /// The value found.
        found: i64,
    },
    /// A shape whose elements or bytes cannot be counted in 63 bits.
    SizeOverflow,
    /// An unknown tensor type id.
    TensorType {
        /// The id found.
        found: u32,
    },
    /// A tensor type that ggml has removed.
    RemovedType {
        /// The type.
        ty: Type,
    },
    /// A row length that is no multiple of the type's block.
    RowLength {
        /// The tensor's type.
        ty: Type,
        /// The row length found.
        found: u64,
    },
    /// The other layout under id 42: 128 elements in 34 bytes instead of 64 in 18.
    PrivateQ2_0,
    /// A tensor that does not start where the one before it ends, rounded up to the alignment.
    Offset {
        /// The offset that follows from the tensors before.
        expected: u64,
        /// The offset found.
        found: u64,
    },
    /// Tensor data that ends beyond the end of the file.
    DataPastEnd {
        /// Bytes of the tensor.
        needed: u64,
        /// Bytes of it that the file has.
        present: u64,
    },
    /// A set of no files.
    EmptySet,
    /// A file of a split set without, or with unusable, `split.no`, `split.count` or `split.tensors.count`.
    SplitKeys,
    /// `split.no` is not the file's index in the set.
    SplitNumber {
        /// The index, from 0.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// `split.count` is not the number of files.
    SplitCount {
        /// Files given.
        expected: u64,
        /// The count found.
        found: u64,
    },
    /// `split.tensors.count` is not the number of tensors of the set.
    SplitTensors {
        /// Tensors in the files.
        expected: u64,
        /// The count found.
        found: u64,
    },
    /// The heap refused.
    Memory(OutOfMemory),
}

/// A file that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GgufError {
    /// The fault.
    pub fault: Fault,
    /// The part of the file.
    pub subject: Subject,
    /// Byte offset in the file.
    pub at: u64,
    /// Index of the file in a split set, from 0.
    pub part: usize,
}

impl Subject {
    /// The error of a `fault` at byte `at`.
    pub(super) fn fault(self, at: u64, fault: Fault) -> GgufError {
        GgufError { fault, subject: self, at, part: 0 }
    }
}

impl From<OutOfMemory> for Fault {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Entry(index) => write!(f, "metadata entry {index}"),
            Self::Key(key) => write!(f, "key \"{key}\""),
            Self::Declaration(index) => write!(f, "tensor declaration {index}"),
            Self::Tensor(name) => write!(f, "tensor \"{name}\""),
            Self::Set => f.write_str("split set"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, present } => {
                write!(f, "needs {needed} bytes, but {present} are left; the file is truncated")
            }
            Self::Magic { found } => {
                write!(f, "not a GGUF file: it starts with \"{}\"", found.escape_ascii())
            }
            Self::Version { found: 1 } => f.write_str("GGUF version 1; convert it to version 3"),
            Self::Version { found } => write!(f, "GGUF version {found}; versions 2 and 3 are read"),
            Self::BigEndian => f.write_str("a big-endian file; convert it to little endian"),
            Self::Count { found, limit } => write!(f, "a count of {found}; at most {limit} are read"),
            Self::TooLong { found, limit } => write!(f, "a length of {found}; at most {limit} is read"),
            Self::EmptyKey => f.write_str("an empty key"),
            Self::DuplicateKey => f.write_str("the key occurs twice"),
            Self::ValueType { found } => write!(f, "unknown value type {found}"),
            Self::NestedArray => f.write_str("an array of arrays"),
            Self::AlignmentType { found } => write!(f, "the alignment is {found}, not u32"),
            Self::Alignment { found } => write!(f, "alignment {found} is no power of two"),
            Self::NameLength { found } => write!(f, "a name of {found} bytes; at most 63 are read"),
            Self::DuplicateTensor => f.write_str("the name occurs twice"),
            Self::Rank { found } => write!(f, "{found} dimensions; at most 4 are read"),
            Self::Dimension { axis, found } => write!(f, "dimension {axis} is {found}"),
            Self::SizeOverflow => f.write_str("the shape is too large to count its bytes"),
            Self::TensorType { found } => {
                write!(f, "unknown tensor type {found}: a newer or private format")
            }
            Self::RemovedType { ty } => write!(
                f,
                "tensor type {} ({ty}) was removed from ggml; requantize the model{}",
                ty.id(),
                if ty == Type::IQ4_NL_4_4 { " (BitNet's I2_S uses the same id)" } else { "" }
            ),
            Self::RowLength { ty, found } => {
                write!(f, "a row of {found} elements is no multiple of {ty}'s block of {}", ty.block_len())
            }
            Self::PrivateQ2_0 => f.write_str(
                "tensor type 42 in a private layout (128 elements in 34 bytes); requantize the model",
            ),
            Self::Offset { expected, found } => write!(f, "its data is at offset {found}, not {expected}"),
            Self::DataPastEnd { needed, present } => {
                write!(f, "needs {needed} bytes, but {present} are there; the file is truncated")
            }
            Self::EmptySet => f.write_str("no files"),
            Self::SplitKeys => f.write_str("split.no, split.count or split.tensors.count is missing or odd"),
            Self::SplitNumber { expected, found } => {
                write!(f, "split.no is {found} where {expected} was expected; give the files in order")
            }
            Self::SplitCount { expected, found } => {
                write!(f, "split.count is {found}, but {expected} files were given")
            }
            Self::SplitTensors { expected, found } => {
                write!(f, "split.tensors.count is {found}, but the files hold {expected}")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.part > 0 {
            write!(f, "file {} of the set: ", self.part + 1)?;
        }
        write!(f, "{} at byte {}: {}", self.subject, self.at, self.fault)
    }
}

impl core::error::Error for GgufError {}
