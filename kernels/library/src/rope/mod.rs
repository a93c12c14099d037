//! Steps between the products of queries, keys and values and attention: head norm, rotation, and the write to the KV
//! cache.

pub(crate) mod cache;
pub(crate) mod head;
pub(crate) mod lane_elements;
pub(crate) mod launch;
pub(crate) mod spec;
