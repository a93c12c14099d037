//! `cargo xtask conformance`: unmodified clients of the APIs that the server speaks, against the server.
//!
//! The clients come from PyPI and npm, so without a network this is skipped and says so. What they check is in
//! `tests/conformance/`.

use crate::process::command;
use anyhow::{Context as _, bail};

/// What `run.sh` ends with when it could run nothing.
const SKIPPED: i32 = 77;

pub(crate) fn run() -> Result<(), anyhow::Error> {
    let status = command("sh", ["tests/conformance/run.sh"]).status().context("start sh")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(SKIPPED) => {
            eprintln!("no client can be had here: skipped");
            Ok(())
        }
        _ => bail!("a client was not content: {status}"),
    }
}
