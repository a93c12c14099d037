//! Pages of keys and values: pools with reference counts, caches of computed prefixes, and page tables of sequences.
//!
//! Not here: the decision about which sequence gets pages ([`crate::scheduler`]), and the contents of the pages
//! ([`crate::backend`]).

mod block_pool;
mod manager;
mod page_table;
mod prefix_cache;
mod state_pool;
mod transfer;

pub use block_pool::BlockPool;
pub use manager::{KvManager, NoState, StateCopy};
pub use page_table::SequencePages;
pub use prefix_cache::{PageHash, PrefixKey};
pub use state_pool::StatePool;
pub use transfer::AllocateError;
