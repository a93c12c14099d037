//! Pages of keys and values: pools with reference counts, caches of computed prefixes, and page tables of sequences.
//!
//! Not here: the decision about which sequence gets pages ([`crate::scheduler`]), and the contents of the pages
//! ([`crate::backend`]).

mod block_pool;
mod manager;
mod page_pool;
mod page_table;
mod pools;
mod prefix_cache;
mod state_pool;
mod transfer;
mod window_pool;

pub use manager::{KvManager, NoState, StateCopy};
pub use page_pool::PagePool;
pub use page_table::SequencePages;
pub use pools::{KvPools, WindowPages};
pub use prefix_cache::{PageHash, PrefixKey};
pub use state_pool::StatePool;
pub use transfer::{AllocateError, KvPart, PrefixParts};
