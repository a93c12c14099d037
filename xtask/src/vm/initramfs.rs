//! The initial file system: one program, and amdgpu with its modules unless it is built in.
//!
//! Archive format: cpio "newc".

use super::package::Kernel;
use anyhow::{Context as _, ensure};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CONSOLE: u32 = 0o020_600;

/// The archive's bytes.
pub(super) fn build(probe: &Path, kernel: &Kernel) -> Result<Vec<u8>, anyhow::Error> {
    let mut archive = Vec::new();
    for directory in ["proc", "sys", "dev"] {
        add(&mut archive, directory, DIRECTORY, (0, 0), &[]);
    }
    add(&mut archive, "dev/console", CONSOLE, (5, 1), &[]);
    add(&mut archive, "init", PROGRAM, (0, 0), &std::fs::read(probe)?);
    let mut order = String::new();
    let needed = kernel.modules.as_deref().map(|folder| modules(folder, "amdgpu")).transpose()?;
    for (name, image) in needed.unwrap_or_default() {
        add(&mut archive, &format!("{name}.ko"), FILE, (0, 0), &image);
        order.push_str(&format!("{name}.ko\n"));
    }
    add(&mut archive, "modules", FILE, (0, 0), order.as_bytes());
    add(&mut archive, "TRAILER!!!", 0, (0, 0), &[]);
    Ok(archive)
}

/// One entry: a header of hexadecimal fields, the name, the bytes, each padded to four.
fn add(archive: &mut Vec<u8>, name: &str, mode: u32, device: (u32, u32), bytes: &[u8]) {
    let links = 1;
    let fields =
        [0, mode, 0, 0, links, 0, bytes.len() as u32, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// Module files by name, `-` written as `_`.
fn index(folder: &Path) -> Result<HashMap<String, PathBuf>, anyhow::Error> {
    let mut found = HashMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if let Some((name, _)) = file.split_once(".ko") {
                found.insert(name.replace('-', "_"), path);
            }
        }
    }
    Ok(found)
}

fn image(path: &Path) -> Result<Vec<u8>, anyhow::Error> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        let output =
            Command::new("xz").args(["--decompress", "--stdout"]).arg(path).output().context("start xz")?;
        ensure!(output.status.success(), "xz cannot read {}", path.display());
        return Ok(output.stdout);
    }
    Ok(std::fs::read(path)?)
}

/// Modules that a module needs: the `depends=` entry of its `.modinfo`.
fn depends(image: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = image.windows(key.len()).position(|window| window == key) else { return Vec::new() };
    let value = image[at + key.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A module after everything it needs.
fn modules(folder: &Path, wanted: &str) -> Result<Vec<(String, Vec<u8>)>, anyhow::Error> {
    let index = index(&folder.join("kernel"))?;
    let mut done: Vec<(String, Vec<u8>)> = Vec::new();
    let mut stack = vec![(wanted.to_owned(), None)];
    while let Some((name, loaded)) = stack.pop() {
        if done.iter().any(|module| module.0 == name) {
            continue;
        }
        if let Some(image) = loaded {
            done.push((name, image));
            continue;
        }
        // A module without a file is built in.
        let Some(path) = index.get(&name) else { continue };
        let image = image(path)?;
        let needed = depends(&image);
        stack.push((name, Some(image)));
        stack.extend(needed.into_iter().map(|name| (name, None)));
    }
    ensure!(done.last().is_some_and(|module| module.0 == wanted), "{}: no {wanted}", folder.display());
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_from_the_module() {
        let image = b"\x7fELF..\0license=GPL\0depends=drm,i2c-algo-bit\0vermagic=6.1\0";
        assert_eq!(depends(image), ["drm", "i2c_algo_bit"]);
        assert!(depends(b"\0depends=\0").is_empty());
        assert!(depends(b"nothing").is_empty());
    }

    #[test]
    fn entries_are_padded_to_four() {
        let mut archive = Vec::new();
        add(&mut archive, "a", FILE, (0, 0), b"xyz");
        assert_eq!(archive.len(), 116);
        assert_eq!(&archive[..14], b"07070100000000");
        assert_eq!(&archive[54..62], b"00000003", "size");
        assert_eq!(&archive[110..], b"a\0xyz\0");
    }
}
