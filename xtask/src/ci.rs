//! `cargo xtask ci`: every check that must hold before a change goes in, cheap ones first, then the tests.
//!
//! `--only NAME` runs one step. Each step's rules are in its own file.

mod arrows;
mod circles;
mod crates;
mod miri;
mod tidy;
mod tokens;

use crate::process::{cargo, command, execute, works};
use crate::{conformance, isa_check, kernels, nostd, shim, test, unicode};
use anyhow::bail;

/// Arguments of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this step; may be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// Not this step; may be given more than once.
    #[arg(long)]
    skip: Vec<String>,
    /// List the steps and stop.
    #[arg(long)]
    list: bool,
}

/// One row of the table: name, the property it shows, the check.
struct Step(&'static str, &'static str, fn() -> Result<(), anyhow::Error>);

#[rustfmt::skip]
const STEPS: [Step; 14] = [
    Step("tidy", "headers, sizes, names, links, documented variables", tidy::run),
    Step("arrows", "no crate depends on one that the architecture forbids", arrows::run),
    Step("circles", "no files of a crate import each other in a circle", circles::run),
    Step("fmt", "rustfmt changes nothing", fmt),
    Step("generated", "generated files are what their generators write", generated),
    Step("clippy", "no warning in any target", clippy),
    Step("no-std", "no_std crates build without std, plainly and with defmt", no_std),
    Step("doc", "no warning in the documentation", doc),
    Step("deny", "licenses and duplicate versions, if cargo-deny is installed", deny),
    Step("test", "all tests", test::run),
    Step("miri", "no undefined behavior in the CPU driver's portable unsafe code, if Miri is installed", miri::run),
    Step("conformance", "unmodified clients work with the server, if they can be fetched", conformance::run),
    Step("foreign", "unmodified clients of KFD run on the software GPU, if they can be fetched", shim::check),
    Step("isa", "instruction table and code objects agree with LLVM, if it is installed", isa),
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    if let Some(unknown) =
        arguments.only.iter().chain(&arguments.skip).find(|name| STEPS.iter().all(|step| step.0 != **name))
    {
        bail!("no step {unknown:?}: see `cargo xtask ci --list`");
    }
    let mut failed = Vec::new();
    for Step(name, what, check) in &STEPS {
        if arguments.list {
            println!("{name:10} {what}");
            continue;
        }
        let chosen = arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
        if !chosen || arguments.skip.iter().any(|skip| skip == name) {
            continue;
        }
        eprintln!("== {name}: {what}");
        // One run reports all faults, so a failed step doesn't stop the next one.
        if let Err(error) = check() {
            eprintln!("{error:#}");
            failed.push(format!("failed: {name}: {error:#}"));
        }
    }
    if !failed.is_empty() {
        bail!("not all steps succeeded\n{}", failed.join("\n"));
    }
    Ok(())
}

fn fmt() -> Result<(), anyhow::Error> {
    execute(&mut cargo(["fmt", "--all", "--check"]))
}

fn generated() -> Result<(), anyhow::Error> {
    unicode::run(true)
}

fn clippy() -> Result<(), anyhow::Error> {
    execute(&mut cargo(["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"]))
}

fn no_std() -> Result<(), anyhow::Error> {
    for package in crates::members()? {
        if crates::row_of(&package.name).is_some_and(|row| row.no_std) {
            let check = ["check", "--lib", "--no-default-features", "--package", &package.name];
            execute(&mut cargo(check))?;
            if package.features.iter().any(|feature| feature == "defmt") {
                execute(cargo(check).args(["--features", "defmt"]))?;
            }
        }
    }
    // A no_std crate may still depend on one that is not; this program can't.
    nostd::run()
}

fn doc() -> Result<(), anyhow::Error> {
    execute(
        cargo(["doc", "--workspace", "--no-deps", "--document-private-items", "--keep-going"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
    )
}

fn isa() -> Result<(), anyhow::Error> {
    isa_check::run(&isa_check::Arguments::default())?;
    kernels::check()
}

fn deny() -> Result<(), anyhow::Error> {
    if !works("cargo", &["deny", "--version"]) {
        eprintln!("cargo-deny is not installed: skipped");
        return Ok(());
    }
    // Advisories need the network, so they are left to a manual run.
    execute(&mut command("cargo", ["deny", "check", "bans", "licenses", "sources"]))
}
