//! The AMD driver on the software GPU: whole lives of processes and queues with kernels of our compiler, every fault
//! that can be injected, and what `devices` and `doctor` say about machines.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]
#![expect(clippy::std_instead_of_alloc, reason = "tests have std")]

mod broken;
mod doctor;
mod faults;
mod life;
mod list;
mod real;
mod rig;
mod trap;
