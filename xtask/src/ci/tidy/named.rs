//! Tests that the pages of `docs/` name in their tables exist.

use super::Entry;

/// Pages whose tables name tests.
const PAGES: [&str; 3] = ["docs/testing.md", "docs/known-bugs.md", "docs/performance.md"];

/// Short names of folders in their tables.
const SHORT: [(&str, &str); 2] = [("kfd/", "tests/kfd/"), ("driver/", "drivers/kfd/tests/driver/")];

/// Names that lead to no file or no test, as lines of a report.
pub(super) fn missing(entries: &[Entry]) -> Vec<String> {
    let mut faults = Vec::new();
    for path in PAGES {
        match entries.iter().find(|entry| entry.path == path) {
            Some(page) => {
                let found = missing_tests(entries, page).into_iter();
                faults.extend(found.map(|(line, fault)| format!("{path}:{line}: {fault}")));
            }
            None => faults.push(format!("{path}:0: the file is missing: its tables are checked")),
        }
    }
    faults
}

/// Names in the tables of a page that lead to no file or no test, with their lines.
fn missing_tests(entries: &[Entry], document: &Entry) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for (index, line) in document.text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let mut file: Option<Vec<&Entry>> = None;
        for name in line.split('`').skip(1).step_by(2) {
            let fault = if name.ends_with(".rs") {
                file = Some(files(entries, name));
                file.as_ref().is_some_and(Vec::is_empty).then(|| format!("no file {name}"))
            } else {
                let here = file.as_deref().filter(|_| is_function(name));
                here.filter(|files| !files.iter().any(|file| has_test(&file.text, name)))
                    .map(|_| format!("no test {name} in the file that is named before it"))
            };
            faults.extend(fault.map(|fault| (index + 1, fault)));
        }
    }
    faults
}

/// Files that a name stands for: a path, or the end of one.
fn files<'e>(entries: &'e [Entry], name: &str) -> Vec<&'e Entry> {
    let whole = SHORT.iter().find_map(|(short, long)| Some(format!("{long}{}", name.strip_prefix(short)?)));
    let exact = |path: &str| entries.iter().filter(|entry| entry.path == path).collect::<Vec<_>>();
    let found = exact(whole.as_deref().unwrap_or(name));
    if !found.is_empty() {
        return found;
    }
    let end = format!("/{name}");
    entries.iter().filter(|entry| entry.path.ends_with(&end)).collect()
}

/// True for a name of several words; its end may be left out.
fn is_function(name: &str) -> bool {
    let name = name.strip_suffix('…').unwrap_or(name);
    name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// True if a file has a test of this name.
fn has_test(text: &str, name: &str) -> bool {
    let mut test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") {
            test = true;
        } else if let Some((found, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
            let named = name.strip_suffix('…').map_or(found == name, |start| found.starts_with(start));
            if test && named {
                return true;
            }
            test = false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_pages_that_do_not_exist_are_reported() {
        let entry = |path: &str, text: &str| Entry { path: path.into(), text: text.into() };
        let code = "#[test]\nfn row_1_is_so() {}\nfn no_test() {}\n";
        let faults = |table: &str| {
            let entries = [entry("tests/kfd/a.rs", code), entry("b.rs", "")];
            missing_tests(&entries, &entry("docs/testing.md", table)).len()
        };
        assert_eq!(faults("| 1 | `kfd/a.rs`: `row_1_is_so` |"), 0);
        assert_eq!(faults("| 1 | `a.rs`: `row_1_…`; golden `some-file` |"), 0);
        assert_eq!(faults("| 1 | `a.rs`: `row_2_…` |"), 1);
        assert_eq!(faults("| 1 | `a.rs`: `row_1_is` |"), 1);
        assert_eq!(faults("| 1 | `a.rs`: `no_test` |"), 1);
        assert_eq!(faults("| 1 | `kfd/c.rs` |\n| 2 | `b.rs`: `row_1_is_so` |"), 2);
        assert_eq!(faults("`kfd/c.rs`: prose"), 0);
        assert_eq!(missing(&[entry("docs/testing.md", "")]).len(), 2);
    }
}
