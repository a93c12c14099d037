//! The files that describe the machine, as real files in a folder of this process, and the paths that lead there.
//!
//! Clients then list, read and inspect them with any function. Not here: the content of the files (doorbell-soft), the
//! functions that take paths (`hooks/paths.rs`).

use alloc::ffi::CString;
use core::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Paths of the real machine that are hidden, with everything below them.
const SHADOWED: [&str; 8] = [
    "/dev/kfd",
    "/dev/dri",
    "/sys/class/kfd",
    "/sys/devices/virtual/kfd",
    "/sys/module/amdgpu",
    "/sys/module/ttm",
    "/sys/class/drm",
    "/sys/bus/pci/devices",
];

/// Two names of one folder.
const ALIAS: (&str, &str) = ("/sys/devices/virtual/kfd", "/sys/class/kfd");

/// The folder and the process that made it.
static TREE: OnceLock<(PathBuf, u32)> = OnceLock::new();

/// A file of the machine: its path and text.
pub(crate) type Described = (String, String);

/// The path that replaces a client's, if that is a shadowed one. The first call makes the folder of the `files`.
pub(crate) fn redirected(path: &CStr, files: impl FnOnce() -> Vec<Described>) -> Option<CString> {
    let path = path.to_str().ok()?;
    let below =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if !SHADOWED.into_iter().any(below) {
        return None;
    }
    let path = if below(ALIAS.0) { path.replacen(ALIAS.0, ALIAS.1, 1) } else { path.to_owned() };
    let replacement = root(files).join(path.trim_start_matches('/'));
    CString::new(replacement.as_os_str().as_bytes()).ok()
}

fn root(files: impl FnOnce() -> Vec<Described>) -> &'static Path {
    let (root, _) = TREE.get_or_init(|| {
        let process = std::process::id();
        let root = std::env::temp_dir().join(format!("doorbell-shim-{process}"));
        if let Err(error) = fill(&root, &files()) {
            eprintln!("doorbell-shim: {}: {error}", root.display());
            std::process::exit(125);
        }
        (root, process)
    });
    root
}

fn fill(root: &Path, files: &[Described]) -> io::Result<()> {
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    for folder in SHADOWED.into_iter().filter(|path| *path != "/dev/kfd" && *path != ALIAS.0) {
        fs::create_dir_all(inside(folder))?;
    }
    for (path, text) in files {
        let file = inside(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, text)?;
    }
    Ok(())
}

/// Removes the folder, in the process that made it.
pub(crate) fn remove() {
    if let Some((root, process)) = TREE.get()
        && *process == std::process::id()
    {
        let _ = fs::remove_dir_all(root);
    }
}
