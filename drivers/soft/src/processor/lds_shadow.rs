//! The watch over LDS: bytes without a value, and races between waves of a workgroup.
//!
//! Not here: global memory (`ordering.rs`).

use alloc::vec;
use alloc::vec::Vec;

use crate::memory::Shadow;

const SEVERAL: u16 = u16::MAX;

/// The last accesses of an LDS byte in this phase.
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

/// LDS bytes: those with a value, and the accesses between two barriers.
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

impl LdsShadow {
    pub(crate) fn new(len: usize) -> Self {
        Self { defined: Shadow::undefined(len), touches: vec![Touch::default(); len], phase: 1 }
    }

    /// Starts a new phase at a barrier: accesses before it are ordered before those after it.
    pub(crate) fn next_phase(&mut self) {
        self.phase += 1;
    }

    pub(crate) fn is_defined(&self, start: usize, len: usize) -> bool {
        self.defined.all(start, len)
    }

    pub(crate) fn define(&mut self, start: usize, len: usize, defined: bool) {
        self.defined.set(start, len, defined);
    }

    /// Records an access; returns the program counter of a conflicting one.
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
