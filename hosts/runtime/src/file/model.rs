//! A model on disk: one file, or all parts of a split one.

use super::error::OpenError;
use super::mapping::Mapping;
use super::split;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes read ahead between two reports of progress; a multiple of every page size.
const STEP: usize = 64 << 20;

/// The mapped bytes of a model.
pub struct ModelFile {
    paths: Vec<PathBuf>,
    mappings: Vec<Mapping>,
}

impl ModelFile {
    /// Opens the file at `path`; if its name is that of a part of a split model, all parts.
    ///
    /// The files must not shrink while this lives: reading a page that has been cut off ends the process.
    ///
    /// # Errors
    ///
    /// The path has no file, the file is not GGUF, a part is missing, or the system returns an error.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        // the named file first, so that its errors are reported before those of the other parts
        let first = map(path)?;
        let Some(paths) = split::parts(path) else {
            return Ok(Self { paths: vec![path.to_owned()], mappings: vec![first] });
        };
        let mut mappings = Vec::with_capacity(paths.len());
        for part in &paths {
            mappings.push(map(part).map_err(|error| match error {
                OpenError::NotFound { path } => {
                    OpenError::PartMissing { path, count: u32::try_from(paths.len()).unwrap_or(u32::MAX) }
                }
                error => error,
            })?);
        }
        Ok(Self { paths, mappings })
    }

    /// The bytes of each file, in the order of the part numbers.
    #[must_use]
    pub fn parts(&self) -> Vec<&[u8]> {
        self.mappings.iter().map(Mapping::bytes).collect()
    }

    /// The paths of the files, in the same order.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The sum of the files' lengths, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.bytes().len() as u64).sum()
    }

    /// True if the files have no bytes, which is never so for an opened model.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads all bytes into memory before they are used, and reports (done, all) in bytes after each step.
    ///
    /// # Errors
    ///
    /// The system can't read a file, or has no memory for its pages.
    pub fn populate(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), OpenError> {
        let all = self.len();
        let mut done = 0;
        for (mapping, path) in self.mappings.iter().zip(&self.paths) {
            let len = mapping.bytes().len();
            for start in (0..len).step_by(STEP) {
                let end = start.saturating_add(STEP).min(len);
                let populated = mapping.populate(start..end);
                populated.map_err(|error| OpenError::Io { path: path.clone(), error })?;
                done += (end - start) as u64;
                progress(done, all);
            }
        }
        Ok(())
    }
}

/// Maps one file and checks that it is GGUF.
fn map(path: &Path) -> Result<Mapping, OpenError> {
    let io_error = |error| OpenError::Io { path: path.to_owned(), error };
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            OpenError::NotFound { path: path.to_owned() }
        }
        _ => io_error(error),
    })?;
    if metadata.is_dir() {
        return Err(OpenError::Directory { path: path.to_owned(), candidate: candidate(path) });
    }
    if !metadata.is_file() {
        return Err(OpenError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(io_error)?;
    let len = file.metadata().map_err(io_error)?.len();
    if len == 0 {
        return Err(OpenError::Empty { path: path.to_owned() });
    }
    let len = usize::try_from(len).map_err(|_| io_error(io::ErrorKind::FileTooLarge.into()))?;
    let mapping = Mapping::new(&file, len).map_err(io_error)?;
    if !mapping.bytes().starts_with(b"GGUF") {
        return Err(OpenError::NotGguf { path: path.to_owned(), looks_like: looks_like(mapping.bytes()) });
    }
    Ok(mapping)
}

/// The first model file in a directory, by name.
fn candidate(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "gguf")).min()
}

/// The probable kind of a file that isn't GGUF, with the next step.
fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    const SIGNS: [(&[u8], &str); 8] = [
        (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with `git lfs pull`"),
        (b"PK\x03\x04", "a zip archive or PyTorch checkpoint; convert the model to GGUF first"),
        (b"<!DOCTYPE", "a web page; download the file itself"),
        (b"<!doctype", "a web page; download the file itself"),
        (b"<html", "a web page; download the file itself"),
        (b"\x1f\x8b", "compressed; unpack it first with `gunzip`"),
        (b"lmgg", "an old GGML file; convert the model to GGUF first"),
        (b"tjgg", "an old GGJT file; convert the model to GGUF first"),
    ];
    let sign = SIGNS.iter().find(|(sign, _)| bytes.starts_with(sign));
    // safetensors: a length, then JSON
    let safetensors = bytes.get(8) == Some(&b'{') && bytes.get(4..8) == Some(&[0; 4]);
    sign.map(|(_, what)| *what)
        .or_else(|| safetensors.then_some("a safetensors file; convert the model to GGUF first"))
}
