//! The scalar reference of every operation, and a backend made of it: the oracle of all other implementations.
//!
//! Written to be read, one thread, no SIMD. How fast it is does not matter; what it computes is the definition.

mod attend;
mod elementwise;
mod interpreter;
mod mixture;
mod product;
mod run;
mod scratch;
mod state;

pub use attend::{AttendBuffers, Cache, Cached, Heads, attend_row};
pub use elementwise::{glu, rms_norm, rotate, sigmoid, soft_cap, softmax};
pub use interpreter::{Interpreter, KvStore};
pub use mixture::route_row;
pub use product::{Products, product};
pub use run::{Reference, ReferenceError};
pub use scratch::ProductScratch;
