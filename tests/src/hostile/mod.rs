//! Drivers for hostile input: each takes any bytes, does all that a host would do with them, and panics where a rule of
//! core is broken. Used by fuzz targets, by mutations, and by property tests; which bytes to try is theirs.

mod edit;
mod file;
mod sampling;
mod text;

pub use edit::edited;
pub use file::{Reached, bind, gguf, open};
pub use sampling::sample;
pub use text::{detoken, token};
