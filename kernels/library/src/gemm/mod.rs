//! Matrix products of many rows on WMMA: activations rounded to f16 or to codes of eight bits once, weights unpacked
//! to tiles of the same in LDS.

pub(crate) mod activations_f16;
pub(crate) mod activations_i8;
pub(crate) mod kernel;
pub(crate) mod launch;
pub(crate) mod multiply;
pub(crate) mod path;
pub(crate) mod stage;
pub(crate) mod tile;
pub(crate) mod weights_f16;
pub(crate) mod weights_i8;
