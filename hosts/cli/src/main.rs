//! The program `doorbell`: it parses the command line, runs one command, and reports its failure by a line and an exit code.

extern crate alloc;

mod banner;
mod command;
mod descriptors;
mod device_args;
mod failure;
mod generate;
mod habits;
mod interrupt;
mod loaded;
mod output;
mod progress;
mod sampling;

use std::process::ExitCode;

fn main() -> ExitCode {
    match command::Program::read().and_then(command::Program::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
