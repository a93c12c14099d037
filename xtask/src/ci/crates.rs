//! The crates of the workspace, as `docs/architecture.md` lists them and as `cargo metadata` finds them.

use crate::process::{cargo, output};
use anyhow::Context as _;
use serde_json::Value as Json;
use std::path::Path;

/// One crate in the table of the architecture.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    /// Our crates that it may depend on; `None` means any.
    pub(super) knows: Option<&'static [&'static str]>,
    pub(super) no_std: bool,
}

const fn row(name: &'static str, folder: &'static str, knows: &'static [&'static str], no_std: bool) -> Row {
    Row { name, folder, knows: Some(knows), no_std }
}

const CORE: &str = "doorbell-core";
const CPU: &str = "doorbell-cpu";
const KFD: &str = "doorbell-kfd";
const SOFT: &str = "doorbell-soft";
const GPU: &str = "doorbell-gpu";
const ISA: &str = "doorbell-isa";
const COMPILER: &str = "doorbell-compiler";
const KERNELS: &str = "doorbell-kernels";
const RUNTIME: &str = "doorbell-runtime";
const SERVER: &str = "doorbell-server";

/// Crates that may depend on everything, and on which no other crate may depend.
pub(super) const OUTSIDE: [&str; 3] = ["doorbell-tests", "xtask", "doorbell-shim"];

#[rustfmt::skip]
const ROWS: [Row; 15] = [
    row(CORE, "core", &[], true),
    row(CPU, "drivers/cpu", &[CORE], true),
    row(KFD, "drivers/kfd", &[], true),
    row(SOFT, "drivers/soft", &[KFD, ISA], true),
    row(GPU, "drivers/gpu", &[CORE, KFD, KERNELS], true),
    row(ISA, "kernels/isa", &[], true),
    row(COMPILER, "kernels/compiler", &[ISA], true),
    row(KERNELS, "kernels/library", &[COMPILER, CORE], true),
    row(RUNTIME, "hosts/runtime", &[CORE, CPU, GPU, KFD, SOFT], false),
    row(SERVER, "hosts/server", &[RUNTIME, CORE], false),
    row("doorbell", "hosts/cli", &[SERVER, RUNTIME, CORE], false),
    row("doorbell-appliance", "hosts/appliance", &[SERVER, RUNTIME, CORE], false),
    Row { name: OUTSIDE[0], folder: "tests", knows: None, no_std: false },
    Row { name: OUTSIDE[1], folder: "xtask", knows: None, no_std: false },
    Row { name: OUTSIDE[2], folder: "tests/shim", knows: Some(&[KFD, SOFT]), no_std: false },
];

/// The architecture's row of a crate.
pub(super) fn row_of(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// A crate of the workspace: its name, its folder, and our crates that it depends on in any way.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) folder: String,
    pub(super) knows: Vec<String>,
    pub(super) features: Vec<String>,
}

/// All crates of the workspace.
pub(super) fn members() -> Result<Vec<Member>, anyhow::Error> {
    let text = output(&mut cargo(["metadata", "--format-version=1", "--no-deps"]))?;
    parse(&serde_json::from_slice(&text)?).context("cargo metadata has an unexpected form")
}

fn parse(metadata: &Json) -> Option<Vec<Member>> {
    let root = Path::new(metadata["workspace_root"].as_str()?);
    let mut members = Vec::new();
    for package in metadata["packages"].as_array()? {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?;
        let ours =
            package["dependencies"].as_array()?.iter().filter(|dependency| dependency["path"].is_string());
        members.push(Member {
            name: package["name"].as_str()?.to_string(),
            folder: folder.to_string_lossy().into_owned(),
            features: package["features"].as_object()?.keys().cloned().collect(),
            knows: ours.filter_map(|dependency| Some(dependency["name"].as_str()?.to_string())).collect(),
        });
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_gives_names_folders_and_our_dependencies() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "doorbell-cpu",
                "manifest_path": "/w/drivers/cpu/Cargo.toml",
                "dependencies": [{"name": "doorbell-core", "path": "/w/core"}, {"name": "half"}],
                "features": {"default": ["std"], "defmt": []},
            }],
        });
        let members = parse(&metadata).unwrap();
        assert_eq!(members[0].folder, "drivers/cpu");
        assert_eq!(members[0].knows, ["doorbell-core"]);
        assert_eq!(members[0].features, ["default", "defmt"]);
    }
}
