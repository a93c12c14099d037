//! `cargo xtask run [-- ARGS]`: fetches a model, builds the program and asks it a question.

use crate::{model, process};

/// Arguments of `cargo xtask run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model, by a name that `cargo xtask model` knows.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// Passed on to `doorbell run MODEL`; without them it asks a question.
    #[arg(last = true)]
    rest: Vec<String>,
}

const QUESTION: [&str; 6] =
    ["-p", "What is the capital of France, and what is it known for?", "-n", "120", "--temp", "0"];

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    let file = model::ensure(&arguments.model)?;
    process::execute(&mut process::cargo(["build", "--release", "--package", "doorbell"]))?;
    let mut program = process::cargo(["run", "--release", "--quiet", "--package", "doorbell", "--", "run"]);
    program.arg(file);
    if arguments.rest.is_empty() {
        program.args(QUESTION);
    } else {
        program.args(&arguments.rest);
    }
    process::execute(&mut program)
}
