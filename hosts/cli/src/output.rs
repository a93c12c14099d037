//! Output on stdout: streamed text, or one JSON document. Notes for people go to stderr.

use crate::failure::Failure;
use core::fmt::Display;
use serde_json::Value;
use std::io::{self, Write as _};

/// Writes bytes to stdout at once.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes.as_ref())?;
    Ok(stdout.flush()?)
}

/// Writes the one document of `--json`.
pub(crate) fn print_json(document: &Value) -> Result<(), Failure> {
    print(format!("{document}\n"))
}

/// Prints a line on stderr for the user.
pub(crate) fn note(line: impl Display) {
    // a closed stderr is ignored
    let _ = writeln!(io::stderr(), "{line}");
}

/// A number of bytes as text in a suitable unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}
