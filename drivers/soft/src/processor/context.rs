//! A wave with everything that its instructions can reach; findings and barriers.
//!
//! Not here: memory operations (`operations.rs`), executing instructions (`execute.rs`).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use doorbell_isa::{Target, decode};

use super::fault::Cause;
use super::finding::{Finding, FindingKind, Party};
use super::group::GroupState;
use super::meter::Meter;
use super::ordering::Ordering;
use super::report::Report;
use super::step::{Next, Step};
use super::trap::Trap;
use super::wave::{Activity, Wave};
use crate::memory::{Random, Space};

/// Dwords of the longest instruction.
const LONGEST: u64 = 4;

/// One wave with everything it can reach.
pub(crate) struct Context<'a> {
    /// The wave.
    pub(crate) wave: &'a mut Wave,
    /// State that its group shares.
    pub(crate) group: &'a mut GroupState,
    /// The GPU's address space.
    pub(crate) space: &'a mut Space,
    /// Counts and findings.
    pub(crate) report: &'a mut Report,
    /// Choices of the hardware.
    pub(crate) random: &'a mut Random,
    /// The race detector of global memory.
    pub(crate) ordering: Option<&'a mut Ordering>,
    /// Counts by dispatch.
    pub(crate) meter: Option<&'a mut Meter>,
    /// Trap handler for exceptions.
    pub(crate) trap: Option<Trap>,
}

impl Context<'_> {
    /// Signals the workgroup barrier.
    pub(crate) fn arrive(&mut self, step: &Step) {
        if self.group.arrived == 0 {
            self.group.barrier_pc = step.at;
        } else if self.group.barrier_pc != step.at {
            let other = Some(self.group.barrier_pc);
            self.find(FindingKind::DivergentBarrier, step, other, "another wave arrived elsewhere".into());
        }
        self.group.arrived += 1;
        self.wave.signalled = true;
        self.wave.phase = self.group.phase;
    }

    /// Waits for the barrier that was signalled.
    pub(crate) fn await_barrier(&mut self, step: &Step) -> Result<Next, Cause> {
        if !self.wave.signalled {
            self.find(FindingKind::DivergentBarrier, step, None, "wait without a signal".into());
            return Ok(Next::Following);
        }
        if self.group.phase > self.wave.phase {
            self.wave.signalled = false;
            return Ok(Next::Following);
        }
        self.wave.activity = Activity::AtBarrier;
        Ok(Next::Yields)
    }

    /// Records a finding.
    pub(crate) fn find(&mut self, kind: FindingKind, step: &Step, other: Option<u64>, detail: String) {
        self.found(kind, step.at, other, detail);
    }

    /// Records a finding at an address.
    pub(crate) fn found(&mut self, kind: FindingKind, pc: u64, other: Option<u64>, detail: String) {
        if self.report.is_known(kind, pc) {
            return;
        }
        let target = self.wave.target;
        let text = text_at(self.space, target, pc);
        let other = other.map(|pc| Party { pc, text: text_at(self.space, target, pc) });
        let (kernel, group, wave) = (self.group.kernel.clone(), self.group.id, self.wave.number);
        self.report.find(Finding { kind, kernel, pc, text, group, wave, other, detail });
    }
}

/// Text of the instruction at an address, as it is in memory now.
fn text_at(space: &mut Space, target: Target, pc: u64) -> String {
    let words: Vec<u32> =
        (0..LONGEST).map_while(|word| space.load32(pc.wrapping_add(4 * word)).ok()).collect();
    match decode(&words, target) {
        Ok((inst, _)) => inst.text(target).to_string(),
        Err(error) => error.to_string(),
    }
}
