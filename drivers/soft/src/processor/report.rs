//! The report of a run: counts, findings, messages.
//!
//! Not here: counts of single dispatches (`profile.rs`).

use alloc::vec::Vec;

use doorbell_isa::Timing;

use super::finding::{Finding, FindingKind};
use super::trap::Message;

/// The report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Wave instructions.
    pub instructions: u64,
    /// Wave instructions by timing class, in the order of [`Timing`].
    pub mix: [u64; 20],
    /// Sanitizer findings, at most [`Report::MOST`] and one per instruction and kind.
    pub findings: Vec<Finding>,
    /// Interrupt messages.
    pub interrupts: u64,
    /// Interrupt messages that were not taken yet, at most [`Report::MOST`].
    pub messages: Vec<Message>,
    /// Cache invalidations and write-backs.
    pub maintenance: u64,
    /// Workgroups finished.
    pub groups: u64,
}

impl Report {
    /// Findings and messages kept.
    pub const MOST: usize = 64;

    #[inline]
    pub(crate) fn count(&mut self, timing: Timing) {
        self.instructions += 1;
        self.mix[timing as usize] += 1;
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.mix.iter_mut().zip(other.mix).for_each(|(sum, count)| *sum += count);
        self.interrupts += other.interrupts;
        let room = Self::MOST.saturating_sub(self.messages.len());
        self.messages.extend(other.messages.iter().take(room));
        self.maintenance += other.maintenance;
        self.groups += other.groups;
    }

    /// An interrupt message of a wave.
    pub(crate) fn send(&mut self, message: Message) {
        self.interrupts += 1;
        if self.messages.len() < Self::MOST {
            self.messages.push(message);
        }
    }

    /// True if a finding of this kind at this instruction would not be kept.
    pub(crate) fn is_known(&self, kind: FindingKind, pc: u64) -> bool {
        self.findings.len() >= Self::MOST
            || self.findings.iter().any(|other| other.kind == kind && other.pc == pc)
    }

    pub(crate) fn find(&mut self, finding: Finding) {
        if !self.is_known(finding.kind, finding.pc) {
            self.findings.push(finding);
        }
    }

    /// Instructions of one timing class.
    pub fn of(&self, timing: Timing) -> u64 {
        self.mix[timing as usize]
    }
}
