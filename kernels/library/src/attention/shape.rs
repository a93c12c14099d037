//! What an attention is of, whichever kernel computes it.

use alloc::format;
use alloc::string::String;
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::quant::Type;

/// Positions of a page.
pub(crate) const PAGE: u32 = PAGE_TOKENS as u32;

/// Heads, their cache, and what they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttentionShape {
    /// KV heads.
    pub kv_heads: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// Elements of a key and of a value.
    pub dims: [u32; 2],
    /// How the cache keeps them: F16, F32 or Q8_0.
    pub kv_type: Type,
    /// Bytes of a page of all layers, of keys and of values.
    pub pages: [u32; 2],
    /// Positions visible.
    pub window: Option<u32>,
    /// Bits of the soft cap, 0 for none.
    pub cap: u32,
    /// Whether heads have a virtual score.
    pub sinks: bool,
}

impl AttentionShape {
    /// Query heads of a row.
    pub(crate) fn heads(self) -> u32 {
        self.kv_heads * self.group
    }

    /// The part of kernels' names that tells it.
    pub(crate) fn name(self) -> String {
        let Self { kv_heads, group, dims: [key, value], pages: [keys, values], cap, .. } = self;
        let (kv_type, window) = (self.kv_type.name(), self.window.unwrap_or(0));
        let sinks = if self.sinks { "_sinks" } else { "" };
        format!("{kv_heads}x{group}_{key}x{value}{kv_type}_p{keys}x{values}_w{window}_c{cap:x}{sinks}")
    }
}
