//! Hazards: inserts what the hardware does not interlock, per target.
//!
//! gfx11.0: transcendental results need a distance (that 64-bit multiply-adds do not write what they read is up to
//! allocation). All: a matrix result as input of the next matrix instruction, lane permutes after comparisons that
//! write EXEC, the message that gives registers back. gfx12: scalar registers of pairs once read by a vector
//! instruction, written again and read again. Not here: the proof (`check::binary`).

use crate::machine::{Line, Physical, forward};
use alloc::vec::Vec;
use doorbell_isa::{
    Access, Effects, Flags, Format, Generation, Inst, Operand, Resource, Target, Timing, Vgpr, op,
};

/// A transcendental result may be read after this many other vector instructions ...
const TRANS_VALU: u8 = 6;
/// ... or this many other transcendental ones.
const TRANS_TRANS: u8 = 2;
/// Scalar instructions after which a scalar result is safe to read, for either reader.
const SALU_DISTANCE: u8 = 11;
/// Message that gives a wave's VGPRs back.
const DEALLOC_VGPRS: Operand = Operand::Immediate(3);
/// Scalar registers that take part: up to the trap-handler registers.
const SCALARS: usize = 124;
/// Low half of VCC, the lane mask.
const VCC_LO: usize = 106;

/// Waits of `s_waitcnt_depctr` and `s_wait_alu`, as masks of the all-ones immediate.
mod mask {
    pub(super) const VA_VDST: i32 = 0x0fff;
    pub(super) const SA_SDST: i32 = 0xfffe;
    pub(super) const VA_SDST: i32 = 0xf1ff;
    pub(super) const VA_VCC: i32 = 0xfffd;
    pub(super) const NONE: i32 = 0xffff;
}

#[derive(Clone, PartialEq)]
struct State {
    /// VGPRs that a transcendental wrote, with the vector and transcendental instructions since.
    trans: Vec<(u8, u8, u8)>,
    /// Results of matrix instructions since which no other vector instruction came.
    matrix: Vec<Vgpr>,
    /// A comparison wrote EXEC and no other vector instruction came since.
    exec: bool,
    /// Pairs of which a vector instruction ever read a register.
    read: [bool; SCALARS / 2],
    /// Scalar instructions since a scalar instruction wrote a register of such a pair.
    scalar: [Option<u8>; SCALARS],
    /// A vector instruction wrote a register of such a pair.
    vector: [bool; SCALARS],
}

impl State {
    fn new() -> Self {
        Self {
            trans: Vec::new(),
            matrix: Vec::new(),
            exec: false,
            read: [false; SCALARS / 2],
            scalar: [None; SCALARS],
            vector: [false; SCALARS],
        }
    }

    fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for &(reg, valu, trans) in &other.trans {
            match self.trans.iter_mut().find(|entry| entry.0 == reg) {
                Some(entry) => *entry = (reg, entry.1.min(valu), entry.2.min(trans)),
                None => self.trans.push((reg, valu, trans)),
            }
        }
        for range in &other.matrix {
            if !self.matrix.contains(range) {
                self.matrix.push(*range);
            }
        }
        self.exec |= other.exec;
        for (mine, theirs) in self.read.iter_mut().zip(other.read) {
            *mine |= theirs;
        }
        for reg in 0..SCALARS {
            self.vector[reg] |= other.vector[reg];
            self.scalar[reg] = match (self.scalar[reg], other.scalar[reg]) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        *self != before
    }
}

/// Scalar registers that an access touches; EXEC, m0 and null are interlocked.
fn scalars(resource: Resource) -> core::ops::Range<usize> {
    match resource {
        Resource::Scalar(reg) if usize::from(reg.first) < SCALARS => {
            let first = usize::from(reg.first);
            first..SCALARS.min(first + usize::from(reg.count))
        }
        _ => 0..0,
    }
}

fn overlaps(a: Vgpr, b: Vgpr) -> bool {
    let end = |reg: Vgpr| u16::from(reg.first) + u16::from(reg.count);
    u16::from(a.first) < end(b) && u16::from(b.first) < end(a)
}

fn is_scalar_alu(inst: &Inst) -> bool {
    matches!(inst.row().format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk)
}

fn is_vector_memory(inst: &Inst) -> bool {
    matches!(inst.row().format, Format::Ds | Format::Global | Format::Scratch | Format::Flat | Format::Mubuf)
}

struct Pass {
    target: Target,
}

impl Pass {
    /// Instructions that must stand before `inst`.
    fn fixes(&self, state: &State, inst: &Inst) -> Vec<Inst> {
        let generation = self.target.generation();
        let row = inst.row();
        let mut fixes = Vec::new();
        let effects = Effects::of(inst);
        let mut depctr = mask::NONE;
        if row.is_vector() && generation == Generation::Gfx11 {
            let late = effects.reads().any(|resource| {
                let Resource::Vgpr(reg) = resource else { return false };
                state.trans.iter().any(|entry| (reg.first..=reg.first + (reg.count - 1)).contains(&entry.0))
            });
            depctr &= if late { mask::VA_VDST } else { mask::NONE };
        }
        if generation == Generation::Gfx12 {
            depctr &= self.scalar_hazards(state, inst, &effects);
        }
        if depctr != mask::NONE {
            let wait = if generation == Generation::Gfx12 { op::s_wait_alu } else { op::s_waitcnt_depctr };
            fixes.push(Inst::new(wait, [Operand::Immediate(depctr)]));
        }
        if row.has(Flags::MATRIX) && self.feeds_matrix(state, inst) {
            fixes.push(Inst::new(op::v_nop, []));
        }
        if inst.op == op::s_sendmsg && inst.operands.as_slice() == [DEALLOC_VGPRS] {
            fixes.push(Inst::new(op::s_nop, [Operand::Immediate(0)]));
        }
        if state.exec
            && row.name.starts_with("v_permlane")
            && let Some(Operand::Vgpr(reg)) = inst.src().first()
        {
            let source = Operand::Vgpr(*reg);
            fixes.push(Inst::new(op::v_mov_b32, [source, source]));
        }
        fixes
    }

