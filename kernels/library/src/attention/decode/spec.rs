//! Causal attention row by row: query heads that share keys and values share their loads.
//!
//! A wave takes half a page and loads all of it at once, lines as a whole, lanes beside one another at one position's
//! elements. Eight halves, one a wave, make a split; they are combined at once, then splits are merged in order, so that
//! a row's result depends on nothing but the row. Few rows spread their splits over workgroups, the last of which
//! merges; others take them one by one. Not here: many rows of a sequence (`prefill`).

use super::lanes::Lanes;
use super::parts::WAVES;
use crate::attention::shape::AttentionShape;

/// Query heads that share loads, and those where splits are spread over workgroups.
const HEADS: [u32; 2] = [4, 2];

/// Attention row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecodeAttention {
    /// Heads, cache, visible positions.
    pub shape: AttentionShape,
    /// True if splits are spread over workgroups.
    pub spread: bool,
    /// True if only rows are taken that have no neighbor of their sequence.
    pub single: bool,
}

impl DecodeAttention {
    /// Workgroups that share a KV head.
    pub(crate) fn tiles(self) -> u32 {
        // Few rows have waves to spare: heads then share less, and finish sooner.
        let most = HEADS[usize::from(self.spread)];
        let most = (1024 / self.shape.dims[1]).clamp(1, most);
        self.shape.group.div_ceil(most).next_power_of_two()
    }

    /// Query heads of a workgroup.
    pub(crate) fn tile(self) -> u32 {
        self.shape.group.div_ceil(self.tiles())
    }

    /// Elements that a workgroup computes.
    pub(crate) fn elements(self) -> u32 {
        self.tile() * self.shape.dims[1]
    }

    /// Elements that a work item merges.
    pub(crate) fn slots(self) -> u32 {
        self.elements().div_ceil(32 * WAVES)
    }

    /// Bytes of a partial result of one head: elements, maximum, sum, padding.
    pub(crate) fn head_bytes(self) -> u32 {
        4 * (self.shape.dims[1] + 4)
    }

    /// The lanes over keys.
    pub(crate) fn key_lanes(self) -> Lanes {
        Lanes { dim: self.shape.dims[0] }
    }

    /// The lanes over values.
    pub(crate) fn value_lanes(self) -> Lanes {
        Lanes { dim: self.shape.dims[1] }
    }
}
