//! The shape of an attention, for every kernel that computes it.

use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Builder, Value};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::quant::Type;

/// Positions of a page.
pub(crate) const PAGE: u32 = PAGE_TOKENS as u32;

/// Heads, their cache, and the positions that they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttentionShape {
    /// KV heads.
    pub kv_heads: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// Elements of a key and of a value.
    pub dims: [u32; 2],
    /// Element type of the cache: F16, F32 or Q8_0.
    pub kv_type: Type,
    /// Bytes of a page of all layers, of keys and of values.
    pub pages: [u32; 2],
    /// Positions visible.
    pub window: Option<u32>,
    /// Bits of the soft cap, 0 for none.
    pub cap: u32,
    /// True if heads have a virtual score.
    pub sinks: bool,
    /// True if results are multiplied by the sigmoid of a gate.
    pub gated: bool,
}

impl AttentionShape {
    /// Query heads of a row.
    pub(crate) fn heads(self) -> u32 {
        self.kv_heads * self.group
    }

    /// The part of kernels' names for it.
    pub(crate) fn name(self) -> String {
        let Self { kv_heads, group, dims: [key, value], pages: [keys, values], cap, .. } = self;
        let (ty, window) = (self.kv_type.name(), self.window.unwrap_or(0));
        let sinks = if self.sinks { "_sinks" } else { "" };
        let gated = if self.gated { "_gated" } else { "" };
        format!("{kv_heads}x{group}_{key}x{value}{ty}_p{keys}x{values}_w{window}_c{cap:x}{sinks}{gated}")
    }
}

/// Buffers that both attentions read.
#[derive(Clone, Copy)]
pub(crate) struct AttentionInputs {
    /// Positions of the rows.
    pub(crate) positions: Value,
    /// Starts of their page tables.
    pub(crate) tables: Value,
    /// Page tables.
    pub(crate) pages: Value,
    /// Queries, f32 `[rows, heads, key]`.
    pub(crate) query: Value,
    /// Keys of the layer.
    pub(crate) keys: Value,
    /// Values of the layer.
    pub(crate) values: Value,
}

impl AttentionInputs {
    /// Declares them.
    pub(crate) fn new(k: &mut Builder) -> Self {
        let [positions, tables, pages, query, keys, values] =
            ["positions", "tables", "pages", "query", "keys", "values"].map(|name| k.buffer(name));
        Self { positions, tables, pages, query, keys, values }
    }
}
