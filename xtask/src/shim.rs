//! `cargo xtask shim`: builds the library that shows the software GPU to unmodified programs, and runs such programs.
//!
//! `--print-path` builds it and prints where it is; `--check` fetches foreign clients (Debian's rocminfo and HSA
//! runtime, PyPI's tinygrad) into target/foreign, if there is a network, and runs them. Their checks are in `tests/foreign/run.sh`, the
//! environment variables in `tests/shim/src/settings.rs`.

mod packages;

use crate::process::{built, cargo, command, execute, root, script};
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask shim`.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Arguments {
    /// Build the library and print its path.
    #[arg(long)]
    print_path: bool,
    /// Run foreign clients on it; missing ones are fetched.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    if arguments.print_path {
        println!("{}", build()?.display());
        return Ok(());
    }
    check()
}

/// Runs the clients that can be fetched here.
pub(crate) fn check() -> Result<(), anyhow::Error> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("the clients are programs for x86-64 Linux: skipped");
        return Ok(());
    }
    let library = build()?;
    let folder = root().join("target/foreign");
    packages::fetch(&folder)?;
    objects(&folder)?;
    script(command("sh", ["tests/foreign/run.sh"]).arg(&library).arg(&folder), "foreign client")
}

/// Builds the library.
fn build() -> Result<PathBuf, anyhow::Error> {
    // all packages with the features of tests: others would build the software GPU once more
    execute(&mut cargo(["build", "--quiet", "--workspace", "--lib", "--example", "probe"]))?;
    Ok(built()?.join("debug/libdoorbell_shim.so"))
}

/// Code objects of our own kernel for the HSA program.
fn objects(folder: &Path) -> Result<(), anyhow::Error> {
    for chip in ["gfx1100", "gfx1151"] {
        crate::kernels::write_object("vector_add", chip, &folder.join(format!("own-{chip}.co")))?;
    }
    Ok(())
}
