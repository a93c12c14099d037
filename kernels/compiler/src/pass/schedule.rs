//! Schedule: reorders each block by latency, loads first, keeping every dependency.
//!
//! A list scheduler on the dependency graph of a block; priority is the longest path to the block's end. What an earlier
//! block (or trip) loads counts as still on its way, so that the loads of this block are issued before it is waited
//! for. Branches and what is not an instruction stay in place. Not here: register pressure; if allocation fails
//! afterwards, `compile` falls back to the order of legalisation.

use crate::machine::{Arg, Block, Instr, Item, Machine, Part, Reg};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{Access, Effects, Flags, Format, Operand, Resource};

/// Reorders all blocks.
pub fn schedule(machine: &mut Machine) {
    let generation = machine.target.generation();
    let latency = |instr: &Instr| instr.op.row().timing.latency(generation);
    let loaded = loaded(machine);
    for block in &mut machine.blocks {
        let mut items = Vec::new();
        let mut segment: Vec<Item> = Vec::new();
        for item in core::mem::take(&mut block.items) {
            // What orders everything ends a segment.
            if is_fence(&item) {
                items.extend(order(core::mem::take(&mut segment), &loaded, &latency));
                items.push(item);
            } else {
                segment.push(item);
            }
        }
        items.extend(order(segment, &loaded, &latency));
        *block = Block { items };
    }
}

/// Clocks for which what was loaded elsewhere is taken to be on its way still: enough to compute addresses first.
const ON_ITS_WAY: u32 = 40;

/// Whether a register is written by a load from global memory, by register.
fn loaded(machine: &Machine) -> Vec<bool> {
    let mut loaded = vec![false; machine.regs.len()];
    for item in machine.blocks.iter().flat_map(|block| &block.items) {
        if let Item::Instr(instr) = item
            && instr.op.row().has(Flags::LOAD)
            && matches!(instr.op.row().format, Format::Global | Format::Mubuf)
        {
            for (part, _) in instr.defs() {
                loaded[part.reg.index()] = true;
            }
        }
    }
    loaded
}

/// When the instructions of a segment can be issued for all that comes from before it.
fn arrivals(accesses: &[Accesses], loaded: &[bool]) -> Vec<u32> {
    let mut written: BTreeSet<Reg> = BTreeSet::new();
    let mut arrivals = Vec::with_capacity(accesses.len());
    for access in accesses {
        let late = access.reads.iter().any(|part| loaded[part.reg.index()] && !written.contains(&part.reg));
        arrivals.push(if late { ON_ITS_WAY } else { 0 });
        written.extend(access.writes.iter().map(|part| part.reg));
    }
    arrivals
}

/// Whether nothing may move across an item.
fn is_fence(item: &Item) -> bool {
    match item {
        Item::Instr(instr) => {
            let row = instr.op.row();
            let exec = Arg::Fixed(Operand::EXEC_LO);
            row.has(Flags::BRANCHES.with(Flags::ENDS).with(Flags::EXEC_OUT).with(Flags::INVALIDATES))
                || row.name.starts_with("s_barrier")
                || instr.args.iter().take(instr.dst_count()).any(|arg| *arg == exec)
        }
        Item::Release(_) => true,
        Item::Undefined(_) => false,
    }
}

/// What an item reads and writes.
struct Accesses {
    reads: Vec<Part>,
    writes: Vec<Part>,
    fixed: Vec<(Access, Resource)>,
    memory: Option<(Format, bool)>,
}

fn accesses(item: &Item) -> Accesses {
    match item {
        Item::Undefined(reg) => Accesses {
            reads: Vec::new(),
            writes: vec![Part { reg: *reg, first: 0, count: u8::MAX }],
            fixed: Vec::new(),
            memory: None,
        },
        Item::Release(_) => {
            Accesses { reads: Vec::new(), writes: Vec::new(), fixed: Vec::new(), memory: None }
        }
        Item::Instr(instr) => {
            let inst = instr.with_registers(|_| Operand::Off);
            let row = instr.op.row();
            let writes_memory = row.has(Flags::STORE.with(Flags::ATOMIC));
            let touches = writes_memory || row.has(Flags::LOAD);
            Accesses {
                reads: instr.uses(),
                writes: instr.defs().into_iter().map(|(part, _)| part).collect(),
                fixed: Effects::of(&inst).iter().collect(),
                memory: touches.then_some((row.format, writes_memory)),
            }
        }
    }
}

