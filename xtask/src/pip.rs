//! Unpacks PyPI's packages into folders of our own; nothing is installed.

use crate::process::{command, execute, works};
use std::path::Path;

/// True if pip is installed.
pub(crate) fn is_here() -> bool {
    works("python3", &["-m", "pip", "--version"])
}

/// Unpacks a package, `NAME==VERSION`, into a folder of its own unless it is there already. Returns false if that fails.
pub(crate) fn unpacked(requirement: &str, folder: &Path) -> bool {
    let name = requirement.split("==").next().unwrap_or_default();
    // a server that stops sending is treated as unreachable
    let mut pip =
        command("timeout", ["240", "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    folder.join(name).is_dir() || (is_here() && execute(pip.arg(folder).arg(requirement)).is_ok())
}
