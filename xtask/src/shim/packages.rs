//! Foreign clients: Debian's packages by apt with lists of its own, PyPI's by pip; nothing is installed.
//!
//! Clients that can't be fetched are left out with a message. Not here: running them (`tests/foreign/run.sh`).

use crate::{apt, pip};
use std::path::Path;

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

/// Fetches missing clients.
pub(super) fn fetch(folder: &Path) -> Result<(), anyhow::Error> {
    for suite in &SUITES {
        if !unpacked(&folder.join(suite.name), suite)? {
            eprintln!("skipped: the packages of {} can't be fetched here", suite.name);
        }
    }
    if !pip::unpacked(TINYGRAD, &folder.join("tinygrad")) {
        eprintln!("skipped: {TINYGRAD} can't be fetched here");
    }
    Ok(())
}

/// Unpacks the packages of a suite below its folder unless they are there already. Returns false if that fails.
fn unpacked(folder: &Path, suite: &Suite) -> Result<bool, anyhow::Error> {
    let packages = || Ok(suite.packages.iter().map(ToString::to_string).collect());
    Ok(folder.join("root/usr/bin/rocminfo").is_file()
        || apt::unpack(folder, &[("debian", suite.name)], packages)?)
}
