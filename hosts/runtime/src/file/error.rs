//! Errors of opening a model file.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why a model file can't be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no file at the path.
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The path is a directory.
    Directory {
        /// The path.
        path: PathBuf,
        /// A model file in it, if there is one.
        candidate: Option<PathBuf>,
    },
    /// The path is neither file nor directory.
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is empty.
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The file isn't GGUF.
    NotGguf {
        /// The path.
        path: PathBuf,
        /// Kind of file that it probably is, and the next step.
        looks_like: Option<&'static str>,
    },
    /// A part of a split model is not in the folder of the named part.
    PartMissing {
        /// The path of the missing part.
        path: PathBuf,
        /// Number of parts in the name.
        count: u32,
    },
    /// The system returned an error.
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl OpenError {
    /// True if there was too little memory or address space to map the file.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::OutOfMemory)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { path } if path.extension().is_some_and(|extension| extension == "gguf") => {
                write!(f, "{}: no such file; check the path", path.display())
            }
            Self::NotFound { path } => {
                write!(f, "{}: no such file; name a .gguf file that is on this machine", path.display())
            }
            Self::Directory { path, candidate: Some(candidate) } => {
                write!(
                    f,
                    "{} is a directory; name a file in it, for instance {}",
                    path.display(),
                    candidate.display()
                )
            }
            Self::Directory { path, candidate: None } => {
                write!(f, "{} is a directory without a .gguf file; name a model file", path.display())
            }
            Self::NotAFile { path } => {
                write!(f, "{} is not a regular file; name a .gguf file", path.display())
            }
            Self::Empty { path } => write!(f, "{} is empty; download it again", path.display()),
            Self::NotGguf { path, looks_like: Some(what) } => {
                write!(f, "{} is not a GGUF model but {what}", path.display())
            }
            Self::NotGguf { path, looks_like: None } => {
                write!(
                    f,
                    "{} is not a GGUF model (it does not begin with \"GGUF\"); name a .gguf file",
                    path.display()
                )
            }
            Self::PartMissing { path, count } => {
                write!(
                    f,
                    "{} is missing; put all {count} parts of the model into one directory",
                    path.display()
                )
            }
            Self::Io { path, error } => {
                let step = match error.kind() {
                    io::ErrorKind::PermissionDenied => "; `ls -lL` shows who may read it",
                    io::ErrorKind::OutOfMemory => "; `ulimit -v unlimited` lets the whole file be mapped",
                    _ => "",
                };
                write!(f, "{}: {error}{step}", path.display())
            }
        }
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
