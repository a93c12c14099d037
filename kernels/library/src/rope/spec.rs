//! What follows the products of queries, keys and values: head norm, rotation, and the write to the KV cache.
//!
//! One wave a head of a row (grid X heads of all parts, grid Y rows). Products of keys and values come from scratch.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_core::quant::Type;

/// Heads of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadPart {
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head.
    pub dim: u32,
    /// Whether heads are normalized.
    pub norm: bool,
    /// Pairs that turn, and whether they are neighbors.
    pub rope: Option<(u32, bool)>,
    /// How the cache keeps elements, and bytes of a page with all layers; `None` writes back to the input.
    pub cache: Option<(Type, u64)>,
}

/// Heads of all parts of a projection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadsSpec {
    /// The parts.
    pub parts: Vec<HeadPart>,
}

/// HeadArguments of one part beside its products.
pub(crate) struct HeadArguments {
    pub(crate) norm: Option<(Value, Value)>,
    pub(crate) rope: Option<Value>,
    pub(crate) cache: Option<Value>,
    /// LDS of a head for each wave, where heads are quantized.
    pub(crate) staged: Option<u32>,
}

impl HeadsSpec {
    /// Unique name.
    pub(crate) fn name(&self) -> String {
        let mut name = String::from("heads");
        for part in &self.parts {
            let _ = write!(name, "_{}", part.name());
        }
        name
    }

    /// The function.
    pub(crate) fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), 32);
        let buffers = ["positions", "tables", "pages"].map(|name| k.buffer(name));
        let arguments: Vec<(Value, HeadArguments)> =
            self.parts.iter().map(|part| (k.buffer("input"), part.arguments(&mut k, 1))).collect();
        let (number, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let mut before = 0;
        for (part, (input, arguments)) in self.parts.iter().zip(&arguments) {
            let start = k.int(before);
            let head = k.sub(number, start);
            let count = k.int(part.heads);
            let here = k.lt_u(head, count);
            k.when(here, |k| part.body(k, *input, arguments, buffers, [row, head]));
            before += part.heads;
        }
        k.finish()
    }
}

impl HeadPart {
    /// Short name.
    pub(crate) fn name(self) -> String {
        let mut name = format!("{}x{}{}", self.heads, self.dim, if self.norm { "n" } else { "" });
        if let Some((pairs, adjacent)) = self.rope {
            let _ = write!(name, "r{pairs}{}", if adjacent { "a" } else { "h" });
        }
        if let Some((kv_type, page)) = self.cache {
            let _ = write!(name, "c{kv_type}_{page}");
        }
        name
    }

    /// Declares the arguments beside the products, for workgroups of `waves`.
    pub(crate) fn arguments(self, k: &mut Builder, waves: u32) -> HeadArguments {
        let quantized = self.cache.is_some_and(|(kv_type, _)| kv_type == Type::Q8_0);
        HeadArguments {
            norm: self.norm.then(|| (k.buffer("head_norm"), k.scalar("head_eps", Elem::Float))),
            rope: self.rope.map(|_| k.buffer("rope")),
            cache: self.cache.map(|_| k.buffer("cache")),
            staged: quantized.then(|| k.local(4 * self.dim * waves)),
        }
    }
}
