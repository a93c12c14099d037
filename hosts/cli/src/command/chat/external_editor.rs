//! Texts written in the user's own editor.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;

/// Opens `$VISUAL`, `$EDITOR` or vi with a text and returns what it has become, or the reason why there is none.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let path = std::env::temp_dir().join(format!("doorbell-{}.txt", std::process::id()));
    let edited = write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    let edited = edited.and_then(|()| run(&editor, &path));
    // nobody needs the file any more
    let _ = fs::remove_file(&path);
    edited
}

/// Creates a file that only the user can read.
fn write(path: &Path, text: &str) -> io::Result<()> {
    // one that was left behind; a link of somebody else is not followed
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Runs the editor on a file and reads what it has written. The editor may have arguments.
fn run(editor: &str, path: &Path) -> Result<String, String> {
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(path).status();
    let status =
        status.map_err(|error| format!("{program}: {error}; set EDITOR to a program that is there"))?;
    if !status.success() {
        return Err(format!("{program} ended with {status}; nothing has changed"));
    }
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
