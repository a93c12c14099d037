//! DecodeAttention row by row.

pub(crate) mod arguments;
pub(crate) mod decode_tile;
pub(crate) mod gather;
pub(crate) mod kernel;
pub(crate) mod lanes;
pub(crate) mod parts;
pub(crate) mod spec;
