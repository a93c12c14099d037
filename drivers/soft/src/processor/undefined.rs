//! Undefined values in arithmetic: the bits of results that depend on undefined bits.
//!
//! An instruction with undefined sources is repeated with other values in their place; what differs in
//! its results is undefined as well. Not here: who calls (`watch.rs`, `unit.rs`).

use alloc::format;
use alloc::vec::Vec;

use doorbell_isa::{Access as Direction, Flags, Resource};

use super::context::Context;
use super::fault::Cause;
use super::finding::FindingKind;
use super::handler::{Instruction, Run};
use super::mode::Mode;
use super::registers::{EXEC, Lanes, Register, registers};
use super::scalar;
use super::step::{Next, Source, Step};
use super::tracker::Tracker;
use super::wave::Wave;
use crate::memory::Random;

impl Context<'_> {
    /// True if any source has no value.
    pub(crate) fn is_tainted(&self, step: &Step) -> bool {
        let Some(tracker) = &self.wave.tracker else { return false };
        if step.is_memory() {
            return false;
        }
        (step.row().has(Flags::SCC_IN) && tracker.scc)
            || step.effects.iter().any(|(direction, resource)| {
                *direction == Direction::Read
                    && match resource {
                        Resource::Scc => tracker.scc,
                        _ => registers(*resource).any(|register| tracker.is_undefined(register, u32::MAX)),
                    }
            })
    }

    /// Executes an instruction without undefined sources; its results have a value.
    pub(crate) fn execute_clean(&mut self, instruction: &Instruction) -> Result<Next, Cause> {
        let step = &instruction.step;
        let exec = self.wave.exec();
        let next = self.execute(instruction)?;
        if step.is_memory() {
            return Ok(next);
        }
        let lanes = written_lanes(step, self.wave, exec);
        let bits = step.written;
        let Some(tracker) = &mut self.wave.tracker else { return Ok(next) };
        for (direction, resource) in &step.effects {
            if *direction != Direction::Write {
                continue;
            }
            if *resource == Resource::Scc {
                tracker.scc = false;
            }
            for register in registers(*resource) {
                match register {
                    Register::Vector(number) => tracker.clear_lanes(number, lanes, bits),
                    Register::Scalar(number) => tracker.scalar[number & 127] = 0,
                }
            }
        }
        Ok(next)
    }

    /// Executes an instruction with undefined sources.
    pub(crate) fn execute_tainted(&mut self, instruction: &Instruction) -> Result<Next, Cause> {
        let step = &instruction.step;
        let saved = Saved::of(self.wave, step);
        let mut variants: Vec<Saved> = Vec::new();
        let tracker = self.wave.tracker.take();
        // Only arithmetic is repeated; control flow reports its undefined condition elsewhere.
        let repeated = !matches!(instruction.run, Run::Special(_)) || step.row().is_vector();
        for fill in if repeated { &[Fill::Random, Fill::Complement, Fill::Other][..] } else { &[] } {
            if let Some(tracker) = &tracker {
                scramble(self.wave, step, tracker, *fill, self.random);
            }
            let outcome = self.execute(instruction);
            variants.push(Saved::of(self.wave, step));
            saved.restore(self.wave);
            outcome?;
        }
        let outcome = self.execute(instruction);
        self.wave.tracker = tracker;
        let now = Saved::of(self.wave, step);
        let lanes = written_lanes(step, self.wave, saved.sgpr[EXEC]);
        let Some(tracker) = &mut self.wave.tracker else { return outcome };
        mark(tracker, step, &now, &variants, lanes);
        if tracker.scalar[EXEC] != 0 {
            let bits = core::mem::take(&mut tracker.scalar[EXEC]);
            let detail = format!("lanes {bits:#010x} of EXEC come from a value never written");
            self.find(FindingKind::UndefinedControl, step, None, detail);
        }
        outcome
    }
}

/// Lanes of a vector register that an instruction writes.
fn written_lanes(step: &Step, wave: &Wave, exec: u32) -> u32 {
    if step.row().name == "v_writelane_b32" {
        return 1 << (scalar::operand(wave, step, 1) & 31);
    }
    if step.row().has(Flags::MATRIX) { u32::MAX } else { exec }
}

/// The state that an instruction may change.
struct Saved {
    vectors: Vec<(usize, Lanes)>,
    sgpr: [u32; 128],
    scc: bool,
    mode: Mode,
}

