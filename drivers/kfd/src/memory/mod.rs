//! GPU memory: where a buffer goes, its address, its life, and the table of all allocations.
//!
//! Sizes of memory are in [`crate::topology`].

mod buffer;
mod free_ranges;
mod allocations;
mod name;
mod slab;
mod address_space;
mod allocate;
mod upload;
mod usage;

pub use address_space::{AddressSpace, AddressSpaceError, FRAGMENT};
pub use allocations::{Allocation, Allocations, Nearest, Totals};
pub use buffer::{AllocError, Buffer, FreeError, Handle};
pub use name::Name;
pub use slab::{SlabAllocator, SlabBlock};
pub use upload::{Bytes, File, Source, UploadError, Uploader};
pub use usage::{MemoryTraits, Usage};
