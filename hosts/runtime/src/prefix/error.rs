//! Errors of saving and restoring prefixes.

use crate::serve::ServiceError;
use core::fmt;
use doorbell_core::backend::PageError;
use doorbell_core::engine::AllocateError;
use doorbell_core::heap::OutOfMemory;
use std::io;

/// Reason why a prefix can't be saved or restored. No message contains a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum PrefixError {
    /// The name is not a plain file name.
    Name,
    /// There is no such slot.
    Slot {
        /// Its number.
        slot: u32,
        /// Number of slots.
        slots: usize,
    },
    /// Another prefix is being saved or restored.
    Busy,
    /// There is no such file.
    Missing,
    /// The name is not that of a regular file.
    NotAFile,
    /// The file is not a saved prefix, or was saved by another version.
    Foreign,
    /// The length of the file differs from that in its header.
    Length {
        /// Bytes according to the header.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A checksum is wrong.
    Damaged {
        /// The damaged part of the file.
        part: &'static str,
    },
    /// The file was saved with another model.
    Model,
    /// The file was saved by another backend, or with another type of keys and values.
    Form {
        /// Format of this engine's pages.
        expected: String,
        /// Format of the file's pages.
        found: String,
    },
    /// The prefix is larger than the cache.
    TooLong {
        /// Pages of the file.
        needed: u64,
        /// Pages of the cache.
        pages: u32,
    },
    /// The files of the folder would take more than they may.
    Full {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes that all files may take.
        limit: u64,
    },
    /// A token is not in the vocabulary.
    Token,
    /// The device can't copy its pages.
    Page(PageError),
    /// Pages can't be allocated.
    Take(AllocateError),
    /// There is not enough memory.
    Memory(OutOfMemory),
    /// The engine has ended.
    Service(ServiceError),
    /// The system returned an error.
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
            Self::NotAFile => f.write_str("it is not a regular file"),
            Self::Foreign => f.write_str("not a prefix that this version of doorbell saved; save it again"),
            Self::Length { expected, found } => {
                write!(f, "the file should have {expected} bytes and has {found}; save it again")
            }
            Self::Damaged { part } => write!(f, "the file is damaged in its {part}; save it again"),
            Self::Model => f.write_str("the file was saved with another model"),
            Self::Form { expected, found } => {
                write!(f, "the file has keys and values as {found}, and this server has {expected}")
            }
            Self::TooLong { needed, pages } => {
                write!(f, "the file has {needed} pages and the cache {pages}; use a larger --ctx")
            }
            Self::Full { bytes, limit } => write!(
                f,
                "the file takes {bytes} bytes, and with it the saved prefixes take more than the limit of {limit}; save over an earlier one, or start the server with a larger --slot-save-limit"
            ),
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
