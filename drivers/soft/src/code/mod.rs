//! Code objects: the ELF files that clang makes, and kernel descriptors.
//!
//! Not here: packets that name a descriptor (`command`).

mod descriptor;
mod elf;
mod wave64;

pub use descriptor::{Descriptor, DescriptorError, Launch};
pub use elf::{CodeObject, ElfError, Kernel};
pub(crate) use wave64::as_wave32;
