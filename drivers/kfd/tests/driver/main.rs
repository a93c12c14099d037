//! Tests of the driver through its public interface, on an in-process kernel with fixture machines.
#![expect(unreachable_pub, reason = "the modules of one test binary")]

mod abi;
mod bring_up;
mod code;
mod doctor;
mod fake;
mod interleaving;
mod machines;
mod queue;
mod topology;
mod upload;
