//! The work on heads between their products and attention: head norm, rotation, and the write to the KV cache.
//!
//! One wave a head of a row (grid X heads of all parts, grid Y rows). Products of keys and values come from scratch.
//! Not here: one head (`head`), which the workgroups of a projection also finish.

use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;
use doorbell_core::quant::Type;

/// The rotation of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RotationSpec {
    /// Pairs that turn.
    pub pairs: u32,
    /// True if the elements of a pair are neighbors.
    pub adjacent: bool,
}

/// The KV cache of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheSpec {
    /// Element type.
    pub ty: Type,
    /// Bytes of a page with all layers.
    pub page_bytes: u64,
}

/// Heads of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadPart {
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head.
    pub dim: u32,
    /// True if heads are normalized.
    pub norm: bool,
    /// The rotation, if heads turn.
    pub rope: Option<RotationSpec>,
    /// The cache to which heads are written; `None` writes back to the input.
    pub cache: Option<CacheSpec>,
}

/// Heads of all parts of a projection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadsSpec {
    /// The parts.
    pub parts: Vec<HeadPart>,
}

/// Arguments for the rows of a batch.
#[derive(Clone, Copy)]
pub(crate) struct BatchArguments {
    /// Positions by row.
    pub(crate) positions: Value,
    /// Starts of page tables by row.
    pub(crate) tables: Value,
    /// Page tables.
    pub(crate) pages: Value,
}

/// Arguments of one part beside its products.
pub(crate) struct HeadArguments {
    /// Weight and epsilon.
    pub(crate) norm: Option<(Value, Value)>,
    pub(crate) rope: Option<Value>,
    pub(crate) cache: Option<Value>,
    /// LDS of a head for each wave, where heads are quantized.
    pub(crate) staged: Option<u32>,
}

impl BatchArguments {
    /// Declares them.
    pub(crate) fn new(k: &mut Builder) -> Self {
        let [positions, tables, pages] = ["positions", "tables", "pages"].map(|name| k.buffer(name));
        Self { positions, tables, pages }
    }
}

impl Kernel for HeadsSpec {
    fn name(&self) -> String {
        let mut name = String::from("heads");
        for part in &self.parts {
            let _ = write!(name, "_{}", part.name());
        }
        name
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), 32);
        let batch = BatchArguments::new(&mut k);
        let arguments: Vec<(Value, HeadArguments)> =
            self.parts.iter().map(|part| (k.buffer("input"), part.arguments(&mut k, 1))).collect();
        let (number, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let mut before = 0;
        for (part, (input, arguments)) in self.parts.iter().zip(&arguments) {
            let start = k.int(before);
            let head = k.sub(number, start);
            k.when(head.lt(part.heads), |k| part.body(k, *input, arguments, batch, row, head));
            before += part.heads;
        }
        Ok(k.finish())
    }
}

impl HeadPart {
    /// Short name.
    pub(crate) fn name(self) -> String {
        let mut name = format!("{}x{}{}", self.heads, self.dim, if self.norm { "n" } else { "" });
        if let Some(RotationSpec { pairs, adjacent }) = self.rope {
            let _ = write!(name, "r{pairs}{}", if adjacent { "a" } else { "h" });
        }
        if let Some(CacheSpec { ty, page_bytes }) = self.cache {
            let _ = write!(name, "c{ty}_{page_bytes}");
        }
        name
    }

    /// Declares the arguments beside the products, for workgroups of `waves`.
    pub(crate) fn arguments(self, k: &mut Builder, waves: u32) -> HeadArguments {
        let quantized = self.cache.is_some_and(|cache| cache.ty == Type::Q8_0);
        HeadArguments {
            norm: self.norm.then(|| (k.buffer("head_norm"), k.scalar("head_eps", Elem::Float))),
            rope: self.rope.map(|_| k.buffer("rope")),
            cache: self.cache.map(|_| k.buffer("cache")),
            staged: quantized.then(|| k.local(4 * self.dim * waves)),
        }
    }
}
