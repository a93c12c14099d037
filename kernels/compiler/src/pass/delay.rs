//! Delay hints: how far back the result lies that an instruction of the vector ALU waits for.
//!
//! `s_delay_alu` is a hint: the hardware interlocks anyway, but with the hint other waves run meanwhile. Within blocks
//! only. Not here: hazards, which are no hints.

use crate::machine::{Line, Physical};
use alloc::vec::Vec;
use doorbell_isa::{Effects, Inst, Operand, Resource, Timing, op};

/// Farthest vector result worth a hint.
const VALU_REACH: u32 = 4;
/// Farthest transcendental result.
const TRANS_REACH: u32 = 3;
/// Most instructions between the two targets of one hint, plus one.
const MOST_SKIP: u32 = 5;

/// Instructions looked back at.
const WINDOW: usize = 24;

/// Encodings of the dependency field.
const TRANS_BASE: u32 = 4;

/// Inserts hints in every block.
pub fn hint(code: &mut Physical) {
    for block in &mut code.blocks {
        let mut lines: Vec<Line> = Vec::with_capacity(block.len());
        let mut history: Vec<Issued> = Vec::new();
        // Place and immediate of the last hint that still has room for a second dependency, and instructions since.
        let mut open: Option<(usize, u32, u32)> = None;
        for line in block.drain(..) {
            let Line::Inst(inst, _) = &line else { continue };
            let issued = Issued { inst: *inst, effects: Effects::of(inst) };
            if let Some(dependency) = dependency(&issued, &history) {
                match open {
                    Some((at, first, between)) if between <= MOST_SKIP => {
                        lines[at] = delay(first | (between << 4) | (dependency << 7));
                        open = None;
                    }
                    _ => {
                        open = Some((lines.len(), dependency, 0));
                        lines.push(delay(dependency));
                    }
                }
            }
            if let Some((_, _, between)) = &mut open {
                *between += 1;
            }
            history.push(issued);
            lines.push(line);
        }
        *block = lines;
    }
}

fn delay(bits: u32) -> Line {
    Line::Inst(Inst::new(op::s_delay_alu, [Operand::Immediate(bits.cast_signed())]), None)
}

fn is_trans(inst: &Inst) -> bool {
    inst.row().timing == Timing::Trans
}

/// An instruction with what it touches.
struct Issued {
    inst: Inst,
    effects: Effects,
}

/// The nearest result that an instruction reads, as the hint's dependency number.
fn dependency(issued: &Issued, history: &[Issued]) -> Option<u32> {
    if !issued.inst.row().is_vector() {
        return None;
    }
    let reads = &issued.effects;
    let (mut valu, mut trans) = (0, 0);
    for Issued { inst: producer, effects } in history.iter().rev().take(WINDOW) {
        match (producer.row().is_vector(), is_trans(producer)) {
            (false, _) => {}
            (true, false) => valu += 1,
            (true, true) => trans += 1,
        }
        let feeds = effects.writes().any(|written| reads.reads().any(|read| meet(written, read)));
        if feeds {
            return match is_trans(producer) {
                // Loads and scalar results have waits and distances of their own.
                _ if !producer.row().is_vector() => None,
                true => (trans <= TRANS_REACH).then_some(TRANS_BASE + trans),
                false => (valu <= VALU_REACH).then_some(valu),
            };
        }
    }
    None
}

fn meet(a: Resource, b: Resource) -> bool {
    match (a, b) {
        (Resource::Vgpr(a), Resource::Vgpr(b)) => {
            u16::from(a.first) < u16::from(b.first) + u16::from(b.count)
                && u16::from(b.first) < u16::from(a.first) + u16::from(a.count)
        }
        (Resource::Scalar(a), Resource::Scalar(b)) => {
            a.first < b.first + b.count && b.first < a.first + a.count && a.first < 124
        }
        _ => false,
    }
}