    fn scalar_hazards(&self, state: &State, inst: &Inst, effects: &Effects) -> i32 {
        let vector = inst.row().is_vector();
        let mut depctr = mask::NONE;
        if !vector && !is_scalar_alu(inst) {
            return depctr;
        }
        for reg in effects.reads().flat_map(scalars) {
            if state.scalar[reg].is_some() {
                depctr &= mask::SA_SDST;
            }
            if vector && state.vector[reg] {
                depctr &= if reg / 2 == VCC_LO / 2 { mask::VA_VCC } else { mask::VA_SDST };
            }
        }
        depctr
    }

    /// True if a pending matrix result overlaps input A or B (or the sparse index).
    fn feeds_matrix(&self, state: &State, inst: &Inst) -> bool {
        let sparse = inst.row().has(Flags::READS_DST);
        let inputs = inst.src().iter().take(if sparse { 3 } else { 2 });
        let mut inputs = inputs.filter_map(|operand| operand.vgpr());
        inputs.any(|input| state.matrix.iter().any(|result| overlaps(*result, input)))
    }

    fn step(&self, state: &mut State, inst: &Inst) {
        let row = inst.row();
        let effects = Effects::of(inst);
        if row.is_vector() {
            self.vector_step(state, inst, &effects);
        }
        let depctr = match (inst.op, inst.operands.as_slice()) {
            (op::s_waitcnt_depctr | op::s_wait_alu, [Operand::Immediate(bits)]) => *bits,
            _ => mask::NONE,
        };
        if is_vector_memory(inst) || (depctr >> 12) & 0xf == 0 {
            state.trans.clear();
        }
        if self.target.generation() == Generation::Gfx12 {
            self.scalar_step(state, inst, &effects, depctr);
        }
    }

    fn vector_step(&self, state: &mut State, inst: &Inst, effects: &Effects) {
        let row = inst.row();
        let trans = row.timing == Timing::Trans;
        if self.target.generation() == Generation::Gfx11 {
            state.trans.retain_mut(|(_, valu, other)| {
                (*valu, *other) = (*valu + 1, *other + u8::from(trans));
                *valu < TRANS_VALU && *other < TRANS_TRANS
            });
            for resource in effects.writes() {
                let Resource::Vgpr(reg) = resource else { continue };
                let written = reg.first..=reg.first + (reg.count - 1);
                state.trans.retain(|entry| !written.contains(&entry.0));
                if trans {
                    state.trans.extend(written.map(|reg| (reg, 0, 0)));
                }
            }
        }
        if row.has(Flags::MATRIX) {
            state.matrix = inst.dst().iter().filter_map(|operand| operand.vgpr()).collect();
        } else {
            state.matrix.clear();
        }
        state.exec = row.has(Flags::EXEC_OUT);
    }

    fn scalar_step(&self, state: &mut State, inst: &Inst, effects: &Effects, depctr: i32) {
        if depctr & 1 == 0 {
            state.scalar.fill(None);
        }
        // Scalar loads and buffer instructions wait by themselves.
        let memory = matches!(inst.row().format, Format::Smem | Format::Mubuf);
        if memory {
            state.scalar.fill(None);
        }
        let (vcc, others) = (memory || depctr & 2 == 0, memory || (depctr >> 9) & 7 == 0);
        for (reg, written) in state.vector.iter_mut().enumerate() {
            *written &= !(if reg / 2 == VCC_LO / 2 { vcc } else { others });
        }
        // So do scalar readers for what they read.
        if is_scalar_alu(inst) {
            effects.reads().flat_map(scalars).for_each(|reg| state.vector[reg] = false);
        }
        let vector = inst.row().is_vector();
        let scalar = is_scalar_alu(inst);
        if scalar {
            for slot in &mut state.scalar {
                *slot = slot.map(|count| count + 1).filter(|count| *count < SALU_DISTANCE);
            }
        }
        for (access, resource) in effects.iter() {
            for reg in scalars(resource) {
                match access {
                    Access::Read if vector => state.read[reg / 2] = true,
                    Access::Write if scalar && state.read[reg / 2] => state.scalar[reg] = Some(0),
                    Access::Write if vector && state.read[reg / 2] => state.vector[reg] = true,
                    _ => {}
                }
            }
        }
    }
}

/// Inserts the fixes.
pub fn insert(code: &mut Physical) {
    let pass = Pass { target: code.target };
    let advance = |state: &mut State, inst: &Inst, lines: &mut dyn FnMut(Inst)| {
        for fix in pass.fixes(state, inst) {
            pass.step(state, &fix);
            lines(fix);
        }
        pass.step(state, inst);
    };
    let states = {
        let code = &*code;
        forward(
            code.blocks.len(),
            State::new(),
            |block, mut state| {
                for line in &code.blocks[block] {
                    if let Line::Inst(inst, _) = line {
                        advance(&mut state, inst, &mut |_| {});
                    }
                }
                state
            },
            |block| code.successors(block),
            State::join,
        )
    };
    for (block, state) in code.blocks.iter_mut().zip(states) {
        let mut state = state.unwrap_or_else(State::new);
        let mut lines = Vec::with_capacity(block.len());
        for line in block.drain(..) {
            if let Line::Inst(inst, _) = &line {
                advance(&mut state, inst, &mut |fix| lines.push(Line::Inst(fix, None)));
            }
            lines.push(line);
        }
        *block = lines;
    }
}
