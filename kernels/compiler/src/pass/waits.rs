//! Waits: inserts the waits that memory operations need, with exact counts.
//!
//! Forward data flow: per hardware counter how many operations are outstanding, per register how many were issued
//! after the one that will write it. Not here: the proof (`check::binary`, which shares no code with this).

use crate::machine::{Line, Physical, Release, forward};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{
    Access, Counter, Effects, Flags, Format, Generation, Inst, Op, Operand, Resource, Target, op,
};

/// Hardware counters: loads, stores, LDS (with scalar memory on gfx11), scalar memory.
const COUNTERS: usize = 4;
const LOAD: usize = 0;
const STORE: usize = 1;
const LDS: usize = 2;
const SCALAR: usize = 3;

/// Largest count that waits can express; more outstanding operations stall anyway.
const MOST: u32 = 63;

/// Registers that loads write: 256 VGPRs, then 128 scalar registers.
const REGISTERS: usize = 256 + 128;

/// Not pending.
const NONE: u8 = u8::MAX;

#[derive(Clone, PartialEq)]
struct State {
    /// Operations outstanding at most, per counter.
    outstanding: [u32; COUNTERS],
    /// Operations issued after the one that writes the register, per counter.
    age: Vec<[u8; COUNTERS]>,
    /// Scalar loads are outstanding: their counter only says when all are done.
    unordered: bool,
    /// Atomics that return values are among the outstanding loads.
    atomics: bool,
}

impl State {
    fn new() -> Self {
        Self {
            outstanding: [0; COUNTERS],
            age: vec![[NONE; COUNTERS]; REGISTERS],
            unordered: false,
            atomics: false,
        }
    }

    fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.outstanding.iter_mut().zip(other.outstanding) {
            *mine = (*mine).max(theirs);
        }
        for (mine, theirs) in self.age.iter_mut().zip(&other.age) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = (*mine).min(*theirs);
            }
        }
        self.unordered |= other.unordered;
        self.atomics |= other.atomics;
        *self != before
    }

    /// Records that at most `count` operations are outstanding on a counter.
    fn waited(&mut self, counter: usize, count: u32) {
        self.outstanding[counter] = self.outstanding[counter].min(count);
        for age in &mut self.age {
            if age[counter] != NONE && u32::from(age[counter]) >= count {
                age[counter] = NONE;
            }
        }
        self.atomics &= !(count == 0 && counter == LOAD);
        if count == 0 && (counter == LDS || counter == SCALAR) {
            self.unordered = false;
        }
    }

    fn issued(&mut self, counter: usize) {
        self.outstanding[counter] = (self.outstanding[counter] + 1).min(MOST + 1);
        for age in &mut self.age {
            if age[counter] != NONE {
                age[counter] = age[counter].saturating_add(1).min(MOST as u8);
            }
        }
    }
}

/// Counts to wait for, per counter.
type Need = [Option<u32>; COUNTERS];

fn lower(need: &mut Need, counter: usize, count: u32) {
    need[counter] = Some(need[counter].map_or(count, |other| other.min(count)));
}

fn registers(resource: Resource) -> core::ops::Range<usize> {
    match resource {
        Resource::Vgpr(reg) => usize::from(reg.first)..usize::from(reg.first) + usize::from(reg.count),
        Resource::Scalar(reg) => {
            let first = 256 + usize::from(reg.first);
            first..first + usize::from(reg.count)
        }
        Resource::Scc => 0..0,
    }
}

struct Pass {
    target: Target,
}

impl Pass {
    fn gfx12(&self) -> bool {
        self.target.generation() == Generation::Gfx12
    }

    fn counter(&self, counter: Counter) -> usize {
        match counter {
            Counter::Load => LOAD,
            Counter::Store => STORE,
            Counter::Lds => LDS,
            Counter::Scalar => {
                if self.gfx12() {
                    SCALAR
                } else {
                    LDS
                }
            }
        }
    }

