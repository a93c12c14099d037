//! Rules for every text file.

use super::{Entry, Rule, each_line, whole};
use crate::process::root;

pub(super) const RULES: [Rule; 4] = [spaces, unfinished, machine_path, links];

/// True for texts of foreign origin and for lock files, which stay unchanged.
fn foreign(entry: &Entry) -> bool {
    const FOLDERS: [&str; 3] = ["tests/goldens/", "tests/oracle/", "tests/fuzz/kept/"];
    FOLDERS.iter().any(|folder| entry.path.starts_with(folder)) || entry.path.ends_with(".lock")
}

fn spaces(entry: &Entry) -> Vec<(usize, String)> {
    if foreign(entry) {
        return Vec::new();
    }
    let mut faults = each_line(entry, |line| {
        line.ends_with([' ', '\t', '\r']).then(|| "space at the end of the line".into())
    });
    faults.extend(whole(
        (!entry.text.is_empty() && !entry.text.ends_with('\n')).then(|| "no newline at its end".into()),
    ));
    faults
}

fn unfinished(entry: &Entry) -> Vec<(usize, String)> {
    if foreign(entry) {
        return Vec::new();
    }
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    each_line(entry, |line| {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric());
        words.find(|word| marks.contains(word)).map(|mark| format!("{mark}: do it, or write an issue"))
    })
}

/// Paths that exist on one machine only.
fn machine_path(entry: &Entry) -> Vec<(usize, String)> {
    let prefixes =
        [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/op", "t/"), concat!("/Us", "ers/")];
    each_line(entry, |line| {
        let found = prefixes.iter().find(|prefix| line.contains(**prefix));
        found.map(|prefix| format!("{prefix} is a path of one machine"))
    })
}

/// Relative links of Markdown files that lead to no file.
fn links(entry: &Entry) -> Vec<(usize, String)> {
    if !entry.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = entry.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = root().join(folder);
    let mut faults = Vec::new();
    for (index, line) in entry.text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                faults.push((index + 1, format!("link to {target}, which does not exist")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn each_rule_finds_its_fault_and_nothing_else() {
        check(spaces, "a.md", "a\nb\n", 0);
        check(spaces, "a.md", "a \nb", 2);
        check(unfinished, "a.md", concat!("a TO", "DO: b\n"), 1);
        check(unfinished, "a.md", "method_of_today\n", 0);
        check(machine_path, "a.md", concat!("see /wo", "rk/here\n"), 1);
        check(links, "core/a.md", "[up](../LICENSE-MIT) [web](https://example.org) [here](#part)\n", 0);
        check(links, "core/a.md", "[lost](nowhere.md)\n", 1);
    }
}
