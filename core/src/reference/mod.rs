//! The scalar reference of every operation, and a backend made of it: the oracle of all other implementations.
//!
//! Simple code on one thread without SIMD. It defines the results; its speed does not matter.

mod attention;
mod delta_net;
mod elementwise;
mod interpreter;
mod moe;
mod product;
mod run;
mod scratch;
mod state;

pub use attention::{AttendBuffers, Cache, Cached, Heads, attend_row};
pub use delta_net::{
    DeltaBuffers, DeltaGateValues, DeltaInputs, DeltaState, DeltaWeights, delta_step, softplus,
};
pub use elementwise::{activation, glu, layer_norm, rms_norm, rotate, sigmoid, soft_cap, softmax};
pub use interpreter::{Interpreter, KvStore};
pub use moe::{close_groups, route_row};
pub use product::{Products, product};
pub use run::{Reference, ReferenceError};
pub use scratch::ProductScratch;
