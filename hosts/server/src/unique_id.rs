//! Ids of answers, items and calls.

use core::hash::BuildHasher as _;
use core::sync::atomic::{AtomicU64, Ordering};

/// A new id: a growing number after a hash that differs from process to process.
pub(crate) fn unique_id(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:016x}{number:08x}", std::hash::RandomState::new().hash_one(number))
}