fn overlap(a: &[Part], b: &[Part]) -> bool {
    a.iter().any(|x| {
        b.iter().any(|y| {
            let end = |part: &Part| u16::from(part.first) + u16::from(part.count);
            x.reg == y.reg && u16::from(x.first) < end(y) && u16::from(y.first) < end(x)
        })
    })
}

/// Whether `b` must stay behind `a`; `Some(true)` if it reads what `a` produces.
fn depends(a: &Accesses, b: &Accesses) -> Option<bool> {
    if overlap(&a.writes, &b.reads) {
        return Some(true);
    }
    let resources = a.fixed.iter().any(|(first, x)| {
        b.fixed.iter().any(|(second, y)| same(x, y) && (*first == Access::Write || *second == Access::Write))
    });
    let memory = match (a.memory, b.memory) {
        (Some((x, stores)), Some((y, also))) => x == y && (stores || also),
        _ => false,
    };
    let ordered = resources || memory || overlap(&a.writes, &b.writes) || overlap(&a.reads, &b.writes);
    ordered.then_some(false)
}

fn same(a: &Resource, b: &Resource) -> bool {
    match (a, b) {
        (Resource::Scc, Resource::Scc) => true,
        (Resource::Scalar(x), Resource::Scalar(y)) => {
            x.first < y.first + y.count && y.first < x.first + x.count
        }
        _ => false,
    }
}

/// Largest segment that is reordered; the graph is quadratic in it.
const MAX_SEGMENT: usize = 600;

fn order(items: Vec<Item>, loaded: &[bool], latency: &impl Fn(&Instr) -> u32) -> Vec<Item> {
    let count = items.len();
    if !(2..=MAX_SEGMENT).contains(&count) {
        return items;
    }
    let accesses: Vec<Accesses> = items.iter().map(accesses).collect();
    let cost = |index: usize| if let Item::Instr(instr) = &items[index] { latency(instr) } else { 0 };
    let mut successors: Vec<Vec<(usize, u32)>> = vec![Vec::new(); count];
    let mut waiting = vec![0usize; count];
    for late in 0..count {
        for early in 0..late {
            if let Some(data) = depends(&accesses[early], &accesses[late]) {
                let delay = if data { cost(early) } else { u32::from(cost(early) > 0) };
                successors[early].push((late, delay));
                waiting[late] += 1;
            }
        }
    }
    let mut priority = vec![0u32; count];
    for index in (0..count).rev() {
        let after = successors[index].iter().map(|(next, delay)| priority[*next] + delay).max();
        priority[index] = after.unwrap_or(0).max(cost(index));
    }
    let mut ready: Vec<usize> = (0..count).filter(|index| waiting[*index] == 0).collect();
    let mut earliest = arrivals(&accesses, loaded);
    let mut clock = 0u32;
    let mut chosen = Vec::with_capacity(count);
    while !ready.is_empty() {
        // The most urgent of those that need not stall, else the one that stalls least.
        let best = ready.iter().enumerate().min_by_key(|(_, index)| {
            (earliest[**index].saturating_sub(clock), core::cmp::Reverse(priority[**index]), **index)
        });
        let Some((slot, _)) = best else { break };
        let index = ready.swap_remove(slot);
        clock = clock.max(earliest[index]) + u32::from(cost(index) > 0);
        for (next, delay) in &successors[index] {
            earliest[*next] = earliest[*next].max(clock.saturating_sub(1) + delay);
            waiting[*next] -= 1;
            if waiting[*next] == 0 {
                ready.push(*next);
            }
        }
        chosen.push(index);
    }
    let mut slots: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    chosen.into_iter().filter_map(|index| slots[index].take()).collect()
}
