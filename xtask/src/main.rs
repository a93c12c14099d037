//! `cargo xtask VERB`: the tasks of developers and CI, one file per verb. The program itself is `hosts/cli`.

mod apt;
mod bench;
mod chaos;
mod ci;
mod conformance;
mod dist;
mod families;
mod fuzz;
mod http;
mod isa_check;
mod kernels;
mod load;
mod model;
mod nostd;
mod opencl;
mod pip;
mod process;
mod run;
mod shim;
mod test;
mod unicode;
mod vm;

use clap::Parser;
use std::process::ExitCode;

/// Run, test, check and measure doorbell.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Verb {
    /// Fetch a small model, build the program, ask it a question.
    Run(run::Arguments),
    /// Build the program as one static file, for machines with another libc.
    Dist,
    /// Run all tests: no network, no model file.
    Test,
    /// Run all static checks, then all tests.
    Ci(ci::Arguments),
    /// Run unmodified clients against the server, if they can be fetched.
    Conformance,
    /// Build and run the program without std and libc, and compare it with the host.
    Nostd,
    /// Feed hostile input to the reader, the binder, the tokenizer or the sampler.
    Fuzz(fuzz::Arguments),
    /// Compare model families with logits that others computed from the same weights.
    Families(families::Arguments),
    /// Fetch or make a model file under models/.
    Model(model::Arguments),
    /// Measure the program, in turns with llama-bench if it is given.
    Bench(bench::Arguments),
    /// Measure the server under concurrent streams, in turns with llama-server if it is given.
    Load(load::Arguments),
    /// Write as the server does, and do nothing else; `load` compares the server with it.
    #[command(hide = true)]
    BareSocket(load::bare::Arguments),
    /// Run misbehaving clients against the server and check that nothing is left behind.
    Chaos(chaos::Arguments),
    /// Compare the instruction table with LLVM, if it is installed.
    IsaCheck(isa_check::Arguments),
    /// List, print and write the compiler's sample kernels.
    #[command(subcommand)]
    Kernels(kernels::Arguments),
    /// Boot real kernels in QEMU and compare KFD's answers with the committed transcripts.
    Vm(vm::Arguments),
    /// Build the library that shows the software GPU to unmodified programs, or run such programs on it.
    Shim(shim::Arguments),
    /// Write core's table of Unicode character classes.
    Unicode {
        /// Only compare it with the existing file.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let done = match Verb::parse() {
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Dist => dist::run(),
        Verb::Test => test::run(),
        Verb::Ci(arguments) => ci::run(&arguments),
        Verb::Conformance => conformance::run(),
        Verb::Nostd => nostd::run(),
        Verb::Fuzz(arguments) => fuzz::run(&arguments),
        Verb::Families(arguments) => families::run(&arguments),
        Verb::Model(arguments) => model::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Load(arguments) => load::run(&arguments),
        Verb::BareSocket(arguments) => load::bare::run(&arguments),
        Verb::Chaos(arguments) => chaos::run(&arguments),
        Verb::IsaCheck(arguments) => isa_check::run(&arguments),
        Verb::Kernels(arguments) => kernels::run(&arguments),
        Verb::Vm(arguments) => vm::run(&arguments),
        Verb::Shim(arguments) => shim::run(&arguments),
        Verb::Unicode { check } => unicode::run(check),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
