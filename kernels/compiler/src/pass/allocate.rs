//! Allocate: virtual to physical registers by linear scan.
//!
//! Live ranges come from data flow over whole registers; tuples stay together. Running out is an error that says
//! where: nothing is spilled. Not here: proof of the result (`check::allocation`).

use crate::machine::{Bank, BlockId, Item, Line, Machine, Part, Physical, Reg, physical};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use doorbell_isa::{Flags, Operand};

/// General SGPRs.
const SGPRS: u16 = 106;

/// More registers are live at once than exist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PressureError {
    /// Register file.
    pub bank: Bank,
    /// Registers that may be used.
    pub available: u16,
    /// Registers live where allocation failed, the failing ones included.
    pub needed: u16,
    /// Instruction that defines the register for which none was left.
    pub instruction: String,
}

impl fmt::Display for PressureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bank, available, needed, instruction } = self;
        write!(f, "{instruction}: {needed} {bank:?} registers live, {available} available; use smaller tiles")
    }
}

impl core::error::Error for PressureError {}

/// Where every virtual register went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// First physical register by virtual register; `None` if it is never live.
    pub first: Vec<Option<u8>>,
    /// VGPRs used.
    pub vgprs: u16,
    /// SGPRs used.
    pub sgprs: u16,
}

/// Live range in half steps: an instruction reads at an even and writes at the following odd number.
#[derive(Clone, Copy)]
struct Range {
    reg: Reg,
    start: u32,
    end: u32,
}

/// Allocates, with at most `max_vgprs` VGPRs.
///
/// # Errors
///
/// If a register file is exhausted.
pub fn allocate(machine: &Machine, max_vgprs: u16) -> Result<Allocation, PressureError> {
    let mut ranges = ranges(machine);
    ranges.sort_by_key(|range| (range.start, range.reg));
    let mut files = [File::new(max_vgprs.min(256)), File::new(SGPRS)];
    let mut first = vec![None; machine.regs.len()];
    let mut active: Vec<(Range, u8)> = Vec::new();
    for range in ranges {
        active.retain(|(other, place)| {
            let alive = other.end >= range.start;
            if !alive {
                let info = machine.info(other.reg);
                files[info.bank as usize].release(*place, info.dwords);
            }
            alive
        });
        let info = machine.info(range.reg);
        let file = &mut files[info.bank as usize];
        let place = match info.fixed {
            Some(place) => file.take(place, info.dwords),
            None => file.find(info.bank, info.dwords),
        };
        let Some(place) = place else {
            let live = active.iter().filter(|(other, _)| machine.info(other.reg).bank == info.bank);
            let needed: u16 = live.map(|(other, _)| u16::from(machine.info(other.reg).dwords)).sum();
            return Err(PressureError {
                bank: info.bank,
                available: file.size,
                needed: needed + u16::from(info.dwords),
                instruction: defining(machine, range.start),
            });
        };
        first[range.reg.index()] = Some(place);
        active.push((range, place));
    }
    Ok(Allocation { first, vgprs: files[0].used, sgprs: files[1].used })
}

/// Text of the instruction at a position.
fn defining(machine: &Machine, position: u32) -> String {
    let items = machine.blocks.iter().flat_map(|block| &block.items);
    match items.clone().nth((position / 2) as usize) {
        Some(Item::Instr(instr)) => instr.op.name().to_string(),
        _ => "start of the kernel".to_string(),
    }
}

/// Free registers of one bank.
struct File {
    free: Vec<bool>,
    size: u16,
    used: u16,
    /// Bank (number modulo 4) of the last single VGPR given out: the next one prefers another, so that dual issue
    /// finds its sources in different banks.
    last: u8,
}

impl File {
    fn new(size: u16) -> Self {
        Self { free: vec![true; usize::from(size)], size, used: 0, last: 3 }
    }

    fn is_free(&self, first: u16, count: u8) -> bool {
        let range = usize::from(first)..usize::from(first) + usize::from(count);
        self.free.get(range).is_some_and(|slots| slots.iter().all(|free| *free))
    }

    fn take(&mut self, first: u8, count: u8) -> Option<u8> {
        if !self.is_free(first.into(), count) {
            return None;
        }
        let end = usize::from(first) + usize::from(count);
        self.free[usize::from(first)..end].fill(false);
        self.used = self.used.max(end as u16);
        Some(first)
    }

    fn release(&mut self, first: u8, count: u8) {
        let end = usize::from(first) + usize::from(count);
        self.free[usize::from(first)..end].fill(true);
    }

