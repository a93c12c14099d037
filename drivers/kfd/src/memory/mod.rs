//! GPU memory: where a buffer goes, its address, its life, and the ledger that knows all of them.
//!
//! How much there is belongs to [`crate::topology`]; what is in a buffer belongs to whoever asked for it.

mod buffer;
mod gaps;
mod ledger;
mod name;
mod slab;
mod space;
mod upload;
mod usage;

pub use buffer::{AllocError, Buffer, FreeError, Handle};
pub use ledger::{Entry, Ledger, Nearest, Totals};
pub use name::Name;
pub use slab::{Arena, Block};
pub use space::{FRAGMENT, Space, SpaceError};
pub use upload::{Bytes, File, Source, UploadError, Uploader};
pub use usage::{Traits, Usage};
