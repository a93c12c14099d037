//! `cargo xtask test`: all tests of all crates, with cargo-nextest where it is installed.
//!
//! No test needs the network or a model file; developer runs that do are in `docs/testing.md`.

use crate::process::{cargo, execute, works};

pub(crate) fn run() -> Result<(), anyhow::Error> {
    // The examples in documentation are few, so the summary of the others comes last, and always.
    let examples = execute(&mut cargo(["test", "--workspace", "--doc", "--no-fail-fast"]));
    if works("cargo", &["nextest", "--version"]) {
        execute(&mut cargo(["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    } else {
        execute(&mut cargo(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]))?;
    }
    examples
}
