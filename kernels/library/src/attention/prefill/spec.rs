//! The shape of attention of many rows: waves, queries and positions of a workgroup.

use crate::attention::kv_elements::supports;
use crate::attention::shape::{AttentionShape, PAGE};
use doorbell_core::quant::Type;

/// Attention of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrefillAttention {
    /// Heads, cache, visible positions; elements are multiples of 16.
    pub shape: AttentionShape,
}

/// Queries of a wave.
pub(crate) const QUERIES: u32 = 16;
/// Widest key that stays in registers as a query; others are read from LDS.
const KEPT: u32 = 128;

impl PrefillAttention {
    /// Slots for query heads of a row in a wave.
    pub(crate) fn slots(self) -> u32 {
        self.shape.group.min(QUERIES).next_power_of_two()
    }

    /// Workgroups that share a KV head and rows.
    fn head_tiles(self) -> u32 {
        self.shape.group.div_ceil(QUERIES)
    }

    /// Waves of a workgroup.
    pub(crate) fn waves(self) -> u32 {
        if self.wide() { 4 } else { 8 }
    }

    /// True if queries are too wide for registers.
    pub(crate) fn wide(self) -> bool {
        self.shape.dims.into_iter().max() > Some(KEPT)
    }

    /// Positions of a step: LDS holds that many keys and values.
    pub(crate) fn step(self) -> u32 {
        if self.wide() { PAGE / 2 } else { PAGE }
    }

    /// Rows of a workgroup.
    pub(crate) fn rows(self) -> u32 {
        self.waves() * QUERIES / self.slots()
    }

    /// True if there is a kernel for such heads.
    pub(crate) fn fits(self) -> bool {
        let fits = |dim: u32| (16..=256).contains(&dim) && dim.is_multiple_of(16);
        self.shape.kv_type != Type::F32
            && self.shape.dims.into_iter().all(|dim| fits(dim) && supports(self.shape.kv_type, dim))
    }

    /// Workgroups for a number of rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [rows.div_ceil(self.rows()), self.shape.kv_heads, self.head_tiles()]
    }
}
