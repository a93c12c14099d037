//! The program `doorbell`: it parses the command line, runs one command, and reports its failure by a line and an exit code.

extern crate alloc;

mod device_args;
mod descriptors;
mod failure;
mod generate;
mod interrupt;
mod loaded;
mod output;
mod progress;
mod sampling;
mod verb;

use std::process::ExitCode;

fn main() -> ExitCode {
    match verb::Program::read().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
