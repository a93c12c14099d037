//! Why a prefix can't be saved or restored.

use crate::serve::ServiceError;
use core::fmt;
use doorbell_core::backend::PageError;
use doorbell_core::engine::AllocateError;
use doorbell_core::heap::OutOfMemory;
use std::io;

/// Why a prefix can't be saved or restored. No message has a path in it.
#[derive(Debug)]
#[non_exhaustive]
pub enum PrefixError {
    /// Not a plain name.
    Name,
    /// There is no such slot.
    Slot {
        /// Its number.
        slot: u32,
        /// Slots there are.
        slots: usize,
    },
    /// Another prefix is being saved or restored.
    Busy,
    /// There is no such file.
    Missing,
    /// Something that is no file has that name.
    NotAFile,
    /// The file is none of these, or one of another version.
    Foreign,
    /// The length doesn't fit what the file says of itself.
    Length {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A checksum doesn't fit.
    Damaged {
        /// What it is of.
        part: &'static str,
    },
    /// Saved with another model.
    Model,
    /// Saved by another backend, or with another type of keys and values.
    Form {
        /// What is here.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// More tokens than the cache has room for.
    TooLong {
        /// Pages of the file.
        needed: u64,
        /// Pages there are.
        pages: u32,
    },
    /// A token that is not in the vocabulary.
    Token,
    /// The device keeps its pages to itself.
    Page(PageError),
    /// Pages can't be had.
    Take(AllocateError),
    /// The heap refused.
    Memory(OutOfMemory),
    /// The engine has ended.
    Service(ServiceError),
    /// The system refused.
    System(io::ErrorKind),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str(
                "must be a plain file name of at most 128 letters, digits, dots, dashes and underscores",
            ),
            Self::Slot { slot, slots } => write!(f, "there is no slot {slot}; there are {slots}"),
            Self::Busy => f.write_str("another prefix is being saved or restored; try again later"),
            Self::Missing => f.write_str("there is no such file"),
            Self::NotAFile => f.write_str("what has that name is not a file"),
            Self::Foreign => f.write_str("not a prefix that this version of doorbell saved; save it anew"),
            Self::Length { expected, found } => {
                write!(f, "the file should have {expected} bytes and has {found}; save it anew")
            }
            Self::Damaged { part } => write!(f, "the file is damaged in its {part}; save it anew"),
            Self::Model => f.write_str("the file was saved with another model"),
            Self::Form { expected, found } => {
                write!(f, "the file has keys and values as {found}, and this server has {expected}")
            }
            Self::TooLong { needed, pages } => {
                write!(
                    f,
                    "the file has {needed} pages, and the cache has room for {pages}; use a larger --ctx"
                )
            }
            Self::Token => f.write_str("the file has tokens that this model doesn't have"),
            Self::Page(error) => error.fmt(f),
            Self::Take(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
            Self::System(kind) => write!(f, "the file can't be used: {kind}"),
        }
    }
}

impl core::error::Error for PrefixError {}

impl From<io::Error> for PrefixError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            kind => Self::System(kind),
        }
    }
}

impl From<PageError> for PrefixError {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

impl From<AllocateError> for PrefixError {
    fn from(error: AllocateError) -> Self {
        Self::Take(error)
    }
}

impl From<OutOfMemory> for PrefixError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl From<ServiceError> for PrefixError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}
