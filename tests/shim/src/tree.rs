//! The files that describe the machine, as real files in a folder of this process, and the paths that lead there.
//!
//! Clients then list, read and ask about them with whatever function they like. Not here: what the files say
//! (doorbell-soft), which functions take paths (`hooks/paths.rs`).

use crate::card::card;
use alloc::ffi::CString;
use core::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What is hidden of the real machine, all below it included.
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

/// Where a client's path leads instead, if it is one that is shadowed.
pub(crate) fn redirected(path: &CStr) -> Option<CString> {
    let path = path.to_str().ok()?;
    let below =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if !SHADOWED.into_iter().any(below) {
        return None;
    }
    let path = if below(ALIAS.0) { path.replacen(ALIAS.0, ALIAS.1, 1) } else { path.to_owned() };
    let place = root().join(path.trim_start_matches('/'));
    CString::new(place.as_os_str().as_bytes()).ok()
}

fn root() -> &'static Path {
    let (root, _) = TREE.get_or_init(|| {
        let process = std::process::id();
        let root = std::env::temp_dir().join(format!("doorbell-shim-{process}"));
        if let Err(error) = fill(&root) {
            eprintln!("doorbell-shim: {}: {error}", root.display());
            std::process::exit(125);
        }
        (root, process)
    });
    root
}

fn fill(root: &Path) -> io::Result<()> {
    let place = |path: &str| root.join(path.trim_start_matches('/'));
    for folder in SHADOWED.into_iter().filter(|path| *path != "/dev/kfd" && *path != ALIAS.0) {
        fs::create_dir_all(place(folder))?;
    }
    let card = card();
    let devices = card.settings.machine.gpus.iter().map(|gpu| format!("/dev/dri/renderD{}", gpu.render));
    let files = card.kernel.described().map(|(path, text)| (path.clone(), text.as_str()));
    for (path, text) in devices.chain(["/dev/kfd".to_owned()]).map(|path| (path, "")).chain(files) {
        let place = place(&path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(place, text)?;
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
