//! GPU kernels of a plan's operations: written in the compiler's builder, specialized for shape, format and chip.
//!
//! [`lower()`] turns one operation of a plan into launches. A [`Launch`] names its kernel by [`Recipe`], which is all
//! that compiling needs; the driver compiles each recipe once. Not here: memory, queues, packets.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod activation;
mod argmax;
mod attend;
mod embed;
mod experts;
mod glu;
mod idiom;
mod launch;
mod layout;
mod lower;
mod norm;
mod nowhere;
mod prefill;
mod product;
mod project;
mod recipe;
mod rope;
mod route;
mod step;
mod trap;
mod unpack;

// What the driver needs to compile recipes for its chip.
pub use doorbell_compiler as compiler;
pub use doorbell_compiler::isa;

pub use argmax::{Largest, RING};
pub use attend::{Attention, AttentionShape, Flash};
pub use embed::{Embedding, Selection};
pub use experts::{ExpertsDown, ExpertsUp, Stack};
pub use glu::Bend;
pub use launch::{Cost, Launch};
pub use layout::{KvLayout, RopeTable};
pub use lower::{Unsupported, lower, lower_by, scratch_bytes, supports};
pub use norm::NormAddition;
pub use nowhere::{Nowhere, recipes};
pub use prefill::{Combine, Gemm, Group, Grouped, Halve, Path, Quantize};
pub use project::{Factor, Finish, Projection, Share};
pub use recipe::{Recipe, RecipeError};
pub use rope::{HeadFinish, HeadPart};
pub use route::{Gate, Routing};
pub use step::{Inputs, KvPool, Step};
pub use trap::trap_handler;
