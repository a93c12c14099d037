//! Code objects: kernel descriptor, metadata, ELF file.

mod descriptor;
mod elf;
mod kernarg;
mod msgpack;

pub use descriptor::{CODE_END, Descriptor, PADDING_WORDS, Resources};
pub use elf::{Part, code_object};
pub use kernarg::{ArgumentError, ArgumentValue, pack_arguments};
