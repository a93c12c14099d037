//! Results of kernel checks, kept in a file so that each kernel is checked once on each device.
//!
//! A line of the file has the device, the key of the code, and the largest relative error. If the file can't be read or
//! written, kernels are checked again. Not here: the checks themselves (`doorbell-gpu`).

use alloc::collections::BTreeMap;
use doorbell_gpu::KernelCheckCache;
use std::path::{Path, PathBuf};

/// The results of all devices in the file, for use by one device.
pub(crate) struct KernelCheckFile {
    path: Option<PathBuf>,
    device: String,
    results: BTreeMap<(String, u64), f64>,
    changed: bool,
}

/// Path of the file in the user's cache folder (XDG base directories); `None` if no such folder is named.
fn default_path() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(caches.join("doorbell").join("known-answers"))
}

impl KernelCheckFile {
    /// Reads the results. `device` names the device: one word without spaces.
    pub(crate) fn open(device: String) -> Self {
        Self::at(default_path(), device)
    }

    fn at(path: Option<PathBuf>, device: String) -> Self {
        let text = path.as_deref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        Self { path, device, results: text.lines().filter_map(entry).collect(), changed: false }
    }

    /// Writes the file if there are new results.
    pub(crate) fn save(&self) {
        if let Some(path) = self.path.as_deref().filter(|_| self.changed) {
            // If this fails, the kernels are checked again next time.
            let _ = self.write(path);
        }
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        let line =
            |((device, key), error): (&(String, u64), &f64)| format!("{device} {key:016x} {error:e}\n");
        let text: String = self.results.iter().map(line).collect();
        let new = path.with_extension(std::process::id().to_string());
        std::fs::write(&new, text)?;
        std::fs::rename(&new, path)
    }
}

fn entry(line: &str) -> Option<((String, u64), f64)> {
    let mut words = line.split(' ');
    let (device, key, error) = (words.next()?, words.next()?, words.next()?);
    Some(((device.to_owned(), u64::from_str_radix(key, 16).ok()?), error.parse().ok()?))
}

impl KernelCheckCache for KernelCheckFile {
    fn get(&self, key: u64) -> Option<f64> {
        self.results.get(&(self.device.clone(), key)).copied()
    }

    fn insert(&mut self, key: u64, error: f64) {
        self.results.insert((self.device.clone(), key), error);
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back_by_the_next_run() {
        let path = std::env::temp_dir().join(format!("doorbell-kernel-checks-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let open = |device: &str| KernelCheckFile::at(Some(path.clone()), device.to_owned());
        let mut first = open("gfx1100:744c");
        assert_eq!(first.get(7), None);
        first.insert(7, 1.5e-9);
        first.insert(8, f64::INFINITY);
        first.save();
        assert_eq!(open("gfx1100:744c").get(7), Some(1.5e-9));
        assert_eq!(open("gfx1100:744c").get(8), Some(f64::INFINITY));
        assert_eq!(open("gfx1151:1586").get(7), None);
        std::fs::write(&path, "gfx1100:744c 7\nx y z\n\ngfx1100:744c 9 0e0").unwrap();
        assert_eq!((open("gfx1100:744c").get(7), open("gfx1100:744c").get(9)), (None, Some(0.0)));
        std::fs::remove_file(&path).unwrap();
    }
}
