//! The programs of tests/opencl, which clang compiles for comparison with our instruction table and our compiler.

use crate::process::root;
use anyhow::{Context as _, ensure};
use doorbell_isa::Target;
use std::path::PathBuf;

/// The folder of the programs.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/opencl")
}

/// The programs for a chip by name: all but those whose line `// chips:` names others.
pub(crate) fn programs(target: Target) -> Result<Vec<PathBuf>, anyhow::Error> {
    let folder = folder();
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|name| name == "cl")
            && is_for(&std::fs::read_to_string(&path)?, target)
        {
            programs.push(path);
        }
    }
    ensure!(!programs.is_empty(), "{}: no program for {target}", folder.display());
    programs.sort();
    Ok(programs)
}

fn is_for(program: &str, target: Target) -> bool {
    let chips = program.lines().find_map(|line| line.strip_prefix("// chips: "));
    chips.is_none_or(|chips| chips.split(' ').any(|chip| chip == target.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_name_its_chips() {
        assert!(is_for("kernel void all() {}\n", Target::Gfx1100));
        assert!(is_for("// what\n// chips: gfx1100 gfx1151\n", Target::Gfx1151));
        assert!(!is_for("// chips: gfx1100 gfx1151\n", Target::Gfx1200));
        assert!(!programs(Target::Gfx1200).unwrap().is_empty());
    }
}
