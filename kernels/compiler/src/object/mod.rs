//! Code objects: kernel descriptor, metadata, ELF file.

mod descriptor;
mod elf;
mod msgpack;

pub use descriptor::{Descriptor, PADDING_WORDS, Resources};
pub use elf::code_object;
