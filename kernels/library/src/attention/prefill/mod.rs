//! Attention of many rows on WMMA.

pub(crate) mod kernel;
pub(crate) mod query;
pub(crate) mod running;
pub(crate) mod tiles;
