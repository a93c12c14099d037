//! A plan: what a model becomes for one batch shape, as a flat list of semantic operations.
//!
//! Data only: no closures, no device types. How a plan is made from a model is in [`crate::model`]; what each
//! operation computes is defined by [`crate::reference`].

mod batch;
mod id;
mod kv_pages;
mod kv_type;
mod memory;
mod op;

pub use batch::{Batch, BatchError, BatchLimits, PageId, PageSpan, PageTables, RowRun, StateId};
pub use id::{GroupId, RopeId, TensorId, VectorId, WeightId};
pub use kv_pages::{KvPages, MAX_GROUPS, PAGE_TOKENS, first_page, pages_of};
pub use kv_type::{KvError, KvType, UnknownKvType};
pub(crate) use memory::Builder;
pub use memory::{Element, Plan, PlanError, Rows, Shape, Tensor};
pub use op::{
    Activation, Attend, DeltaGates, DeltaNet, DeltaShape, Epilogue, ExpertGroups, Experts, Gating, Glu, Head,
    HeadOrder, HeadResult, HeadTarget, KvSlot, Matrix, Norm, NormAdd, NormKind, Op, Part, Project, Rotate,
    Route, StateSlot, Temperature, Update,
};
