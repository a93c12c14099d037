//! Lines typed at the chat's prompt: of several rows, with a history that lasts, and without loss of what is typed while an
//! answer is printed.

use crate::failure::{Failure, Kind};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::fs;
use std::io;
use std::path::PathBuf;

/// Marks the first and last row of a text of several.
const FENCE: &str = "\"\"\"";

/// Entries of the history.
const ENTRIES: usize = 1000;

/// The result of reading.
pub(crate) enum Input {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// The line editor.
pub(crate) struct LineInput {
    editor: Editor<(), FileHistory>,
    /// The file of the history, if it lasts.
    history: Option<PathBuf>,
}

impl LineInput {
    /// An editor; with `lasting` the history of earlier sessions is read and new lines are added to it.
    pub(crate) fn new(lasting: bool) -> Result<Self, Failure> {
        let config = Config::builder().max_history_size(ENTRIES).map_err(failure)?.build();
        let lines = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, lines).map_err(failure)?;
        let history = if lasting { history_file() } else { None };
        if let Some(path) = &history {
            // without a file, or with a damaged one, it begins empty
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// Reads a text. It ends with its row, unless that begins with three quotation marks, up to a row that ends with them,
    /// or ends with a backslash.
    pub(crate) fn read(&mut self) -> Result<Input, Failure> {
        let mut text = String::new();
        let mut fenced = false;
        loop {
            let row = match self.editor.readline(if text.is_empty() && !fenced { "> " } else { "... " }) {
                Ok(row) => row,
                Err(ReadlineError::Interrupted) => return Ok(Input::Interrupted),
                Err(ReadlineError::Eof) => return Ok(Input::End),
                Err(error) => return Err(failure(error)),
            };
            if !continues(&mut text, &row, &mut fenced) {
                break;
            }
        }
        self.remember(&text);
        Ok(Input::Line(text))
    }

    /// Adds a text to the history. If that fails, only the entry is lost.
    fn remember(&mut self, text: &str) {
        let added = !text.trim().is_empty() && self.editor.add_history_entry(text).unwrap_or(false);
        let Some(path) = self.history.as_ref().filter(|_| added) else { return };
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
        }
        let _ = self.editor.append_history(path);
    }
}

/// Appends a row to the text; returns true if another row follows.
fn continues(text: &mut String, row: &str, fenced: &mut bool) -> bool {
    let mut row = row;
    if text.is_empty()
        && !*fenced
        && let Some(rest) = row.trim_start().strip_prefix(FENCE)
    {
        *fenced = true;
        row = rest;
        if row.is_empty() {
            return true;
        }
    }
    if *fenced {
        let end = row.trim_end().strip_suffix(FENCE);
        text.push_str(end.unwrap_or(row));
        if end.is_none() {
            text.push('\n');
        }
        return end.is_none();
    }
    let open = row.strip_suffix('\\');
    text.push_str(open.unwrap_or(row));
    if open.is_some() {
        text.push('\n');
    }
    open.is_some()
}

/// The file of the history in the user's folder for state (XDG Base Directory Specification).
fn history_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("doorbell/history"))
}

fn failure(error: ReadlineError) -> Failure {
    Failure::new(Kind::Internal, format_args!("terminal: {error}"))
}

/// A terminal that does not show what is typed; dropping this shows it again. The typed text is read by the next prompt.
pub(crate) struct WithoutEcho(Termios);

impl WithoutEcho {
    /// `None` if stdin is no terminal.
    pub(crate) fn new() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        set(&quiet).ok()?;
        Some(Self(before))
    }
}

impl Drop for WithoutEcho {
    fn drop(&mut self) {
        // fails only if the terminal is gone
        let _ = set(&self.0);
    }
}

fn set(modes: &Termios) -> Result<(), Errno> {
    tcsetattr(io::stdin(), OptionalActions::Now, modes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(rows: &[&str]) -> (String, usize) {
        let (mut text, mut fenced) = (String::new(), false);
        let used = rows.iter().take_while(|row| continues(&mut text, row, &mut fenced)).count();
        (text, used + 1)
    }

    #[test]
    fn texts_have_several_rows() {
        assert_eq!(joined(&["one", "two"]), ("one".into(), 1));
        assert_eq!(joined(&["one\\", "two\\", "three"]), ("one\ntwo\nthree".into(), 3));
        assert_eq!(joined(&["\"\"\"", "a", "", "b\"\"\"", "c"]), ("a\n\nb".into(), 4));
        assert_eq!(joined(&["\"\"\"a", "b\\", "\"\"\""]), ("a\nb\\\n".into(), 3));
        assert_eq!(joined(&["\"\"\"a\"\"\""]), ("a".into(), 1));
        assert_eq!(joined(&["\\", "/clear"]), ("\n/clear".into(), 2));
    }
}
