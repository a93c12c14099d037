//! The passes, in the order in which `compile` runs them; one file each.

pub mod allocate;
pub mod clause;
pub mod delay;
pub mod emit;
pub mod hazards;
pub mod legalise;
pub mod schedule;
pub mod uniformity;
pub mod verify;
pub mod vopd;
pub mod waits;
