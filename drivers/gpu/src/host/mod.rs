//! Operations that the device has no kernel for, run on the host between submissions: values are copied out of
//! device memory, computed by core's scalar definitions, and copied back. Slow, and always there.

mod cache;
mod memory;
mod run;

pub(crate) use memory::{Memory, read_words};
pub(crate) use run::Host;
