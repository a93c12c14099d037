//! The passes, in the order in which `compile` runs them; one file each.

pub mod allocate;
pub mod clause;
pub mod delay;
pub mod emit;
pub mod fit;
pub mod hazards;
pub mod legalize;
mod liveness;
pub mod schedule;
pub mod split;
pub mod uniformity;
pub mod verify;
pub mod vopd;
pub mod waits;
