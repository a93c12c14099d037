//! Files and environment variables that the pages of the project name exist, and every variable is documented.

use super::Entry;
use crate::process::root;

/// Pages with tables of environment variables.
const KNOBS: [&str; 2] = ["docs/testing.md", "docs/serving.md"];

/// Endings of paths in backticks that have to be files.
const FILES: [&str; 8] = [".rs", ".md", ".py", ".toml", ".sh", ".c", ".mjs", ".txt"];

/// Faults of all files, as lines of a report.
pub(super) fn faults(entries: &[Entry]) -> Vec<String> {
    let mut faults = undocumented(entries);
    for entry in entries.iter().filter(|entry| is_page(&entry.path)) {
        let lost = paths(entry, &|path| root().join(path).exists()).into_iter();
        faults.extend(lost.map(|(line, fault)| format!("{}:{line}: {fault}", entry.path)));
    }
    faults
}

/// True for Markdown pages at the top and in `docs/`. Decisions and the changelog may name what is gone.
fn is_page(path: &str) -> bool {
    let excepted = path.starts_with("docs/decisions/") || path == "CHANGELOG.md";
    path.ends_with(".md") && !excepted && (path.starts_with("docs/") || !path.contains('/'))
}

/// Paths in backticks that lead nowhere, with their lines.
fn paths(entry: &Entry, exists: &dyn Fn(&str) -> bool) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for (index, line) in entry.text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let top = name.split('/').next().unwrap_or_default();
            let ours = ["core", "drivers", "kernels", "hosts", "tests", "xtask", "docs"].contains(&top);
            let file = FILES.iter().any(|ending| name.ends_with(ending)) || name.ends_with('/');
            // Upper case stands for a name of the reader's choice.
            let pattern = name.contains(|c: char| c.is_whitespace() || "*<>{}…".contains(c))
                || name.split('/').any(|part| !part.is_empty() && part.chars().all(char::is_uppercase));
            if ours && file && name.contains('/') && !pattern && !exists(name) {
                faults.push((index + 1, format!("{name} does not exist")));
            }
        }
    }
    faults
}

/// True for names of environment variables of ours.
fn is_knob(word: &str) -> bool {
    let shaped = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let long = word.len() > "DOORBELL_".len();
    shaped && ((word.starts_with("DOORBELL_") && long && !word.ends_with('_')) || word.ends_with("BLESS"))
}

/// Environment variables that a file reads or sets: in Rust whole text literals, in scripts any word.
fn knobs(entry: &Entry) -> Vec<&str> {
    let script = [".py", ".sh", ".mjs"].iter().any(|ending| entry.path.ends_with(ending));
    let words: Vec<&str> = if script {
        entry.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect()
    } else if entry.path.ends_with(".rs") {
        entry.text.split('"').collect()
    } else {
        Vec::new()
    };
    words.into_iter().filter(|word| is_knob(word)).collect()
}

/// Variables that are read and not documented, or documented and not read.
fn undocumented(entries: &[Entry]) -> Vec<String> {
    let pages: String = entries
        .iter()
        .filter(|entry| KNOBS.contains(&entry.path.as_str()))
        .map(|entry| entry.text.as_str())
        .collect();
    let documented: Vec<&str> = pages.split('`').skip(1).step_by(2).filter(|word| is_knob(word)).collect();
    let mut used = Vec::new();
    let mut faults = Vec::new();
    for entry in entries {
        for knob in knobs(entry) {
            if !documented.contains(&knob) && !used.contains(&knob) {
                faults.push(format!("{}:0: {knob} is in no table of {}", entry.path, KNOBS[0]));
            }
            used.push(knob);
        }
    }
    let unused = documented.iter().filter(|knob| !used.contains(knob));
    faults.extend(unused.map(|knob| format!("{}:0: {knob} is read nowhere", KNOBS[0])));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, text: &str) -> Entry {
        Entry { path: path.into(), text: text.into() }
    }

    #[test]
    fn paths_that_lead_nowhere_are_reported() {
        let text = "`core/src/a.rs` `core/src/b.rs` `core/gone/` `tests/fuzz/TARGET/` `core/*.rs` `b.rs` `other/a.rs`";
        let found = paths(&entry("docs/a.md", text), &|path| path == "core/src/a.rs");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(is_page("README.md") && is_page("docs/a.md") && !is_page("docs/decisions/1.md"));
    }

    #[test]
    fn variables_are_documented_and_read() {
        let code = concat!("env(\"DOORBELL", "_A\"); env(\"DOORBELL", "_B\"); \"bless\"");
        let page = concat!("| `DOORBELL", "_A` | | `DOORBELL", "_C` |");
        let found = undocumented(&[entry("a.rs", code), entry(KNOBS[0], page)]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
