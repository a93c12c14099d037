//! Debian's package tools on lists and caches of a folder of ours: nothing is installed, the machine's lists stay.
//!
//! Which packages are fetched is said by those who need them (`vm`, `shim`).

use crate::process::{command, execute, works};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What takes longer doesn't come: a server that says nothing more is as good as none.
const MOST_SECONDS: &str = "240";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches packages and unpacks them into the folder's `root`: `packages` of `suites`, which are archives with their
/// suites, once their lists are there. Whether that can be done here.
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

/// apt-get or apt-cache with lists and caches of our own for one suite.
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
