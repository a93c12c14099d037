//! Allocate: virtual to physical registers by linear scan.
//!
//! Tuples stay together, and each of their dwords takes its register only while it is live. Running out is an error
//! that says where and of what. Not here: cutting ranges when registers run out (`split`), proof of the result
//! (`check::allocation`).

use super::liveness::{Range, Span, ranges};
use crate::ir::Value;
use crate::machine::{Bank, BlockId, Item, Line, Machine, Part, Physical, Reg, physical};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use doorbell_isa::Operand;

/// General SGPRs.
const SGPRS: u16 = 106;

/// A register that is live where registers ran out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Live {
    /// The register.
    pub reg: Reg,
    /// The value of the function that it holds; none if it is one of the compiler's own.
    pub value: Option<Value>,
    /// Its size.
    pub dwords: u8,
    /// Instruction that defines it.
    pub instruction: String,
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{value}")?,
            None => write!(f, "a temporary")?,
        }
        write!(f, " of {} ({})", self.dwords, self.instruction)
    }
}

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
    /// Its block.
    pub block: BlockId,
    /// Its index among the block's items.
    pub item: usize,
    /// Registers that are live there, widest first; the register for which none was left is among them.
    pub live: Vec<Live>,
}

/// Live values that the message names.
const NAMED: usize = 6;

impl fmt::Display for PressureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bank, available, needed, instruction, block, item, live } = self;
        write!(
            f,
            "{instruction} (item {item} of block {}): {needed} {bank:?} registers live, {available} available:",
            block.0
        )?;
        for (index, live) in live.iter().take(NAMED).enumerate() {
            write!(f, "{} {live}", if index == 0 { "" } else { "," })?;
        }
        match live.len().saturating_sub(NAMED) {
            0 => {}
            more => write!(f, " and {more} more")?,
        }
        write!(f, "; use smaller tiles or allow spilling")
    }
}

impl core::error::Error for PressureError {}

/// The physical register of every virtual register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// First physical register by virtual register; `None` if it is never live.
    pub first: Vec<Option<u8>>,
    /// VGPRs used.
    pub vgprs: u16,
    /// SGPRs used.
    pub sgprs: u16,
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
    let spread = assign(machine, &ranges, max_vgprs, true);
    let dense = assign(machine, &ranges, max_vgprs, false);
    match (spread, dense) {
        (Ok(spread), Ok(dense)) => Ok(if dense.vgprs < spread.vgprs { dense } else { spread }),
        (Ok(allocation), Err(_)) | (Err(_), Ok(allocation)) => Ok(allocation),
        (Err(_), Err(full)) => Err(full.error(machine, &ranges)),
    }
}

/// A value for which no register was left.
struct Full<'a> {
    range: &'a Range,
    available: u16,
}

impl Full<'_> {
    fn error(&self, machine: &Machine, ranges: &[Range]) -> PressureError {
        let position = self.range.start;
        let bank = machine.info(self.range.reg).bank;
        let here = ranges.iter().filter(|range| machine.info(range.reg).bank == bank);
        let here: Vec<&Range> = here.filter(|range| range.is_live(position)).collect();
        let dwords = |range: &Range| {
            let at = Span { start: position, end: position };
            range.spans.iter().flatten().filter(|span| span.meets(at)).count() as u16
        };
        // The failing register takes all its dwords at once.
        let others = here.iter().filter(|range| range.reg != self.range.reg).map(|range| dwords(range));
        let needed = others.sum::<u16>() + self.range.spans.len() as u16;
        let live = here.iter().map(|range| {
            let info = machine.info(range.reg);
            let instruction = at(machine, range.start).2;
            Live { reg: range.reg, value: info.value, dwords: info.dwords, instruction }
        });
        let mut live: Vec<Live> = live.collect();
        live.sort_by_key(|live| (Reverse(live.dwords), live.reg));
        let (block, item, instruction) = at(machine, position);
        PressureError { bank, available: self.available, needed, instruction, block, item, live }
    }
}

/// Allocates in the order of the ranges; `spread` alternates banks.
fn assign<'a>(
    machine: &Machine,
    ranges: &'a [Range],
    max_vgprs: u16,
    spread: bool,
) -> Result<Allocation, Full<'a>> {
    let mut files = [File::new(max_vgprs.min(256), spread), File::new(SGPRS, spread)];
    let mut first = vec![None; machine.regs.len()];
    for range in ranges {
        let info = machine.info(range.reg);
        let file = &mut files[info.bank as usize];
        let register = match info.fixed {
            Some(register) => file.take(register.into(), range),
            None => file.find(info.bank, range),
        };
        let Some(register) = register else { return Err(Full { range, available: file.size() }) };
        first[range.reg.index()] = Some(register);
    }
    Ok(Allocation { first, vgprs: files[0].used, sgprs: files[1].used })
}

/// Block, index in it, and name of the item at a position.
fn at(machine: &Machine, position: u32) -> (BlockId, usize, String) {
    let mut item = (position / 2) as usize;
    for (number, block) in (0u32..).zip(&machine.blocks) {
        if let Some(found) = block.items.get(item) {
            let name = match found {
                Item::Instr(instr) => instr.op.name(),
                Item::Undefined(_) | Item::Release(_) => "start of a value",
            };
            return (BlockId(number), item, name.to_string());
        }
        item -= block.items.len();
    }
    (BlockId(0), 0, "start of the kernel".to_string())
}

/// Registers of one bank.
struct File {
    /// Live ranges in each register, as far as they matter to later registers.
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

    /// True if each dword finds its register free whenever it is live.
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

/// Writes the physical registers into the code.
pub fn rewrite(machine: &Machine, allocation: &Allocation) -> Physical {
    let register = |part: Part| -> Operand {
        let first = allocation.first[part.reg.index()].unwrap_or(0);
        physical(machine.info(part.reg).bank, first + part.first, part.count)
    };
    let mut blocks = Vec::new();
    for block in &machine.blocks {
        let mut lines = Vec::new();
        for item in &block.items {
            match item {
                Item::Instr(instr) => lines.push(Line::Inst(instr.with_registers(register), instr.target())),
                Item::Release(release) => lines.push(Line::Release(*release)),
                Item::Undefined(_) => {}
            }
        }
        blocks.push(lines);
    }
    Physical { target: machine.target, blocks }
}
