//! Layouts in device memory that kernels and driver share.

use doorbell_core::backend::KvType;
use doorbell_core::model::KvGroup;
use doorbell_core::plan::PAGE_TOKENS;

/// Keys, or values, of one group: `[pages, layers, heads, PAGE_TOKENS, dim]`, so that one head's page is contiguous;
/// pages are [`KvLayout::page_bytes`] apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Layers of the group.
    pub layers: u32,
    /// KV heads.
    pub heads: u32,
    /// Elements of one key or value.
    pub dim: u32,
    /// Element type.
    pub kv: KvType,
}

impl KvLayout {
    /// Layout of a group's keys.
    pub fn keys(group: &KvGroup, kv: KvType) -> Self {
        Self { layers: group.layers.into(), heads: group.heads, dim: group.key_dim, kv }
    }

    /// Layout of a group's values.
    pub fn values(group: &KvGroup, kv: KvType) -> Self {
        Self { layers: group.layers.into(), heads: group.heads, dim: group.value_dim, kv }
    }

    /// Bytes of one key or value. Drivers refuse heads that are no whole number of the KV type's blocks.
    pub fn row_bytes(&self) -> u64 {
        self.kv.row_bytes(self.dim as usize).unwrap_or(0) as u64
    }

    /// Bytes of one head's part of a page.
    pub fn head_bytes(&self) -> u64 {
        PAGE_TOKENS as u64 * self.row_bytes()
    }

    /// Bytes of one page of one layer.
    pub fn layer_bytes(&self) -> u64 {
        self.head_bytes() * u64::from(self.heads)
    }

    /// Bytes from one page of all layers to the next: an odd number of heads' parts, the last of them unused where there
    /// is an even number of heads. A power of two would put the pages of one head into the same few sets of a cache.
    pub fn page_bytes(&self) -> u64 {
        self.head_bytes() * ((u64::from(self.heads) * u64::from(self.layers)) | 1)
    }
}

/// A rotary table: `[positions, pairs, 2]` f32, cosine then sine, magnitude included, from `Rope::angles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RopeTable {
    /// Pairs per head that turn.
    pub pairs: u32,
}

impl RopeTable {
    /// Bytes of one position.
    pub fn position_bytes(&self) -> u64 {
        8 * u64::from(self.pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// The 8060S has 2 MiB of L2: 1,024 sets of sixteen lines.
    #[test]
    fn pages_of_a_head_fill_a_cache_evenly() {
        let layout = KvLayout { layers: 48, heads: 4, dim: 128, kv: KvType::F16 };
        let sets: BTreeSet<u64> = (0..16)
            .flat_map(|page| {
                let first = page * layout.page_bytes() / 128;
                (first..first + layout.head_bytes() / 128).map(|line| line % 1024)
            })
            .collect();
        assert_eq!(sets.len(), 1024);
    }
}
