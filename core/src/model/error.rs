//! Errors of binding a file as a model.

use crate::gguf::KeyError;
use crate::heap::OutOfMemory;
use crate::plan::PlanError;
use crate::quant;
use core::fmt;
use heapless::String;

/// A metadata key or tensor name, as built from the architecture and layer.
pub type Name = String<96>;

/// The beginning of a text from a file, without what is not UTF-8.
pub(super) fn excerpt<const N: usize>(bytes: &[u8]) -> String<N> {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            if text.push(char).is_err() {
                return text;
            }
        }
    }
    text
}

/// A fault of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TensorFault {
    /// It is not in the file.
    Missing,
    /// Its dimensions (fastest first) are not the expected ones; 0 = any.
    Shape {
        /// The shape that the metadata implies.
        expected: [u64; 3],
        /// The shape in the file.
        found: [u64; 4],
    },
    /// No arithmetic for this type.
    Type(quant::Type),
    /// Nothing reads it.
    Surplus,
}

/// A file that is not a model that can be run.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ModelError {
    /// The heap refused.
    Memory(OutOfMemory),
    /// `general.architecture` is missing or not text.
    NoArchitecture,
    /// An architecture without a row in the table; the name is cut at 32 bytes.
    UnknownArchitecture(String<32>),
    /// A required key is missing or of the wrong type.
    Key(KeyError),
    /// A key's value is out of its legal range.
    Value {
        /// The key.
        key: Name,
        /// Its value.
        found: f64,
        /// A description of the accepted values.
        expected: &'static str,
    },
    /// A tensor is missing or unusable.
    Tensor {
        /// Its name.
        name: Name,
        /// Its fault.
        fault: TensorFault,
    },
    /// Layers differ in more ways than the KV groups can hold.
    TooManyGroups(usize),
    /// The plan could not be made.
    Plan(PlanError),
}

impl From<OutOfMemory> for ModelError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<KeyError> for ModelError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<PlanError> for ModelError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl fmt::Display for TensorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "missing; the file is incomplete or of another architecture"),
            Self::Shape { expected, found } => {
                write!(
                    f,
                    "has shape {found:?} where the metadata implies {expected:?} (fastest first, 0 = any)"
                )
            }
            Self::Type(ty) => write!(f, "has type {ty}, which cannot be computed with here"),
            Self::Surplus => {
                write!(f, "is not a part of this architecture here, so answers without it would be wrong")
            }
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::NoArchitecture => {
                write!(f, "the file has no text key general.architecture; it is no language model")
            }
            Self::UnknownArchitecture(name) => {
                write!(f, "architecture {name:?} is not supported; supported are")?;
                super::Family::all().iter().try_for_each(|family| write!(f, " {}", family.name))
            }
            Self::Key(error) => write!(f, "metadata: {error}"),
            Self::Value { key, found, expected } => {
                write!(f, "metadata key {key} is {found}, expected {expected}")
            }
            Self::Tensor { name, fault } => write!(f, "tensor {name} {fault}"),
            Self::TooManyGroups(limit) => write!(f, "layers differ in more than {limit} KV shapes"),
            Self::Plan(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ModelError {}
