//! Debian's package tools on lists and caches of a folder of ours: nothing is installed, the machine's lists stay.
//!
//! Which packages are fetched is said by those who need them (`vm`, `shim`).

use crate::process::command;
use std::path::{Path, PathBuf};
use std::process::Command;

/// apt-get or apt-cache with lists and caches of our own for one suite.
pub(crate) fn apt(tool: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut apt = command(tool, [""; 0]);
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
