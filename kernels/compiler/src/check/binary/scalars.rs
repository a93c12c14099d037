//! gfx12: scalar registers of pairs that the vector ALU ever read, written again, must be waited for before they are
//! read.
//!
//! Registers are bits of a set. A write counts for the register it names, the first read for its pair. Not here: other
//! distances (`hazards`).

use super::super::fault::{BinaryError, Origin};
use super::super::flow::{Code, SCALARS, depctr, forward, is_salu, is_valu};
use super::hazard;
use core::ops::Range;
use doorbell_isa::{Format, Generation, op};

/// Scalar registers by encoding number: s0 to s105, VCC, ttmp0 to ttmp15. EXEC, m0 and null are interlocked.
const REGISTERS: usize = 124;

/// VCC's registers.
const VCC: u128 = 3 << 106;

/// Scalar instructions after which a scalar result is safe to read.
const DISTANCE: u8 = 11;

#[derive(Clone, PartialEq)]
struct State {
    /// Registers of pairs that a vector instruction read.
    ever: u128,
    /// Scalar instructions since a scalar one wrote the register; `DISTANCE` and more are the same.
    scalar: [u8; REGISTERS],
    /// Registers that a vector instruction wrote.
    vector: u128,
}

/// Checks all reads.
pub(super) fn check(code: &Code) -> Result<(), BinaryError> {
    if code.target.generation() != Generation::Gfx12 {
        return Ok(());
    }
    let start = State { ever: 0, scalar: [DISTANCE; REGISTERS], vector: 0 };
    forward(code, start, |at, state| step(code, at, state), join)
}

fn join(mine: &mut State, theirs: &State) -> bool {
    let before = mine.clone();
    mine.ever |= theirs.ever;
    mine.vector |= theirs.vector;
    for (mine, theirs) in mine.scalar.iter_mut().zip(theirs.scalar) {
        *mine = (*mine).min(theirs);
    }
    *mine != before
}

fn bits(ranges: impl Iterator<Item = Range<u16>>) -> u128 {
    let last = SCALARS + REGISTERS as u16;
    ranges
        .filter(|range| range.start >= SCALARS && range.end <= last)
        .fold(0, |set, range| range.fold(set, |set, number| set | (1 << (number - SCALARS))))
}

/// Both registers of every pair of which one is in the set.
fn pairs(set: u128) -> u128 {
    const EVEN: u128 = u128::MAX / 3;
    let low = (set | (set >> 1)) & EVEN;
    low | (low << 1)
}

fn step(code: &Code, at: usize, state: &mut State) -> Result<(), BinaryError> {
    let inst = &code.insts[at];
    let wait = depctr(inst);
    let format = inst.row().format;
    // Scalar loads and buffer instructions wait by themselves.
    let memory = matches!(format, Format::Smem | Format::Mubuf);
    if wait & 1 == 0 || memory {
        state.scalar = [DISTANCE; REGISTERS];
    }
    state.vector &= if wait & 2 == 0 || memory { !VCC } else { u128::MAX };
    state.vector &= if (wait >> 9) & 7 == 0 || memory { VCC } else { u128::MAX };
    let (valu, salu) = (is_valu(inst), is_salu(inst));
    if !valu && !salu {
        return Ok(());
    }
    let calls = code.origin == Origin::Foreign && matches!(inst.op, op::s_swappc_b64 | op::s_setpc_b64);
    let read = if calls { u128::MAX } else { bits(code.reads(at)) };
    if salu && !calls {
        state.vector &= !arrived(read & state.ever, code.origin);
    }
    let late = (0..REGISTERS).filter(|number| read & (1 << number) != 0 && state.scalar[*number] < DISTANCE);
    let mut late = late.fold(0u128, |set, number| set | (1 << number));
    if valu || calls {
        late |= read & state.vector;
    }
    if valu {
        state.ever |= pairs(read);
    }
    if calls {
        state.ever = u128::MAX;
    }
    written(state, bits(code.writes(at)) & state.ever, salu);
    if late == 0 {
        return Ok(());
    }
    let writer = (0..at).rev().find(|before| bits(code.writes(*before)) & late != 0);
    Err(hazard(code, at, writer.unwrap_or(at)))
}

/// Results of the vector ALU that are there when a scalar instruction reads such registers, for which it waits: these.
/// Other compilers take all others of their kind for arrived as well.
fn arrived(read: u128, origin: Origin) -> u128 {
    let kind = |set: u128| if read & set == 0 { 0 } else { set };
    match origin {
        Origin::Ours => read,
        Origin::Foreign => kind(VCC) | kind(!VCC),
    }
}

fn written(state: &mut State, set: u128, salu: bool) {
    if salu {
        for since in &mut state.scalar {
            *since = (*since + 1).min(DISTANCE);
        }
    }
    if set & VCC != 0 {
        // Of VCC, the last writer counts.
        state.vector &= !VCC;
        state.scalar[106..108].fill(DISTANCE);
    }
    if !salu {
        state.vector |= set;
        return;
    }
    for (number, since) in state.scalar.iter_mut().enumerate() {
        if set & (1 << number) != 0 {
            *since = 0;
        }
    }
}
