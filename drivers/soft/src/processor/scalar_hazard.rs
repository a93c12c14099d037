//! The gfx12 hazard of scalar registers that vector instructions read; the compiler has a pass for it.
//!
//! Once a vector instruction has read a register of a pair, that pair stays marked. A marked register that is written
//! may be read only after `s_wait_alu`, or far enough behind. Source: docs/facts/rdna.md. Not here: other hazards
//! (`watch.rs`).

use alloc::vec::Vec;

use doorbell_isa::{Access as Direction, Format, Operand};

use super::registers::{NULL, VCC};
use super::registers::{Register, registers};
use super::step::Step;

/// Scalar instructions between a scalar write and a read that make the wait unnecessary.
const FAR_FOR_SCALAR: u32 = 10;
const FAR_FOR_VECTOR: u32 = 11;

/// A marked register that was written.
struct Written {
    register: usize,
    by_vector: bool,
    /// Scalar instructions since.
    scalars: u32,
    pc: u64,
}

/// The state of one wave.
#[derive(Default)]
pub(crate) struct ScalarReads {
    /// Marked pairs.
    pairs: u64,
    written: Vec<Written>,
}

/// Registers that take part: null, m0 and EXEC do not.
fn scalars(step: &Step, wanted: Direction) -> impl Iterator<Item = usize> + '_ {
    let found = step.effects.iter().filter(move |(direction, _)| *direction == wanted);
    found.flat_map(|(_, resource)| registers(*resource)).filter_map(|register| match register {
        Register::Scalar(number) if number < NULL => Some(number),
        _ => None,
    })
}

fn is_scalar_alu(step: &Step) -> bool {
    matches!(step.format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk) && step.wait.is_none()
}

impl ScalarReads {
    /// Records an instruction; returns the register that it reads too early and the address of the write.
    pub(crate) fn note(&mut self, step: &Step) -> Option<(usize, u64)> {
        if step.row().name == "s_wait_alu" {
            self.wait(step);
            return None;
        }
        // These accesses take so long that no hazard is left.
        if matches!(step.format, Format::Smem | Format::Mubuf) {
            self.written.clear();
            return None;
        }
        let (vector, scalar) = (step.row().is_vector(), is_scalar_alu(step));
        if !vector && !scalar {
            return None;
        }
        let mut early = None;
        for register in scalars(step, Direction::Read) {
            let Some(at) = self.written.iter().position(|written| written.register == register) else {
                continue;
            };
            let written = &self.written[at];
            let far = if vector { FAR_FOR_VECTOR } else { FAR_FOR_SCALAR };
            if (vector && written.by_vector) || (!written.by_vector && written.scalars < far) {
                early = Some((register, written.pc));
            } else if scalar && written.by_vector {
                self.written.swap_remove(at);
            }
        }
        if scalar {
            self.written.iter_mut().for_each(|written| written.scalars += 1);
            self.written.retain(|written| written.by_vector || written.scalars < FAR_FOR_VECTOR);
        }
        if vector {
            scalars(step, Direction::Read).for_each(|register| self.pairs |= 1 << (register / 2));
        }
        for register in scalars(step, Direction::Write) {
            if self.pairs >> (register / 2) & 1 != 0 {
                self.written.retain(|written| written.register != register);
                self.written.push(Written { register, by_vector: vector, scalars: 0, pc: step.at });
            }
        }
        early
    }

    /// Fields of the wait: sa_sdst bit 0, va_vcc bit 1, va_sdst bits 9 to 11; zero waits.
    fn wait(&mut self, step: &Step) {
        let Some(Operand::Immediate(bits)) = step.inst.src().first() else { return };
        let (scalar, vcc, vector) = (bits & 1 == 0, bits >> 1 & 1 == 0, bits >> 9 & 7 == 0);
        self.written.retain(|written| {
            let is_vcc = written.register / 2 == VCC / 2;
            !match (written.by_vector, is_vcc) {
                (false, _) => scalar,
                (true, true) => vcc,
                (true, false) => vector,
            }
        });
    }
}
