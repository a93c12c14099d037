//! Code objects: the ELF files that clang makes, and kernel descriptors.
//!
//! Not here: packets that name a descriptor (`command`).

mod descriptor;
mod elf;
mod halves;

pub use descriptor::{Descriptor, DescriptorError, Launch};
pub use elf::{CodeObject, ElfError, Kernel};
pub(crate) use halves::halved;
