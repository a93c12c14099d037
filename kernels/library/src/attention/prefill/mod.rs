//! Attention of many rows on WMMA.

pub(crate) mod kernel;
pub(crate) mod query;
pub(crate) mod running;
pub(crate) mod spec;
pub(crate) mod tiles;
