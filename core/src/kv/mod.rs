//! Pages of keys and values: a pool with reference counts, and a cache of computed prefixes.
//!
//! Not here: the decision about which sequence gets pages ([`crate::scheduler`]), and the bytes of the pages
//! ([`crate::backend`]).

mod block_pool;
mod prefix_cache;

pub use block_pool::BlockPool;
pub use prefix_cache::{PageHash, PrefixKey};
