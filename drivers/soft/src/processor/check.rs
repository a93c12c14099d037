//! Sanitizer findings, and the watch over LDS.
//!
//! Not here: registers and counters (`tracker.rs`).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::memory::Shadow;

/// What a sanitizer found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Kind {
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
    /// Waves of a group wait at different barriers, or one ended that the others wait for.
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
    /// s_trap where there is no trap handler: the chip goes on behind it.
    IgnoredTrap,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Self::IgnoredTrap as usize + 1;
}

/// Another instruction that a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Party {
    /// Address of the instruction.
    pub pc: u64,
    /// Its text.
    pub text: String,
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
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

/// Who touched an LDS byte last in this phase.
#[derive(Clone, Copy, Default)]
struct Touch {
    /// Phase plus one; 0 is never.
    phase: u32,
    /// Wave that wrote, plus one.
    writer: u16,
    writer_atomic: bool,
    /// Wave that read, plus one; `u16::MAX` is several.
    reader: u16,
    pc: u64,
}

/// LDS bytes: defined or not, and who touched them between two barriers.
pub(crate) struct LdsShadow {
    defined: Shadow,
    touches: Vec<Touch>,
    phase: u32,
}

/// An access of one lane.
#[derive(Clone, Copy)]
pub(crate) struct LdsAccess {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) wave: u32,
    pub(crate) pc: u64,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

const SEVERAL: u16 = u16::MAX;

impl LdsShadow {
    pub(crate) fn new(len: usize) -> Self {
        Self { defined: Shadow::undefined(len), touches: vec![Touch::default(); len], phase: 1 }
    }

    /// A barrier has opened: accesses before it are ordered before those after it.
    pub(crate) fn next_phase(&mut self) {
        self.phase += 1;
    }

    pub(crate) fn is_defined(&self, start: usize, len: usize) -> bool {
        self.defined.all(start, len)
    }

    pub(crate) fn define(&mut self, start: usize, len: usize, defined: bool) {
        self.defined.set(start, len, defined);
    }

    /// Notes an access; answers the program counter of a conflicting one.
    pub(crate) fn touch(&mut self, access: LdsAccess) -> Option<u64> {
        let me = access.wave as u16 + 1;
        let atomic = access.reads && access.writes;
        let mut conflict = None;
        let phase = self.phase;
        for touch in self.touches.iter_mut().skip(access.start).take(access.len) {
            if touch.phase != phase {
                *touch = Touch { phase, ..Touch::default() };
            }
            let others_wrote = touch.writer != 0 && touch.writer != me && !(atomic && touch.writer_atomic);
            let others_read = touch.reader != 0 && touch.reader != me;
            if others_wrote || (access.writes && others_read && !atomic) {
                conflict = Some(touch.pc);
            }
            if access.writes {
                touch.writer = me;
                touch.writer_atomic = atomic;
                touch.pc = access.pc;
            } else {
                touch.reader = if touch.reader == 0 || touch.reader == me { me } else { SEVERAL };
                if touch.writer == 0 {
                    touch.pc = access.pc;
                }
            }
        }
        conflict
    }
}
