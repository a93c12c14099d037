//! The unsafe core of the CPU driver under Miri, where a toolchain has it: what is portable in it, without SIMD.

use crate::process::{command, execute, works};

/// Modules whose tests Miri runs.
const MODULES: [&str; 7] =
    ["lines::", "phase::", "pool::", "budget::", "single_thread::", "product::view::", "activations::"];

pub(crate) fn run() -> Result<(), anyhow::Error> {
    if !works("cargo", &["+nightly", "miri", "--version"]) {
        eprintln!("no toolchain `nightly` with Miri: skipped");
        return Ok(());
    }
    let mut miri = command("cargo", ["+nightly", "miri", "test", "--package", "doorbell-cpu", "--lib", "--"]);
    // A busy thread beside the pool only costs time there.
    miri.args(MODULES).args(["--skip", "beside_a_busy_thread"]);
    execute(miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", "target/miri"))
}
