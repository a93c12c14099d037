//! Findings of the sanitizers.
//!
//! Not here: the sanitizers (`watch.rs`, `undefined.rs`, `ordering.rs`, `lds_shadow.rs`).

use alloc::string::String;
use core::fmt;

/// Kind of a finding.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// A register was read while a load into it was outstanding.
    ReadBeforeWait,
    /// A register was overwritten while a load into it was outstanding.
    WriteBeforeWait,
    /// A value that was never written reached an address.
    UndefinedAddress,
    /// A value that was never written decides a branch or EXEC.
    UndefinedControl,
    /// A value that was never written was stored.
    UndefinedStore,
    /// Two waves touched the same LDS bytes without a barrier between them.
    LdsRace,
    /// Two groups touched the same global bytes and nothing orders them.
    GlobalRace,
    /// A cache may still hold what was there before a store that is ordered before this read.
    StaleRead,
    /// Waves of a group wait at different barriers.
    DivergentBarrier,
    /// A matrix instruction with inactive lanes.
    MatrixExec,
    /// The two copies of a matrix operand differ.
    MatrixCopies,
    /// A scratch store was outstanding when the registers were given back, or a register was used afterwards.
    AfterRelease,
    /// TRANS result read too early (gfx1100).
    TransHazard,
    /// Matrix result read by the next matrix instruction without a vector instruction in between.
    MatrixHazard,
    /// v_cmpx followed by a lane permutation without a vector instruction in between.
    PermlaneHazard,
    /// A scalar register of a pair that a vector instruction once read was written again and read without s_wait_alu
    /// (gfx12).
    ScalarHazard,
    /// s_trap without a trap handler: the chip goes on behind it.
    IgnoredTrap,
}

impl FindingKind {
    /// Number of kinds.
    pub const COUNT: usize = Self::IgnoredTrap as usize + 1;
}

/// Another instruction that a finding is about.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Party {
    /// Address of the instruction.
    pub pc: u64,
    /// Its text.
    pub text: String,
}

/// One finding.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Kind.
    pub kind: FindingKind,
    /// Name of the kernel, or its first instruction's address where the launch has no name.
    pub kernel: String,
    /// Address of the instruction.
    pub pc: u64,
    /// Its text.
    pub text: String,
    /// Workgroup.
    pub group: [u32; 3],
    /// Wave of the group.
    pub wave: u32,
    /// The other party, where there is one.
    pub other: Option<Party>,
    /// Register, address or byte concerned.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, kernel, pc, text, group, wave, detail, .. } = self;
        write!(f, "{kind:?} in {kernel} at {pc:#x} `{text}`, group {group:?}, wave {wave}: {detail}")?;
        match &self.other {
            Some(other) => write!(f, " (other party at {:#x} `{}`)", other.pc, other.text),
            None => Ok(()),
        }
    }
}
