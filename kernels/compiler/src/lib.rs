//! The kernel compiler: IR built in Rust to code objects for AMD GPUs, without LLVM.
//!
//! Its layers, in the order in which a kernel goes through them:
//!
//! 1. [`ir`]: what a kernel is written in, SSA values in structured control flow. A [`Builder`](ir::Builder) has a method
//!    for every operation, and [`Expr`](ir::Expr) lets them read like mathematics.
//! 2. [`pass`]: lowers it step by step to instructions in registers, with waits and hazards in place ([`machine`] is the
//!    form in between).
//! 3. [`check`]: proves the result, independently of the passes.
//! 4. [`mod@object`]: kernel descriptor, arguments and ELF file.
//!
//! [`compile()`] runs them all. A kernel that multiplies a vector by a number:
//!
//! ```
//! use doorbell_compiler::ir::{Builder, Elem, Width, global};
//! use doorbell_compiler::isa::Target;
//! use doorbell_compiler::{Options, compile};
//!
//! let mut k = Builder::new("scale", 64);
//! let (x, y) = (k.buffer("x"), k.buffer("y"));
//! let factor = k.scalar("factor", Elem::Float);
//! let item = k.workitem_id();
//! let value = k.load(global(x, item * 4), Width::Dwords(1), Elem::Float);
//! k.store(global(y, item * 4), Width::Dwords(1), value * factor);
//! let kernel = compile(&k.finish(), Target::Gfx1151, &Options::default())?;
//! assert!(kernel.assembly().contains("v_mul_f32"));
//! # Ok::<(), doorbell_compiler::CompileError>(())
//! ```
//!
//! Not here: the instruction set (`doorbell-isa`), the product's kernels (`doorbell-kernels`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod check;
mod compile;
pub mod ir;
pub mod machine;
pub mod object;
pub mod pass;
mod report;
pub mod sample_kernels;

pub use compile::{CompileError, Kernel, ObjectError, Options, compile, object};
pub use report::{CLASSES, Report};

// Chips and instructions, for those who compile.
pub use doorbell_isa as isa;
