//! Causal attention over the paged KV cache: row by row (`decode`), and many rows on matrix instructions (`prefill`).

pub(crate) mod decode;
pub(crate) mod kv_elements;
pub(crate) mod launch;
pub(crate) mod prefill;
pub(crate) mod shape;
pub(crate) mod softmax;
