//! `cargo xtask conformance`: runs unmodified clients of the server's APIs against it.
//!
//! The clients come from PyPI and npm; without a network this is skipped with a message. Their checks are in
//! `tests/conformance/`.

use crate::process::{command, script};

pub(crate) fn run() -> Result<(), anyhow::Error> {
    script(&mut command("sh", ["tests/conformance/run.sh"]), "client")
}
