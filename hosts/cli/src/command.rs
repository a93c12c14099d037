//! The commands of the program, one file each.

mod answer;
mod answer_printer;
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

use crate::failure::{EXIT_CODES, Failure, Kind};
use crate::habits;
use clap::{CommandFactory as _, FromArgMatches as _};
use std::ffi::OsStr;

/// Runs language models on AMD GPUs and CPUs.
#[derive(clap::Parser)]
#[command(name = "doorbell", version, after_help = EXIT_CODES, subcommand_required = true)]
pub(crate) struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Answer a prompt, or chat
    Run(Box<run::Arguments>),
    /// Serve the model over HTTP
    Serve(Box<serve::Arguments>),
    /// Compute how likely the model finds a text
    Score(score::Arguments),
    /// Turn text into token ids
    Tokenize(tokenize::Arguments),
    /// Turn token ids into text
    Detokenize(detokenize::Arguments),
    /// Show the contents of a model file
    Info(info::Arguments),
    /// Show the operations of a step and the device of each
    Plan(plan::Arguments),
    /// Measure speed
    Bench(bench::Arguments),
    /// List the devices
    Devices(devices::Arguments),
    /// Show why a GPU can't be used, and how to fix it
    Doctor(doctor::Arguments),
}

impl Program {
    /// Parses the command line; if clap finds it wrong, the program ends with a message.
    pub(crate) fn read() -> Result<Self, Failure> {
        // an argument that begins like a negative number is a value, not an unknown flag
        let number = |arg: clap::Arg| {
            let takes = !arg.is_positional() && arg.get_action().takes_values();
            if takes { arg.allow_negative_numbers(true) } else { arg }
        };
        let mut command = Self::command().mut_subcommands(|subcommand| subcommand.mut_args(number));
        let is_verb = |word: &OsStr| command.get_subcommands().any(|verb| word == verb.get_name());
        let arguments = habits::translate(std::env::args_os(), is_verb)
            .map_err(|sentence| Failure::new(Kind::Usage, sentence))?;
        let matches = command.try_get_matches_from_mut(arguments);
        let read = Self::from_arg_matches_mut(&mut matches.unwrap_or_else(|error| error.exit()));
        Ok(read.unwrap_or_else(|error| error.format(&mut command).exit()))
    }

    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Run(arguments) => run::run(&arguments),
            Command::Serve(arguments) => serve::run(*arguments),
            Command::Score(arguments) => score::run(&arguments),
            Command::Tokenize(arguments) => tokenize::run(arguments),
            Command::Detokenize(arguments) => detokenize::run(&arguments),
            Command::Info(arguments) => info::run(&arguments),
            Command::Plan(arguments) => plan::run(&arguments),
            Command::Bench(arguments) => bench::run(&arguments),
            Command::Devices(arguments) => devices::run(&arguments),
            Command::Doctor(arguments) => doctor::run(&arguments),
        }
    }
}
