//! `cargo xtask conformance`: unmodified clients of the APIs that the server speaks, against the server.
//!
//! The clients come from PyPI and npm, so without a network this is skipped and says so. What they check is in
//! `tests/conformance/`.

use crate::process::{command, script};

pub(crate) fn run() -> Result<(), anyhow::Error> {
    script(&mut command("sh", ["tests/conformance/run.sh"]), "client")
}
