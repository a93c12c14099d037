//! The verbs of the program, one file each.

mod bench;
mod chat;
mod detokenize;
mod devices;
mod doctor;
mod info;
mod plan;
mod run;
mod score;
mod serve;
mod tokenize;

use crate::failure::{EXIT_CODES, Failure};

/// Runs language models on AMD GPUs and CPUs.
#[derive(clap::Parser)]
#[command(name = "doorbell", version, after_help = EXIT_CODES, subcommand_required = true)]
pub(crate) struct Program {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Answer a prompt, or chat
    Run(Box<run::Arguments>),
    /// Serve the model over HTTP
    Serve(Box<serve::Arguments>),
    /// Tell how likely the model finds a text
    Score(score::Arguments),
    /// Turn text into token ids
    Tokenize(tokenize::Arguments),
    /// Turn token ids into text
    Detokenize(detokenize::Arguments),
    /// Show what a model file holds
    Info(info::Arguments),
    /// Show the operations of a step and who runs them
    Plan(plan::Arguments),
    /// Measure speed
    Bench(bench::Arguments),
    /// List what can compute
    Devices(devices::Arguments),
    /// Say why a GPU can't be used, and what to do
    Doctor(doctor::Arguments),
}

impl Program {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.verb {
            Verb::Run(arguments) => run::run(&arguments),
            Verb::Serve(arguments) => serve::run(*arguments),
            Verb::Score(arguments) => score::run(&arguments),
            Verb::Tokenize(arguments) => tokenize::run(arguments),
            Verb::Detokenize(arguments) => detokenize::run(&arguments),
            Verb::Info(arguments) => info::run(&arguments),
            Verb::Plan(arguments) => plan::run(&arguments),
            Verb::Bench(arguments) => bench::run(&arguments),
            Verb::Devices(arguments) => devices::run(&arguments),
            Verb::Doctor(arguments) => doctor::run(&arguments),
        }
    }
}
