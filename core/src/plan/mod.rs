//! A plan: what a model becomes for one batch shape, as a flat list of semantic operations.
//!
//! Data only: no closures, no device types. How a plan is made from a model is in [`crate::model`]; what each
//! operation computes is defined by [`crate::reference`].

mod batch;
mod delta_net;
mod id;
mod kv_pages;
mod kv_type;
mod memory;
mod norm;
mod op;

pub use batch::{Batch, BatchError, BatchLimits, PageId, PageSpan, PageTables, RowRun, StateId};
pub use delta_net::{DeltaGates, DeltaNet, DeltaShape, HeadOrder, StateSlot};
pub use id::{GroupId, RopeId, TensorId, VectorId, WeightId};
pub use kv_pages::{KvPages, MAX_GROUPS, PAGE_TOKENS, first_page, pages_of};
pub use kv_type::{KvError, KvType, UnknownKvType};
pub(crate) use memory::Builder;
pub use memory::{Element, Plan, PlanError, Rows, Shape, Tensor};
pub use norm::{Norm, NormKind};
pub use op::{
    Activation, Attend, Epilogue, ExpertGroups, Experts, Gating, Glu, Head, HeadResult, HeadTarget, KvSlot,
    Matrix, NormAdd, Op, Part, Project, Rotate, Route, Temperature, Update,
};
