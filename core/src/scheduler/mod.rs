//! Who gets KV pages, and whose rows are in the next batch.
//!
//! Policy only: no plan, no device, no sampling. The engine asks, submits and reports.

mod chunk;
mod pool;
mod prefix;

pub use chunk::Pace;
pub use pool::Pool;
pub use prefix::{Key, PageHash};
