//! PyPI's packages, unpacked into folders of ours: nothing is installed.

use crate::process::{command, execute, works};
use std::path::Path;

/// Whether there is a pip.
pub(crate) fn is_here() -> bool {
    works("python3", &["-m", "pip", "--version"])
}

/// Whether a package, `NAME==VERSION`, lies unpacked in a folder of its own, now if not before.
pub(crate) fn unpacked(requirement: &str, folder: &Path) -> bool {
    let name = requirement.split("==").next().unwrap_or_default();
    // a server that says nothing more is as good as none
    let mut pip =
        command("timeout", ["240", "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    folder.join(name).is_dir() || (is_here() && execute(pip.arg(folder).arg(requirement)).is_ok())
}
