//! Allocate: virtual to physical registers by linear scan.
//!
//! Live ranges come from data flow over dwords; tuples stay together, and each of their dwords takes its register only
//! while it is live. Running out is an error that says
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

/// When a dword of a register is live, in half steps: an instruction reads at an even and writes at the following odd
/// number.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn meets(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// A register with the spans of its dwords; a dword that is never live has none.
struct Range {
    reg: Reg,
    start: u32,
    spans: Vec<Option<Span>>,
}

/// Allocates, with at most `max_vgprs` VGPRs.
///
/// # Errors
///
/// If a register file is exhausted.
pub fn allocate(machine: &Machine, max_vgprs: u16) -> Result<Allocation, PressureError> {
    let mut ranges = ranges(machine);
    ranges.sort_by_key(|range| (range.start, range.reg));
    // Alternating banks may leave holes that tuples do not fit in.
    let spread = place(machine, &ranges, max_vgprs, true);
    let dense = place(machine, &ranges, max_vgprs, false);
    match (spread, dense) {
        (Ok(spread), Ok(dense)) => Ok(if dense.vgprs < spread.vgprs { dense } else { spread }),
        (spread, dense) => spread.or(dense),
    }
}

/// Allocates in the order of the ranges; `spread` alternates banks.
fn place(
    machine: &Machine,
    ranges: &[Range],
    max_vgprs: u16,
    spread: bool,
) -> Result<Allocation, PressureError> {
    let mut files = [File::new(max_vgprs.min(256), spread), File::new(SGPRS, spread)];
    let mut first = vec![None; machine.regs.len()];
    for range in ranges {
        let info = machine.info(range.reg);
        let file = &mut files[info.bank as usize];
        let place = match info.fixed {
            Some(place) => file.take(place.into(), range),
            None => file.find(info.bank, range),
        };
        let Some(place) = place else {
            return Err(PressureError {
                bank: info.bank,
                available: file.size(),
                needed: file.live(range.start) + u16::from(info.dwords),
                instruction: defining(machine, range.start),
            });
        };
        first[range.reg.index()] = Some(place);
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

/// Registers of one bank.
struct File {
    /// What each register holds when, as far as it matters to later registers.
    held: Vec<Vec<Span>>,
    used: u16,
    /// Single VGPRs alternate between banks.
    spread: bool,
    /// Bank (number modulo 4) of the last single VGPR given out: the next one prefers another, so that dual issue
    /// finds its sources in different banks.
    last: u8,
}

impl File {
    fn new(size: u16, spread: bool) -> Self {
        Self { held: vec![Vec::new(); usize::from(size)], used: 0, spread, last: 3 }
    }

    fn size(&self) -> u16 {
        self.held.len() as u16
    }

    /// Registers live at a time.
    fn live(&self, time: u32) -> u16 {
        let at = Span { start: time, end: time };
        self.held.iter().filter(|spans| spans.iter().any(|span| span.meets(at))).count() as u16
    }

    /// Whether each dword finds its register free whenever it is live.
    fn is_free(&self, first: u16, range: &Range) -> bool {
        let slots = self.held.get(usize::from(first)..usize::from(first) + range.spans.len());
        slots.is_some_and(|slots| {
            slots
                .iter()
                .zip(&range.spans)
                .all(|(held, span)| span.is_none_or(|span| !held.iter().any(|other| other.meets(span))))
        })
    }

    fn take(&mut self, first: u16, range: &Range) -> Option<u8> {
        if !self.is_free(first, range) {
            return None;
        }
        let end = usize::from(first) + range.spans.len();
        for (held, span) in self.held[usize::from(first)..end].iter_mut().zip(&range.spans) {
            // Later registers start no earlier.
            held.retain(|other| other.end >= range.start);
            held.extend(*span);
        }
        self.used = self.used.max(end as u16);
        u8::try_from(first).ok()
    }

    fn find(&mut self, bank: Bank, range: &Range) -> Option<u8> {
        let count = range.spans.len();
        let step = match (bank, count) {
            (Bank::Vector, _) | (Bank::Scalar, 1) => 1,
            (Bank::Scalar, 2) => 2,
            (Bank::Scalar, _) => 4,
        };
        let lowest = (0..self.size()).step_by(step).find(|first| self.is_free(*first, range))?;
        let mut chosen = lowest;
        if self.spread && bank == Bank::Vector && count == 1 {
            let wanted = (u16::from(self.last) + 1) % 4;
            let mut above = lowest..self.used;
            chosen = above.find(|first| first % 4 == wanted && self.is_free(*first, range)).unwrap_or(lowest);
            self.last = (chosen % 4) as u8;
        }
        self.take(chosen, range)
    }
}

/// Numbers of dwords of all registers.
struct Dwords {
    /// Number of the first dword by register, and of all.
    first: Vec<u32>,
}

impl Dwords {
    fn of(machine: &Machine) -> Self {
        let mut first = vec![0];
        let mut total = 0;
        for info in &machine.regs {
            total += u32::from(info.dwords);
            first.push(total);
        }
        Self { first }
    }

    fn count(&self) -> usize {
        self.first.last().map_or(0, |total| *total as usize)
    }

    fn whole(&self, reg: Reg) -> core::ops::Range<usize> {
        self.first[reg.index()] as usize..self.first[reg.index() + 1] as usize
    }

    fn part(&self, part: Part) -> core::ops::Range<usize> {
        let first = self.whole(part.reg).start + usize::from(part.first);
        first..first + usize::from(part.count)
    }
}

/// A set of dwords.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn insert(&mut self, dwords: core::ops::Range<usize>) {
        for dword in dwords {
            self.0[dword / 64] |= 1 << (dword % 64);
        }
    }

    fn remove(&mut self, dwords: core::ops::Range<usize>) {
        for dword in dwords {
            self.0[dword / 64] &= !(1 << (dword % 64));
        }
    }

    fn has(&self, dword: usize) -> bool {
        self.0[dword / 64] & (1 << (dword % 64)) != 0
    }

    fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }
}

