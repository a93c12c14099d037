//! A software GPU: the kernel's side of KFD plus an RDNA processor that is stricter than the hardware.
//!
//! Whatever the hardware may do in several ways a seed chooses here, and what it hides (early reads of loads, stale
//! or unwritten data, races) is reported. Not here: what the instructions are called (doorbell-isa) and the driver
//! that talks to the kernel (doorbell-kfd).
#![no_std]

extern crate alloc;

#[cfg(any(test, feature = "std"))]
extern crate std;

mod chips;
pub mod code;
pub mod command;
pub mod kernel;
pub mod memory;
pub mod processor;
