//! Dependencies between crates: `cargo metadata` must show only those that `docs/architecture.md` allows.

use super::crates::{self, Member, OUTSIDE, row_of};
use anyhow::bail;

pub(super) fn run() -> Result<(), anyhow::Error> {
    let faults: Vec<String> = crates::members()?.iter().flat_map(faults).collect();
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

/// Faults of one crate. Dev- and build-dependencies count as well.
fn faults(member: &Member) -> Vec<String> {
    let Some(row) = row_of(&member.name) else {
        return vec![format!("{}: not in the table of docs/architecture.md", member.name)];
    };
    let mut faults = Vec::new();
    if row.folder != member.folder {
        faults.push(format!("{}: lives in {}, expected {}", member.name, member.folder, row.folder));
    }
    for known in &member.knows {
        let allowed = row.knows.is_none_or(|knows| knows.contains(&known.as_str()));
        let outside = OUTSIDE.contains(&known.as_str()) && !OUTSIDE.contains(&member.name.as_str());
        if !allowed || outside {
            faults.push(format!("{} must not depend on {known}", member.name));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, folder: &str, knows: &[&str]) -> usize {
        let knows = knows.iter().map(ToString::to_string).collect();
        faults(&Member { name: name.into(), folder: folder.into(), knows, features: Vec::new() }).len()
    }

    #[test]
    fn allowed_dependencies_pass_and_others_fail() {
        assert_eq!(check("doorbell-cpu", "drivers/cpu", &["doorbell-core"]), 0);
        assert_eq!(check("xtask", "xtask", &["doorbell-tests", "doorbell-core"]), 0);
        assert_eq!(check("doorbell-core", "core", &["doorbell-cpu"]), 1);
        assert_eq!(check("doorbell-core", "core", &["doorbell-tests"]), 1);
        assert_eq!(check("doorbell-cpu", "cpu", &["doorbell-core"]), 1);
        assert_eq!(check("doorbell-new", "new", &[]), 1);
    }
}