    fn find(&mut self, bank: Bank, count: u8) -> Option<u8> {
        let step = match (bank, count) {
            (Bank::Vector, _) | (Bank::Scalar, 1) => 1,
            (Bank::Scalar, 2) => 2,
            (Bank::Scalar, _) => 4,
        };
        let mut fits = (0..self.size).step_by(step).filter(|first| self.is_free(*first, count));
        let lowest = fits.next()?;
        let mut chosen = lowest;
        if bank == Bank::Vector && count == 1 {
            let wanted = (u16::from(self.last) + 1) % 4;
            let preferred = (lowest..self.used).find(|first| first % 4 == wanted && self.is_free(*first, 1));
            chosen = preferred.unwrap_or(lowest);
            self.last = (chosen % 4) as u8;
        }
        self.take(chosen as u8, count)
    }
}

/// A set of virtual registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn insert(&mut self, reg: Reg) {
        self.0[reg.index() / 64] |= 1 << (reg.index() % 64);
    }

    fn remove(&mut self, reg: Reg) {
        self.0[reg.index() / 64] &= !(1 << (reg.index() % 64));
    }

    fn has(&self, reg: usize) -> bool {
        self.0[reg / 64] & (1 << (reg % 64)) != 0
    }

    fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }
}

/// Whether a write covers the whole register and needs nothing of it.
fn covers(machine: &Machine, part: Part, keeps: bool) -> bool {
    !keeps && part.count == machine.info(part.reg).dwords
}

fn transfer(machine: &Machine, item: &Item, live: &mut Set) {
    match item {
        Item::Undefined(reg) => live.remove(*reg),
        Item::Release(_) => {}
        Item::Instr(instr) => {
            for (part, keeps) in instr.defs() {
                if covers(machine, part, keeps) {
                    live.remove(part.reg);
                } else {
                    live.insert(part.reg);
                }
            }
            for part in instr.uses() {
                live.insert(part.reg);
            }
        }
    }
}

/// Registers live at the start of every block.
fn liveness(machine: &Machine) -> Vec<Set> {
    let count = machine.regs.len();
    let blocks = machine.blocks.len();
    let mut live_in = vec![Set::new(count); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..blocks).rev() {
            let mut live = Set::new(count);
            for next in machine.successors(BlockId(block as u32)) {
                live.add_all(&live_in[next.index()]);
            }
            for item in machine.blocks[block].items.iter().rev() {
                transfer(machine, item, &mut live);
            }
            if live != live_in[block] {
                live_in[block] = live;
                changed = true;
            }
        }
    }
    live_in
}

fn ranges(machine: &Machine) -> Vec<Range> {
    let count = machine.regs.len();
    let live_in = liveness(machine);
    let mut bounds: Vec<Option<(u32, u32)>> = vec![None; count];
    let mut touch = |reg: usize, position: u32| {
        let (start, end) = bounds[reg].unwrap_or((position, position));
        bounds[reg] = Some((start.min(position), end.max(position)));
    };
    for (reg, info) in machine.regs.iter().enumerate() {
        if info.fixed.is_some() {
            touch(reg, 0);
        }
    }
    let mut position = 0;
    for (block, code) in machine.blocks.iter().enumerate() {
        let begin = position;
        let mut live_out = Set::new(count);
        for next in machine.successors(BlockId(block as u32)) {
            live_out.add_all(&live_in[next.index()]);
        }
        for item in &code.items {
            match item {
                Item::Undefined(reg) => touch(reg.index(), position),
                Item::Release(_) => {}
                Item::Instr(instr) => {
                    for part in instr.uses() {
                        touch(part.reg.index(), position);
                    }
                    // A matrix result may not share registers with the inputs of its own instruction.
                    let early = instr.op.row().has(Flags::MATRIX);
                    for (part, _) in instr.defs() {
                        touch(part.reg.index(), if early { position } else { position + 1 });
                        touch(part.reg.index(), position + 1);
                    }
                }
            }
            position += 2;
        }
        for reg in 0..count {
            if live_in[block].has(reg) {
                touch(reg, begin);
            }
            if live_out.has(reg) {
                touch(reg, position);
            }
        }
    }
    let ranges = bounds.into_iter().enumerate();
    ranges
        .filter_map(|(reg, bounds)| bounds.map(|(start, end)| Range { reg: Reg(reg as u32), start, end }))
        .map(|range| Range { end: range.end.max(range.start + 1), ..range })
        .collect()
}

/// Writes the physical registers into the code.
pub fn rewrite(machine: &Machine, allocation: &Allocation) -> Physical {
    let place = |part: Part| -> Operand {
        let first = allocation.first[part.reg.index()].unwrap_or(0);
        physical(machine.info(part.reg).bank, first + part.first, part.count)
    };
    let mut blocks = Vec::new();
    for block in &machine.blocks {
        let mut lines = Vec::new();
        for item in &block.items {
            match item {
                Item::Instr(instr) => lines.push(Line::Inst(instr.with_registers(place), instr.target())),
                Item::Release(release) => lines.push(Line::Release(*release)),
                Item::Undefined(_) => {}
            }
        }
        blocks.push(lines);
    }
    Physical { target: machine.target, blocks }
}
