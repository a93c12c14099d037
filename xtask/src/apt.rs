//! Runs Debian's package tools with lists and caches in a folder of our own, so that nothing on the machine changes.
//!
//! Which packages are fetched is decided by the callers (`vm`, `shim`).

use crate::process::{command, execute, works};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time limit of one call. A server that stops sending is treated as unreachable.
const MOST_SECONDS: &str = "240";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches packages and unpacks them into the folder's `root`. `suites` are pairs of archive and suite; `packages` is
/// called once their lists are fetched. Returns false if this machine can't do it.
pub(crate) fn unpack(
    folder: &Path,
    suites: &[(&str, &str)],
    packages: impl FnOnce() -> Result<Vec<String>, anyhow::Error>,
) -> Result<bool, anyhow::Error> {
    if !works("apt-get", &["--version"]) || !Path::new(KEYRING).exists() {
        return Ok(false);
    }
    for part in ["state/lists/partial", "cache/archives/partial", "root"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let line = |(archive, suite)| {
        format!("deb [signed-by={KEYRING}] http://deb.debian.org/{archive} {suite} main\n")
    };
    fs::write(folder.join("sources.list"), suites.iter().copied().map(line).collect::<String>())?;
    if execute(&mut apt("apt-get", folder, &["update", "-qq"])).is_err() {
        return Ok(false);
    }
    let Ok(packages) = packages() else { return Ok(false) };
    if execute(apt("apt-get", folder, &["download", "-qq"]).args(packages)).is_err() {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            execute(Command::new("dpkg-deb").arg("-x").arg(&path).arg(folder.join("root")))?;
            fs::remove_file(&path)?;
        }
    }
    Ok(true)
}

/// A call of apt-get or apt-cache with lists and caches of our own.
pub(crate) fn apt(tool: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut apt = command("timeout", [MOST_SECONDS, tool]);
    apt.current_dir(folder);
    for (option, path) in [
        ("Dir::State", folder.join("state")),
        ("Dir::Cache", folder.join("cache")),
        ("Dir::Etc::sourcelist", folder.join("sources.list")),
        ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
        ("Dir::State::status", PathBuf::from("/var/lib/dpkg/status")),
        ("APT::Sandbox::User", PathBuf::from("root")),
        ("APT::Update::Error-Mode", PathBuf::from("any")),
    ] {
        apt.arg("-o").arg(format!("{option}={}", path.display()));
    }
    apt.args(arguments);
    apt
}
