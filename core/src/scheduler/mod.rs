//! Policy: how many prompt rows and steps fit a target time.

mod pacing;

pub use pacing::Pacing;
