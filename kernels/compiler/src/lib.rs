//! The kernel compiler: IR built in Rust to code objects for AMD GPUs, without LLVM.
//!
//! `ir` is what a kernel is written in; `pass` lowers it step by step; `check` proves the result; `object` writes it
//! down; `compile` runs them all. Not here: the instruction set (`doorbell-isa`) and the product's kernels.
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
pub mod sample;

pub use compile::{CompileError, Kernel, ObjectError, Options, compile, object};
pub use report::{CLASSES, Report};

// Chips and instructions, for those who compile.
pub use doorbell_isa as isa;
