//! Foreign clients: Debian's packages by apt with lists of its own, PyPI's by pip; nothing is installed.
//!
//! What can't be fetched is left out, with a word. Not here: running them (`tests/foreign/run.sh`).

use crate::apt::apt;
use crate::process::{command, execute, works};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A Debian suite with the packages that are taken from it.
struct Suite {
    name: &'static str,
    packages: &'static [&'static str],
}

const SUITES: [Suite; 2] = [
    Suite {
        name: "bookworm",
        packages: &[
            "rocminfo",
            "libhsakmt1",
            "libhsa-runtime64-1",
            "libnuma1",
            "libelf1",
            "libdrm2",
            "libdrm-amdgpu1",
        ],
    },
    Suite {
        name: "trixie",
        packages: &[
            "rocminfo",
            "libhsakmt1",
            "libhsa-runtime64-1",
            "libhsa-runtime-dev",
            "libdrm2",
            "libdrm-amdgpu1",
            "libelf1t64",
            "libnuma1",
            "libc6",
            "libgcc-s1",
            "libstdc++6",
            "zlib1g",
            "libzstd1",
            "liblzma5",
            "libbz2-1.0",
        ],
    },
];

/// The version that the tests were written with.
const TINYGRAD: &str = "tinygrad==0.14.0";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches what is not there yet.
pub(super) fn fetch(folder: &Path) -> Result<(), anyhow::Error> {
    for suite in &SUITES {
        if !unpacked(&folder.join(suite.name), suite)? {
            eprintln!("skipped: the packages of {} can't be had here", suite.name);
        }
    }
    let tinygrad = folder.join("tinygrad");
    if !tinygrad.join("tinygrad").is_dir() {
        let mut pip = command("python3", ["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
        if !works("python3", &["-m", "pip", "--version"])
            || execute(pip.arg(&tinygrad).arg(TINYGRAD)).is_err()
        {
            eprintln!("skipped: {TINYGRAD} can't be had here");
        }
    }
    Ok(())
}

/// Whether the packages of a suite lie unpacked below `root`, now if not before.
fn unpacked(folder: &Path, suite: &Suite) -> Result<bool, anyhow::Error> {
    let unpacked = folder.join("root");
    if unpacked.join("usr/bin/rocminfo").is_file() {
        return Ok(true);
    }
    if !works("apt-get", &["--version"]) || !Path::new(KEYRING).exists() {
        return Ok(false);
    }
    for part in ["state/lists/partial", "cache/archives/partial", "root"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let source = format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian {} main\n", suite.name);
    fs::write(folder.join("sources.list"), source)?;
    if execute(&mut apt("apt-get", folder, &["update", "-qq"])).is_err() {
        return Ok(false);
    }
    if execute(apt("apt-get", folder, &["download", "-qq"]).args(suite.packages)).is_err() {
        return Ok(false);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            execute(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&unpacked))?;
            fs::remove_file(&path)?;
        }
    }
    Ok(true)
}
