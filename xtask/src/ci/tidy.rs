//! Rules that no compiler checks: headers, sizes, names, allowed locations, links.
//!
//! The lints of the workspace check functions (length, parameters), names and `unsafe`; nothing here repeats them.

mod docs;
mod manifest;
mod named;
mod source;
mod text;
mod words;

use crate::process::root;
use anyhow::{Context as _, bail};
use std::path::Path;

/// A text file of the checkout, by its path from the top.
struct Entry {
    path: String,
    text: String,
}

/// A rule returns the line (0 for the file as a whole) and the text of every fault.
type Rule = fn(&Entry) -> Vec<(usize, String)>;

/// Not ours to check: build output, model files, the repository itself (a file in a worktree).
const SKIPPED: [&str; 4] = ["target", "models", ".git", "node_modules"];

pub(super) fn run() -> Result<(), anyhow::Error> {
    let mut entries = Vec::new();
    collect(&root(), "", &mut entries)?;
    let rules = source::RULES.iter().chain(&text::RULES).chain(&manifest::RULES);
    let mut faults: Vec<String> = Vec::new();
    for rule in rules {
        for entry in &entries {
            faults.extend(
                rule(entry).into_iter().map(|(line, fault)| format!("{}:{line}: {fault}", entry.path)),
            );
        }
    }
    faults.extend(named::missing(&entries));
    faults.extend(docs::faults(&entries));
    faults.extend(words::faults(&entries));
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    let rust = entries.iter().filter(|entry| entry.path.ends_with(".rs"));
    let lines: usize = rust.clone().map(|entry| entry.text.lines().count()).sum();
    eprintln!("{} Rust files, {lines} lines", rust.count());
    Ok(())
}

fn collect(folder: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<(), anyhow::Error> {
    let mut found: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    found.sort_by_key(std::fs::DirEntry::file_name);
    for entry in found {
        let name = entry.file_name().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), entries)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).with_context(|| format!("read {path}"))?;
            // Binary files (goldens, archives) have no lines to check.
            if let Ok(text) = String::from_utf8(bytes) {
                entries.push(Entry { path, text });
            }
        }
    }
    Ok(())
}

/// The lines, numbered from 1, for which `fault` gives a message.
fn each_line(entry: &Entry, fault: impl Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let numbered = entry.text.lines().enumerate();
    numbered.filter_map(|(index, line)| Some((index + 1, fault(line)?))).collect()
}

/// One fault of the file as a whole, when there is one.
fn whole(fault: Option<String>) -> Vec<(usize, String)> {
    fault.map(|fault| (0, fault)).into_iter().collect()
}

/// Asserts that a rule finds this number of faults in a file.
#[cfg(test)]
fn check(rule: Rule, path: &str, text: &str, faults: usize) {
    let entry = Entry { path: path.into(), text: text.into() };
    assert_eq!(rule(&entry).len(), faults, "{path}: {text:?}");
}