    /// Operations that must have completed before a line.
    fn need(&self, state: &State, line: &Line) -> Need {
        let mut need: Need = [None; COUNTERS];
        match line {
            Line::Release(Release { global, lds }) => {
                for (counter, wanted) in [(LOAD, *global), (STORE, *global), (LDS, *lds)] {
                    if wanted && state.outstanding[counter] > 0 {
                        lower(&mut need, counter, 0);
                    }
                }
            }
            Line::Inst(inst, _) => {
                // In-order returns make an overwriting vector load wait for nothing before gfx12.
                let row = inst.row();
                let overwrites = !self.gfx12()
                    && !state.atomics
                    && row.has(Flags::LOAD)
                    && matches!(row.format, Format::Global | Format::Scratch | Format::Mubuf)
                    && !row.has(Flags::READS_DST);
                for (access, resource) in Effects::of(inst).iter() {
                    for register in registers(resource) {
                        for counter in [LOAD, LDS, SCALAR] {
                            let age = state.age[register][counter];
                            let exempt = access == Access::Write && counter == LOAD && overwrites;
                            if age == NONE || exempt {
                                continue;
                            }
                            let ordered = counter == LOAD || (counter == LDS && !state.unordered);
                            lower(&mut need, counter, if ordered { age.into() } else { 0 });
                        }
                    }
                }
            }
        }
        need
    }

    /// State after a line, its waits done.
    fn step(&self, state: &mut State, line: &Line, need: &Need) {
        for (counter, count) in need.iter().enumerate() {
            if let Some(count) = count {
                state.waited(counter, *count);
            }
        }
        let Line::Inst(inst, _) = line else { return };
        let counters = inst.counters(self.target);
        for kind in [Counter::Load, Counter::Store, Counter::Lds, Counter::Scalar] {
            if !counters.has(kind) {
                continue;
            }
            let counter = self.counter(kind);
            state.issued(counter);
            state.unordered |= kind == Counter::Scalar;
            state.atomics |= kind == Counter::Load && inst.row().has(Flags::ATOMIC);
            for resource in Effects::of(inst).writes() {
                for register in registers(resource) {
                    state.age[register][counter] = 0;
                }
            }
        }
    }

    /// The instructions that wait.
    fn instructions(&self, need: &Need, lines: &mut Vec<Line>) {
        let mut push = |op: Op, operands: &[Operand]| {
            let mut inst = Inst::new(op, []);
            for operand in operands {
                inst.operands.push(*operand);
            }
            lines.push(Line::Inst(inst, None));
        };
        let immediate = |count: u32| Operand::Immediate(count.cast_signed());
        if !self.gfx12() {
            if need[LOAD].is_some() || need[LDS].is_some() {
                let (vm, lgkm) = (need[LOAD].unwrap_or(MOST), need[LDS].unwrap_or(MOST));
                push(op::s_waitcnt, &[immediate((vm << 10) | (lgkm << 4) | 7)]);
            }
            if let Some(count) = need[STORE] {
                push(op::s_waitcnt_vscnt, &[Operand::NULL, immediate(count)]);
            }
            return;
        }
        let mut rest = *need;
        for (first, op) in [(LOAD, op::s_wait_loadcnt_dscnt), (STORE, op::s_wait_storecnt_dscnt)] {
            if let (Some(count), Some(lds)) = (rest[first], rest[LDS]) {
                push(op, &[immediate((count << 8) | lds)]);
                rest[first] = None;
                rest[LDS] = None;
            }
        }
        let single = [op::s_wait_loadcnt, op::s_wait_storecnt, op::s_wait_dscnt, op::s_wait_kmcnt];
        for (count, op) in rest.iter().zip(single) {
            if let Some(count) = count {
                push(op, &[immediate(*count)]);
            }
        }
    }
}

/// Inserts waits; releases become waits for what can be outstanding.
pub fn insert(code: &mut Physical) {
    let pass = Pass { target: code.target };
    let states = {
        let code = &*code;
        forward(
            code.blocks.len(),
            State::new(),
            |block, mut state| {
                for line in &code.blocks[block] {
                    let need = pass.need(&state, line);
                    pass.step(&mut state, line, &need);
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
            let need = pass.need(&state, &line);
            pass.instructions(&need, &mut lines);
            pass.step(&mut state, &line, &need);
            if let Line::Inst(..) = line {
                lines.push(line);
            }
        }
        *block = lines;
    }
}
