//! Output on stdout: streamed text, or one JSON document. Notes for people go to stderr.

use crate::failure::Failure;
use alloc::borrow::Cow;
use core::fmt::Display;
use serde_json::Value;
use std::io::{self, IsTerminal as _, Write as _};

/// Writes bytes to stdout at once.
pub(crate) fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes.as_ref())?;
    Ok(stdout.flush()?)
}

/// Writes a model's text to stdout at once. A terminal gets no control characters of the model: they could move the cursor,
/// change the title or answer in the user's name. A file or a pipe gets the text as it is.
pub(crate) fn print_answer(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(visible(text).as_bytes()) } else { print(text) }
}

/// The text with a replacement character for each control character but line breaks and tabs.
fn visible(text: &str) -> Cow<'_, str> {
    let unsafe_character = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(unsafe_character) {
        Cow::Owned(text.replace(unsafe_character, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(visible("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(visible("\u{1b}]0;title\u{7}\u{9b}2J\rx"), "\u{fffd}]0;title\u{fffd}\u{fffd}2J\u{fffd}x");
    }
}
