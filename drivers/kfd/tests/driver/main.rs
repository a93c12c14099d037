//! Tests of the driver through its public interface, on an in-process kernel with fixture machines.
#![expect(
    unreachable_pub,
    clippy::std_instead_of_core,
    clippy::std_instead_of_alloc,
    reason = "the modules of one test binary, on std"
)]

mod abi;
mod bring_up;
mod bus;
mod code;
mod conformance;
mod doctor;
mod fake;
mod figures;
mod interleaving;
mod machines;
mod queue;
mod topology;
mod transcript;
mod trap;
mod upload;
