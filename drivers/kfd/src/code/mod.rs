//! Code objects: what an ELF file of kernels holds, whether this GPU may run it, and its image in memory.
//!
//! Uploads are in [`crate::memory`], dispatches in [`crate::packet`].

mod descriptor;
mod elf;
mod error;
mod metadata;
mod program;

pub use descriptor::Kernel;
pub use elf::Object;
pub use error::{CodeError, Part};
pub use program::{LoadError, Program};
