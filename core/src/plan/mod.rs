//! A plan: what a model becomes for one batch shape, as a flat list of semantic operations.
//!
//! Data only: no closures, no device types. How a plan is made from a model is in [`crate::model`]; what each
//! operation computes is defined by [`crate::reference`].

mod batch;
mod memory;
mod op;

pub use batch::{Batch, BatchError, BatchLimits, PAGE_TOKENS, PageId, PageTables, Run, Span};
pub(crate) use memory::Builder;
pub use memory::{Element, Plan, PlanError, Rows, Shape, Tensor, TensorId};
pub use op::{
    Attend, Epilogue, Experts, Gating, Glu, Head, HeadResult, KvSlot, Matrix, Norm, Op, Part, Project, Route,
};

/// A matrix or expert stack of the model, by position in `Model::weights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub u32);

/// A small f32 vector of the model (norms, biases, scales), by position in `Model::vectors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VectorId(pub u32);

/// A rotary embedding of the model, by position in `Model::ropes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RopeId(pub u8);

/// A KV group of the model (layers that share head shape and window), by position in `Model::groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u8);

impl WeightId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl VectorId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl RopeId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl GroupId {
    /// The position as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