impl Saved {
    fn of(wave: &Wave, step: &Step) -> Self {
        let all = step.effects.iter().flat_map(|(_, resource)| registers(*resource));
        let vectors = all.filter_map(|register| match register {
            Register::Vector(number) => wave.vgpr.get(number).map(|value| (number, *value)),
            Register::Scalar(_) => None,
        });
        Self { vectors: vectors.collect(), sgpr: wave.sgpr, scc: wave.scc, mode: wave.mode }
    }

    fn restore(&self, wave: &mut Wave) {
        for (number, value) in &self.vectors {
            wave.vgpr[*number] = *value;
        }
        wave.sgpr = self.sgpr;
        wave.scc = self.scc;
        wave.mode = self.mode;
    }

    fn vector(&self, number: usize) -> Option<&Lanes> {
        self.vectors.iter().find(|(found, _)| *found == number).map(|(_, value)| value)
    }
}

/// Replacement for undefined bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Random bits.
    Random,
    /// The opposite of what is there.
    Complement,
    /// The bits of the other source, for comparisons.
    Other,
}

/// A source as one value per lane.
fn lanes_of(wave: &Wave, source: Source) -> Lanes {
    match source {
        Source::Vgpr(number) => wave.vgpr[usize::from(number)],
        Source::Scalar(number) | Source::Mask(number) => [wave.scalar(usize::from(number)); 32],
        Source::Const(value) => [value as u32; 32],
        Source::Scc => [u32::from(wave.scc); 32],
    }
}

/// Replaces undefined source bits.
fn scramble(wave: &mut Wave, step: &Step, tracker: &Tracker, fill: Fill, random: &mut Random) {
    if tracker.scc {
        wave.scc = match fill {
            Fill::Random => random.once_in(2),
            _ => !wave.scc,
        };
    }
    let sources = [lanes_of(wave, step.src[0]), lanes_of(wave, step.src[1])];
    let is_second = |found: bool, number: usize| match step.src[1] {
        Source::Vgpr(first) => found && usize::from(first) == number,
        Source::Scalar(first) => !found && usize::from(first) == number,
        _ => false,
    };
    let mut bits = |old: u32, mask: u32, other: u32| {
        let new = match fill {
            Fill::Random => random.bits() as u32,
            Fill::Complement => !old,
            Fill::Other => other,
        };
        old & !mask | new & mask
    };
    for (direction, resource) in &step.effects {
        if *direction != Direction::Read {
            continue;
        }
        for register in registers(*resource) {
            match register {
                Register::Vector(number) => {
                    let other = &sources[usize::from(!is_second(true, number))];
                    let masks = tracker.lanes(number);
                    let lanes = wave.vgpr[number].iter_mut().zip(masks).zip(other);
                    for ((value, mask), other) in lanes {
                        *value = bits(*value, mask, *other);
                    }
                }
                Register::Scalar(number) => {
                    let other = sources[usize::from(!is_second(false, number))][0];
                    let value = bits(wave.scalar(number), tracker.scalar[number & 127], other);
                    wave.set_scalar(number, value);
                }
            }
        }
    }
}

/// Marks as undefined what differs between the variants.
fn mark(tracker: &mut Tracker, step: &Step, now: &Saved, variants: &[Saved], lanes: u32) {
    for (direction, resource) in &step.effects {
        if *direction != Direction::Write {
            continue;
        }
        if *resource == Resource::Scc {
            tracker.scc = variants.iter().any(|variant| variant.scc != now.scc);
        }
        for register in registers(*resource) {
            match register {
                Register::Vector(number) => {
                    let Some(value) = now.vector(number) else { continue };
                    let mut differ = [0; 32];
                    for other in variants.iter().filter_map(|variant| variant.vector(number)) {
                        for (lane, differ) in differ.iter_mut().enumerate() {
                            *differ |= value[lane] ^ other[lane];
                        }
                    }
                    tracker.set_lanes(number, &differ, lanes, step.written);
                }
                Register::Scalar(number) => {
                    let number = number & 127;
                    let differ = variants.iter().map(|variant| variant.sgpr[number] ^ now.sgpr[number]);
                    tracker.scalar[number] = differ.fold(0, |all, bits| all | bits);
                }
            }
        }
    }
}
