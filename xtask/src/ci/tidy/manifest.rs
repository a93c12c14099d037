//! Rules for `Cargo.toml` files: versions stand in one place, each with its reason.

use super::{Entry, Rule};

pub(super) const RULES: [Rule; 2] = [reasons, versions];

/// The lines of the tables whose names end in `dependencies`, numbered from 1, each with the line before it.
fn dependencies(entry: &Entry) -> Vec<(usize, &str, &str)> {
    let mut inside = false;
    let mut before = "";
    let mut found = Vec::new();
    for (index, line) in entry.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim_end().ends_with("dependencies]");
        } else if inside && line.contains('=') && !line.starts_with('#') {
            found.push((index + 1, before, line));
        }
        before = line;
    }
    found
}

/// In the top manifest each foreign dependency has a comment with the reason.
fn reasons(entry: &Entry) -> Vec<(usize, String)> {
    if entry.path != "Cargo.toml" {
        return Vec::new();
    }
    let unexplained = dependencies(entry)
        .into_iter()
        .filter(|(_, before, line)| !line.contains("path =") && !before.starts_with('#'));
    unexplained.map(|(number, ..)| (number, "a dependency without a line that says why".into())).collect()
}

/// Workspaces of their own, whose manifests have their own versions.
const ELSEWHERE: [&str; 2] = ["tests/nostd/", "tests/fuzz/"];

/// All other manifests take versions from the workspace.
fn versions(entry: &Entry) -> Vec<(usize, String)> {
    let elsewhere = ELSEWHERE.iter().any(|folder| entry.path.starts_with(folder));
    if elsewhere || !entry.path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let own = dependencies(entry).into_iter().filter(|(_, _, line)| !line.contains("workspace = true"));
    own.map(|(number, ..)| (number, "a version outside the workspace's manifest".into())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn each_rule_finds_its_fault_and_nothing_else() {
        check(reasons, "Cargo.toml", "[workspace.dependencies]\n# why\na = \"1\"\nb = \"2\"\n", 1);
        check(reasons, "Cargo.toml", "[workspace.lints.rust]\na = \"deny\"\n", 0);
        check(versions, "core/Cargo.toml", "[dependencies]\na.workspace = true\nb = \"1\"\n", 1);
    }
}
