//! Dependence between the workgroups of a kernel.
//!
//! Not here: running groups in parallel (`parallel.rs`).

use alloc::collections::BTreeSet;
use alloc::vec;

use doorbell_isa::{Cache, Flags, Format, Operand, Scope};

use super::program::Program;
use super::step::Step;
use crate::memory::Space;

/// Kernels with more instructions count as dependent.
const MOST: usize = 1 << 16;

impl Program {
    /// True if groups of the kernel at `entry` may see each other: a global atomic, a load past the caches of a
    /// workgroup, or a jump whose target is computed.
    pub(crate) fn is_dependent(&mut self, entry: u64, space: &mut Space) -> bool {
        if let Some(known) = self.dependent.get(&entry) {
            return *known;
        }
        let found = self.walk(entry, space).is_none();
        self.dependent.insert(entry, found);
        found
    }

    /// Follows every path; `None` as soon as one is dependent.
    fn walk(&mut self, entry: u64, space: &mut Space) -> Option<()> {
        let mut seen = BTreeSet::new();
        let mut open = vec![entry];
        while let Some(pc) = open.pop() {
            if !seen.insert(pc) {
                continue;
            }
            if seen.len() > MOST {
                return None;
            }
            let step = &self.fetch(pc, space).ok()?.step;
            if reaches_others(step) {
                return None;
            }
            let row = step.row();
            if row.has(Flags::BRANCHES) {
                let Some(Operand::Immediate(distance)) = step.inst.src().first() else { return None };
                open.push(step.next().wrapping_add_signed(i64::from(*distance) * 4));
            }
            if !row.has(Flags::ENDS) && row.name != "s_branch" {
                open.push(step.next());
            }
        }
        Some(())
    }
}

/// True if an instruction may see another group's stores.
fn reaches_others(step: &Step) -> bool {
    let row = step.row();
    let global = matches!(row.format, Format::Global | Format::Flat | Format::Mubuf);
    let coherent = match step.inst.memory.cache {
        Cache::Gfx11 { glc, .. } => glc,
        Cache::Gfx12 { scope, .. } => matches!(scope, Scope::Device | Scope::System),
    };
    (global && (row.has(Flags::ATOMIC) || (row.has(Flags::LOAD) && coherent))) || row.name == "s_rfe_b64"
}
