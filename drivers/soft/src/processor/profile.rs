//! Counts of one dispatch: instructions by timing class, LDS passes, bytes by cache level.
//!
//! Not here: counting (`meter.rs`), the time that counts take (`model.rs`).

use alloc::string::String;

use doorbell_isa::Timing;

/// Bytes that were moved between levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes of lines that vector loads read from GL0; a line counts once per instruction.
    pub gl0: u64,
    /// Bytes of lines that scalar loads read from the scalar cache.
    pub scalar: u64,
    /// Bytes that GL0 and the scalar cache missed.
    pub gl1: u64,
    /// Bytes that GL1 missed, and those of lines that stores and atomics touch.
    pub l2: u64,
    /// Bytes that L2 missed.
    pub memory: u64,
    /// Distinct bytes that were touched: the least possible traffic with empty caches.
    pub ideal: u64,
}

/// Counts of one dispatch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// The kernel's name, where the launch has one.
    pub name: String,
    /// Address of the first instruction.
    pub entry: u64,
    /// Workgroups.
    pub groups: u64,
    /// Waves.
    pub waves: u64,
    /// Vector registers of a wave.
    pub vgprs: u64,
    /// LDS bytes of a group.
    pub lds: u64,
    /// Wave instructions by timing class, in the order of [`Timing`].
    pub mix: [u64; 20],
    /// Clocks for which vector units are busy, over all waves.
    pub vector_cycles: u64,
    /// Clocks of scalar units, branches and messages.
    pub scalar_cycles: u64,
    /// Clocks of LDS: one per pass of up to 32 banks.
    pub lds_cycles: u64,
    /// Part of them caused by lanes that access different words of one bank.
    pub lds_conflicts: u64,
    /// Bytes by level.
    pub traffic: Traffic,
}

impl Profile {
    /// Wave instructions.
    pub fn instructions(&self) -> u64 {
        self.mix.iter().sum()
    }

    /// Wave instructions of one timing class.
    pub fn of(&self, timing: Timing) -> u64 {
        self.mix[timing as usize]
    }
}

/// Every timing class in the order of its number.
pub(super) const TIMINGS: [Timing; 19] = [
    Timing::Valu,
    Timing::Valu64,
    Timing::Quarter,
    Timing::Trans,
    Timing::F64,
    Timing::F64Trans,
    Timing::Matrix,
    Timing::MatrixNarrow,
    Timing::Salu,
    Timing::SaluFloat,
    Timing::Branch,
    Timing::Message,
    Timing::Barrier,
    Timing::Wait,
    Timing::Hint,
    Timing::Smem,
    Timing::Lds,
    Timing::Vmem,
    Timing::Flat,
];
