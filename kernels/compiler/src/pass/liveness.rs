//! Liveness: when every dword of every virtual register is live, by data flow.
//!
//! Positions count half steps in layout order: an item reads at an even and writes at the following odd number. Not
//! here: what is done with it (`allocate`, `split`).

use crate::machine::{BlockId, Item, Machine, Part, Reg};
use alloc::vec;
use alloc::vec::Vec;
use core::ops;
use doorbell_isa::{Flags, Generation, op};

/// From the first to the last position at which a dword is live.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn meets(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// A register with the spans of its dwords; a dword that is never live has none.
pub(super) struct Range {
    pub(super) reg: Reg,
    pub(super) start: u32,
    pub(super) spans: Vec<Option<Span>>,
}

impl Range {
    /// True if any dword is live at a position.
    pub(super) fn is_live(&self, position: u32) -> bool {
        self.spans.iter().flatten().any(|span| span.start <= position && position <= span.end)
    }

    /// The last position at which a dword is live.
    pub(super) fn end(&self) -> u32 {
        self.spans.iter().flatten().map(|span| span.end).max().unwrap_or(self.start)
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

    fn whole(&self, reg: Reg) -> ops::Range<usize> {
        self.first[reg.index()] as usize..self.first[reg.index() + 1] as usize
    }

    fn part(&self, part: Part) -> ops::Range<usize> {
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

    fn insert(&mut self, dwords: ops::Range<usize>) {
        for dword in dwords {
            self.0[dword / 64] |= 1 << (dword % 64);
        }
    }

    fn remove(&mut self, dwords: ops::Range<usize>) {
        for dword in dwords {
            self.0[dword / 64] &= !(1 << (dword % 64));
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let next = |bits: &u64| Some(bits & (bits - 1)).filter(|rest| *rest != 0);
            let sets = core::iter::successors(Some(*bits).filter(|bits| *bits != 0), next);
            sets.map(move |bits| 64 * word + bits.trailing_zeros() as usize)
        })
    }

    fn take_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= !theirs;
        }
    }

    fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }
}

/// The change that a block makes to the live dwords, seen from its end: some become live, others end there.
struct Summary {
    used: Set,
    defined: Set,
}

fn summary(machine: &Machine, block: usize, dwords: &Dwords) -> Summary {
    let mut summary = Summary { used: Set::new(dwords.count()), defined: Set::new(dwords.count()) };
    for item in machine.blocks[block].items.iter().rev() {
        match item {
            Item::Undefined(reg) => summary.define(dwords.whole(*reg)),
            Item::Release(_) => {}
            Item::Instr(instr) => {
                for (part, keeps) in instr.defs() {
                    if keeps {
                        summary.touch(dwords.part(part));
                    } else {
                        summary.define(dwords.part(part));
                    }
                }
                for part in instr.uses() {
                    summary.touch(dwords.part(part));
                }
            }
        }
    }
    summary
}

impl Summary {
    fn define(&mut self, dwords: ops::Range<usize>) {
        self.used.remove(dwords.clone());
        self.defined.insert(dwords);
    }

    fn touch(&mut self, dwords: ops::Range<usize>) {
        self.defined.remove(dwords.clone());
        self.used.insert(dwords);
    }
}

/// Dwords live at the start of every block.
fn liveness(machine: &Machine, dwords: &Dwords) -> Vec<Set> {
    let blocks = machine.blocks.len();
    let summaries: Vec<Summary> = (0..blocks).map(|block| summary(machine, block, dwords)).collect();
    let mut live_in = vec![Set::new(dwords.count()); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..blocks).rev() {
            let mut live = live_out(machine, block, &live_in, dwords);
            live.take_all(&summaries[block].defined);
            live.add_all(&summaries[block].used);
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

/// The ranges of all registers that are ever live, by number.
pub(super) fn ranges(machine: &Machine) -> Vec<Range> {
    let dwords = Dwords::of(machine);
    let live_in = liveness(machine, &dwords);
    let mut bounds: Vec<Option<Span>> = vec![None; dwords.count()];
    let mut touch = |touched: ops::Range<usize>, position: u32| {
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
                // A matrix result may not share registers with the inputs of its own instruction, nor may on gfx11.0
                // that of a 64-bit multiply-add.
                let forwards = matches!(instr.op, op::v_mad_u64_u32 | op::v_mad_i64_i32)
                    && machine.target.generation() == Generation::Gfx11;
                let early = instr.op.row().has(Flags::MATRIX) || forwards;
                for (part, _) in instr.defs() {
                    touch(dwords.part(part), if early { position } else { position + 1 });
                    touch(dwords.part(part), position + 1);
                }
            }
            position += 2;
        }
        for dword in live_in[block].iter() {
            touch(dword..dword + 1, begin);
        }
        for dword in out.iter() {
            touch(dword..dword + 1, position);
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
