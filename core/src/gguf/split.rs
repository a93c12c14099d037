//! Models split over several files: the checks of the files against each other.
//!
//! Hosts find the files by names of the form `NAME-00001-of-00003.gguf`.

use super::{Fault, FromValue, Gguf, GgufError, Subject};
use crate::heap::Heap;

/// The declaration of one file about the split set that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Index of the file, from 0.
    pub number: u64,
    /// Files in the set.
    pub count: u64,
    /// Tensors in the set, if the file declares them.
    pub tensors: Option<u64>,
}

impl<'a> Gguf<'a> {
    /// The declaration of the split set; `None` for a file that belongs to none.
    pub fn split(&self) -> Result<Option<Split>, GgufError> {
        const KEYS: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];
        if KEYS[..2].iter().all(|key| self.get(key).is_none()) {
            return Ok(None);
        }
        let odd = Subject::Set.fault(0, Fault::SplitKeys);
        let [number, count, tensors] = KEYS.map(|key| self.get(key).map(u64::from_value));
        match (number, count, tensors) {
            (Some(Some(number)), Some(Some(count)), None | Some(Some(_))) => {
                Ok(Some(Split { number, count, tensors: tensors.flatten() }))
            }
            _ => Err(odd),
        }
    }

    /// Parses the files of a split set, in order. Metadata comes from the first one, which may have no tensors.
    /// A single file that belongs to no set is accepted, too.
    pub fn parse_split(parts: &[&'a [u8]], heap: Heap<'a>) -> Result<Self, GgufError> {
        let Some((first, rest)) = parts.split_first() else {
            return Err(Subject::Set.fault(0, Fault::EmptySet));
        };
        let mut whole = Self::parse(first, heap)?;
        let split = match whole.split()? {
            None if rest.is_empty() => return Ok(whole),
            split => member(split, 0, parts.len())?,
        };
        for (part, bytes) in (1..).zip(rest) {
            let index = |error| GgufError { part, ..error };
            let other = Self::parse(bytes, heap).map_err(index)?;
            member(other.split().map_err(index)?, part, parts.len()).map_err(index)?;
            whole.append(&other, part).map_err(index)?;
        }
        whole.reindex(heap)?;
        let expected = whole.tensors().len() as u64;
        match split.tensors {
            Some(found) if found != expected => {
                Err(Subject::Set.fault(0, Fault::SplitTensors { expected, found }))
            }
            _ => Ok(whole),
        }
    }
}

/// Checks the index and count of the file with index `part` of `count` files.
fn member(split: Option<Split>, part: usize, count: usize) -> Result<Split, GgufError> {
    let fault = match split {
        None => Fault::SplitKeys,
        Some(split) if split.number != part as u64 => {
            Fault::SplitNumber { expected: part as u64, found: split.number }
        }
        Some(split) if split.count != count as u64 => {
            Fault::SplitCount { expected: count as u64, found: split.count }
        }
        Some(split) => return Ok(split),
    };
    Err(Subject::Set.fault(0, fault))
}