fn transfer(dwords: &Dwords, item: &Item, live: &mut Set) {
    match item {
        Item::Undefined(reg) => live.remove(dwords.whole(*reg)),
        Item::Release(_) => {}
        Item::Instr(instr) => {
            for (part, keeps) in instr.defs() {
                if keeps {
                    live.insert(dwords.part(part));
                } else {
                    live.remove(dwords.part(part));
                }
            }
            for part in instr.uses() {
                live.insert(dwords.part(part));
            }
        }
    }
}

/// Dwords live at the start of every block.
fn liveness(machine: &Machine, dwords: &Dwords) -> Vec<Set> {
    let blocks = machine.blocks.len();
    let mut live_in = vec![Set::new(dwords.count()); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..blocks).rev() {
            let mut live = live_out(machine, block, &live_in, dwords);
            for item in machine.blocks[block].items.iter().rev() {
                transfer(dwords, item, &mut live);
            }
            if live != live_in[block] {
                live_in[block] = live;
                changed = true;
            }
        }
    }
    live_in
}

fn live_out(machine: &Machine, block: usize, live_in: &[Set], dwords: &Dwords) -> Set {
    let mut live = Set::new(dwords.count());
    for next in machine.successors(BlockId(block as u32)) {
        live.add_all(&live_in[next.index()]);
    }
    live
}

fn ranges(machine: &Machine) -> Vec<Range> {
    let dwords = Dwords::of(machine);
    let live_in = liveness(machine, &dwords);
    let mut bounds: Vec<Option<Span>> = vec![None; dwords.count()];
    let mut touch = |touched: core::ops::Range<usize>, position: u32| {
        for bound in &mut bounds[touched] {
            let span = bound.get_or_insert(Span { start: position, end: position });
            *span = Span { start: span.start.min(position), end: span.end.max(position) };
        }
    };
    for (reg, info) in machine.regs.iter().enumerate() {
        if info.fixed.is_some() {
            touch(dwords.whole(Reg(reg as u32)), 0);
        }
    }
    let mut position = 0;
    for (block, code) in machine.blocks.iter().enumerate() {
        let begin = position;
        let out = live_out(machine, block, &live_in, &dwords);
        for item in &code.items {
            if let Item::Instr(instr) = item {
                for part in instr.uses() {
                    touch(dwords.part(part), position);
                }
                // A matrix result may not share registers with the inputs of its own instruction.
                let early = instr.op.row().has(Flags::MATRIX);
                for (part, _) in instr.defs() {
                    touch(dwords.part(part), if early { position } else { position + 1 });
                    touch(dwords.part(part), position + 1);
                }
            }
            position += 2;
        }
        for dword in 0..dwords.count() {
            if live_in[block].has(dword) {
                touch(dword..dword + 1, begin);
            }
            if out.has(dword) {
                touch(dword..dword + 1, position);
            }
        }
    }
    let regs = (0..machine.regs.len()).map(|reg| Reg(reg as u32));
    regs.filter_map(|reg| {
        let spans: Vec<Option<Span>> = bounds[dwords.whole(reg)].to_vec();
        let start = spans.iter().flatten().map(|span| span.start).min()?;
        Some(Range { reg, start, spans })
    })
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
