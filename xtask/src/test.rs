//! `cargo xtask test`: all tests of all crates, with cargo-nextest if it is installed.
//!
//! No test needs the network or a model file; runs for developers that do are in `docs/testing.md`.

use crate::process::{cargo, execute, works};

pub(crate) fn run() -> Result<(), anyhow::Error> {
    // Doctests are few and run first, so that the summary of the other tests comes last.
    let examples = execute(&mut cargo(["test", "--workspace", "--doc", "--no-fail-fast"]));
    if works("cargo", &["nextest", "--version"]) {
        execute(&mut cargo(["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    } else {
        execute(&mut cargo(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))?;
    }
    examples
}
