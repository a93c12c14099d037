//! Exceptions of waves: entering a trap handler, its hardware registers, leaving it.
//!
//! The work of the kernel's own handler before it jumps to the process's one is done at once: the program counter
//! with the trap's number goes to ttmp0 and ttmp1, STATUS or STATE_PRIV to ttmp12, the handler's address to ttmp2,
//! its data pointer to ttmp14. Source: docs/facts/kfd.md, `cwsr_trap_handler_gfx10.asm` (gfx11 too),
//! `cwsr_trap_handler_gfx12.asm`. Not here: setting a handler (`kernel`), messages (`command`).

use super::context::Context;
use super::fault::Cause;
use super::registers::{EXEC, TTMP, VCC};
use super::wave::Wave;

/// Hardware registers by number.
mod register {
    pub(super) const STATUS: u64 = 2;
    pub(super) const TRAPSTS: u64 = 3;
    pub(super) const STATE_PRIV: u64 = 4;
    pub(super) const EXCP_FLAG_PRIV: u64 = 17;
}

/// Bits of STATUS; gfx12 keeps SCC and HALT in STATE_PRIV.
mod status {
    pub(super) const SCC: u32 = 0;
    pub(super) const PRIV: u32 = 5;
    pub(super) const EXECZ: u32 = 9;
    pub(super) const VCCZ: u32 = 10;
    pub(super) const IN_GROUP: u32 = 11;
    pub(super) const HALT: u32 = 13;
}

/// Bits of STATE_PRIV.
mod state {
    pub(super) const SCC: u32 = 9;
    pub(super) const HALT: u32 = 14;
}

/// Bits of the exception flags of one generation.
struct Flags {
    memory: u32,
    illegal: u32,
    translation: u32,
}

const GFX11: Flags = Flags { memory: 8, illegal: 11, translation: 28 };
const GFX12: Flags = Flags { memory: 4, illegal: 6, translation: 12 };

/// Position of the trap's number above the program counter.
const ID_GFX11: u32 = 16;
const ID_GFX12: u32 = 28;
/// Address bits in the high half of a program counter.
const PC_HIGH: u32 = 0xffff;
/// Registers of the handler: saved program counter, its own address, saved state, data pointer.
const SAVED_PC: usize = TTMP;
const OWN: usize = TTMP + 2;
const SAVED_STATE: usize = TTMP + 12;
const DATA: usize = TTMP + 14;
const REGISTERS: usize = 16;

/// The exception flags that a cause sets, and the trap's number; `None` if it enters no handler.
fn exception(cause: &Cause, flags: &Flags) -> Option<(u32, u32)> {
    Some(match cause {
        Cause::Trap { id } => (0, u32::from(*id)),
        Cause::Illegal(_) => (1 << flags.illegal, 0),
        Cause::Memory(_) => (1 << flags.memory | 1 << flags.translation, 0),
        Cause::Lds { .. } | Cause::Scratch { .. } => (1 << flags.memory, 0),
        _ => return None,
    })
}

impl Wave {
    /// STATUS or, on gfx12, STATE_PRIV, which a handler saves and restores.
    fn state(&self) -> u32 {
        let halt = u32::from(self.exceptions.halt);
        if self.is_gfx12() {
            return u32::from(self.scc) << state::SCC | halt << state::HALT;
        }
        self.status() | u32::from(self.scc) << status::SCC | halt << status::HALT
    }

    fn status(&self) -> u32 {
        u32::from(self.exceptions.privileged) << status::PRIV
            | u32::from(self.sgpr[EXEC] == 0) << status::EXECZ
            | u32::from(self.sgpr[VCC] == 0) << status::VCCZ
            | 1 << status::IN_GROUP
    }

    /// A hardware register for exceptions; `None` for other numbers.
    pub(super) fn exception_register(&self, number: u64) -> Option<u32> {
        match (number, self.is_gfx12()) {
            (register::STATUS, true) => Some(self.status()),
            (register::STATUS, false) | (register::STATE_PRIV, true) => Some(self.state()),
            (register::TRAPSTS, false) | (register::EXCP_FLAG_PRIV, true) => Some(self.exceptions.flags),
            _ => None,
        }
    }

    /// Writes such a register, as only a trap handler can.
    pub(super) fn set_exception_register(&mut self, number: u64, value: u32, mask: u32) {
        if !self.exceptions.privileged {
            return;
        }
        let new = |old: u32| old & !mask | value & mask;
        let (scc, halt) = match (number, self.is_gfx12()) {
            (register::STATUS, false) => (status::SCC, status::HALT),
            (register::STATE_PRIV, true) => (state::SCC, state::HALT),
            (register::TRAPSTS, false) | (register::EXCP_FLAG_PRIV, true) => {
                self.exceptions.flags = new(self.exceptions.flags);
                return;
            }
            _ => return,
        };
        let state = new(self.state());
        self.scc = state >> scc & 1 != 0;
        self.exceptions.halt = state >> halt & 1 != 0;
        if let Some(tracker) = self.tracker.as_mut().filter(|_| mask >> scc & 1 != 0) {
            tracker.scc = false;
        }
    }
}

impl Context<'_> {
    /// Enters the trap handler; false if there is none, or the cause has none.
    pub(crate) fn raise(&mut self, cause: &Cause) -> bool {
        let wave = &mut *self.wave;
        let gfx12 = wave.is_gfx12();
        let Some(trap) = self.trap.filter(|_| !wave.exceptions.privileged) else { return false };
        let Some((flags, id)) = exception(cause, if gfx12 { &GFX12 } else { &GFX11 }) else { return false };
        let exceptions = &mut wave.exceptions;
        exceptions.privileged = true;
        exceptions.flags |= flags;
        exceptions.cause = Some((wave.pc, cause.clone()));
        let id = if gfx12 { (id & 15) << ID_GFX12 } else { id << ID_GFX11 };
        wave.set_scalar(SAVED_PC, wave.pc as u32);
        wave.set_scalar(SAVED_PC + 1, (wave.pc >> 32) as u32 & PC_HIGH | id);
        wave.set_scalar64(OWN, trap.handler);
        wave.set_scalar(SAVED_STATE, wave.state());
        wave.set_scalar64(DATA, trap.data);
        wave.pc = trap.handler;
        if let Some(tracker) = &mut wave.tracker {
            tracker.scalar[TTMP..TTMP + REGISTERS].fill(0);
        }
        true
    }

    /// Leaves the handler; returns true if the wave goes on.
    pub(crate) fn leave(&mut self, to: u64) -> bool {
        let exceptions = &mut self.wave.exceptions;
        exceptions.privileged = false;
        self.wave.pc = to & (u64::from(PC_HIGH) << 32 | 0xffff_ffff);
        if exceptions.halt {
            return false;
        }
        exceptions.cause = None;
        true
    }
}
