//! GPU kernels of a plan's operations: written in the compiler's builder, specialized for shape, format and chip.
//!
//! Its layers, from the caller down:
//!
//! 1. [`lower()`] turns one operation of a plan into launches, with addresses from a [`Step`]. A [`Launch`] names its kernel
//!    by [`KernelSpec`], which is all that compiling needs; the driver compiles each spec once.
//! 2. [`KernelSpec`] is the table of kernels. They stand in folders by what they compute: `gemv` (few rows), `gemm` (many
//!    rows), `attention`, `delta_net`, `moe`, `rope`, `rows`.
//! 3. `formats` is the table of weight formats, with one file per block layout.
//!
//! A spec can be compiled by itself, here the kernel that takes the largest of 32,000 logits:
//!
//! ```
//! use doorbell_kernels::compiler::{Options, compile};
//! use doorbell_kernels::isa::Target;
//! use doorbell_kernels::{ArgMax, KernelSpec};
//!
//! let spec = KernelSpec::from(ArgMax { cols: 32_000, feeds: false });
//! let function = spec.function(Target::Gfx1151)?;
//! let kernel = compile(&function, Target::Gfx1151, &Options::default())?;
//! assert!(kernel.resources.vgprs < 64);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Not here: memory, queues, packets (`doorbell-gpu`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attention;
mod builder_ext;
mod delta_net;
mod dry_run;
mod formats;
mod gemm;
mod gemv;
mod glu;
mod kernel;
mod kernel_spec;
mod launch;
mod layout;
mod lower;
mod moe;
mod rope;
mod rows;
mod step;
mod trap;

// What the driver needs to compile specs for its chip.
pub use doorbell_compiler as compiler;
pub use doorbell_compiler::isa;

pub use attention::decode::spec::DecodeAttention;
pub use attention::prefill::spec::PrefillAttention;
pub use attention::shape::AttentionShape;
pub use delta_net::keep::KeepInputs;
pub use delta_net::spec::DeltaNetSpec;
pub use dry_run::{DryRun, kernel_specs};
pub use formats::spec::WEIGHT_TYPES;
pub use gemm::activations_f16::ActivationsF16;
pub use gemm::activations_i8::ActivationsI8;
pub use gemm::kernel::Gemm;
pub use gemm::path::MatrixPath;
pub use gemv::spec::{MatrixSpec, OutputMode, PartSpec, Projection};
pub use glu::GluSpec;
pub use kernel::SpecError;
pub use kernel_spec::KernelSpec;
pub use launch::{Cost, Launch};
pub use layout::{KvLayout, RopeTable};
pub use lower::{Unsupported, lower, lower_by, scratch_bytes, supports};
pub use moe::combine::CombineExperts;
pub use moe::experts::ExpertMatrix;
pub use moe::experts_down::ExpertsDown;
pub use moe::experts_up::ExpertsUp;
pub use moe::group_rows::GroupRows;
pub use moe::grouped_spec::GroupedGemm;
pub use moe::route::{RouterGating, Routing};
pub use rope::spec::{CacheSpec, HeadPart, HeadsSpec, RotationSpec};
pub use rows::argmax::{ArgMax, RING};
pub use rows::copy::CopyWords;
pub use rows::embed::{Embedding, SelectRows};
pub use rows::launch::copy_words;
pub use rows::norm::NormAdd;
pub use step::{Inputs, KvPool, RowAddresses, Step};
pub use trap::handler::trap_handler;
