//! What checks of kernels have found on this machine, kept in a file so that each kernel is checked once on a device.
//!
//! A line of the file is a device, the code's key and how far the kernels were off. A file that can't be read or written
//! means that kernels are checked again.

use alloc::collections::BTreeMap;
use doorbell_gpu::KernelCheckCache;
use std::path::{Path, PathBuf};

/// The file, and what it says of all devices.
pub(crate) struct File {
    path: Option<PathBuf>,
    device: String,
    known: BTreeMap<(String, u64), f64>,
    changed: bool,
}

/// Where caches belong (XDG base directories).
fn place() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(caches.join("doorbell").join("known-answers"))
}

impl File {
    /// What is known; `device` is a word that tells it from others.
    pub(crate) fn open(device: String) -> Self {
        Self::at(place(), device)
    }

    fn at(path: Option<PathBuf>, device: String) -> Self {
        let text = path.as_deref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        Self { path, device, known: text.lines().filter_map(entry).collect(), changed: false }
    }

    /// Writes what is new.
    pub(crate) fn save(&self) {
        if let Some(path) = self.path.as_deref().filter(|_| self.changed) {
            // Whoever can't write checks again next time.
            let _ = self.write(path);
        }
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        let line =
            |((device, key), error): (&(String, u64), &f64)| format!("{device} {key:016x} {error:e}\n");
        let text: String = self.known.iter().map(line).collect();
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

impl KernelCheckCache for File {
    fn get(&self, key: u64) -> Option<f64> {
        self.known.get(&(self.device.clone(), key)).copied()
    }

    fn insert(&mut self, key: u64, error: f64) {
        self.known.insert((self.device.clone(), key), error);
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_known_to_the_next() {
        let path = std::env::temp_dir().join(format!("doorbell-verdicts-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let open = |device: &str| File::at(Some(path.clone()), device.to_owned());
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
