//! Drivers for hostile input: each takes any bytes, uses them as a host would, and panics if a rule of core is broken.
//!
//! Fuzz targets, mutation tests and property tests choose the bytes.

mod edit;
mod file;
mod sampling;
mod text;

pub use edit::edited;
pub use file::{Reached, bind, gguf, open};
pub use sampling::sample;
pub use text::{detoken, token};
