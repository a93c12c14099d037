//! Paths of the checkout, and running other programs in it.

use anyhow::{Context as _, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The top folder of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The folder of model files, which git ignores.
pub(crate) fn models() -> PathBuf {
    root().join("models")
}

/// A command that will run in the top folder.
pub(crate) fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// `cargo` with these arguments, of the toolchain that runs this program.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// The command as a person would type it.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(OsStr::to_string_lossy);
    core::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Prints the command and runs it with our own input and output. Fails if the command fails.
pub(crate) fn execute(command: &mut Command) -> Result<(), anyhow::Error> {
    eprintln!("$ {}", line(command));
    let status = command.status().with_context(|| format!("start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs the command. Returns its standard output; fails if the command fails.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, anyhow::Error> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("start `{}`", line(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", line(command), output.status);
    }
    Ok(output.stdout)
}

/// True if a program succeeds with these arguments. Its output is discarded.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The named program, or a fresh release build.
pub(crate) fn program(named: Option<&PathBuf>) -> Result<PathBuf, anyhow::Error> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    execute(&mut cargo(["build", "--release", "--package", "doorbell"]))?;
    release_program()
}

/// Path of the release build.
pub(crate) fn release_program() -> Result<PathBuf, anyhow::Error> {
    Ok(built()?.join("release").join("doorbell"))
}

/// Makes a static release build. `target` are cargo's arguments, `file` is its path in the release folder.
pub(crate) fn static_program(target: &[&str], file: &str) -> Result<PathBuf, anyhow::Error> {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    let mut command = cargo(["rustc", "--quiet", "--release"]);
    command.args(target).args(["--target", TRIPLE, "--", "-C", "target-feature=+crt-static"]);
    execute(&mut command)?;
    Ok(built()?.join(TRIPLE).join("release").join(file))
}

/// The folder that cargo builds in.
pub(crate) fn built() -> Result<PathBuf, anyhow::Error> {
    let metadata = output(&mut cargo(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata)?;
    Ok(metadata["target_directory"].as_str().context("target_directory")?.into())
}

/// Runs a script that exits with 77 if it could not run any of its `clients`.
pub(crate) fn script(script: &mut Command, clients: &str) -> Result<(), anyhow::Error> {
    const SKIPPED: i32 = 77;
    let status = script.status().with_context(|| format!("start `{}`", line(script)))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(SKIPPED) => {
            eprintln!("no {clients} can be fetched here: skipped");
            Ok(())
        }
        _ => bail!("a {clients} failed: {status}"),
    }
}
