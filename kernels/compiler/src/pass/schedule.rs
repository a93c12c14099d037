//! Schedule: reorders each block by latency, loads first, keeping every dependency.
//!
//! A list scheduler on the dependency graph of a block; priority is the longest path to the block's end. What an earlier
//! block (or trip) loads counts as still on its way, so that the loads of this block are issued before it is waited
//! for. Branches and what is not an instruction stay in place. Not here: register pressure; if allocation fails
//! afterwards, `compile` falls back to the order of legalization.

use crate::machine::{Arg, Block, Instr, Item, Machine, Part, Reg};
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
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

/// For each register: true if a load from global memory writes it.
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

/// True if nothing may move across an item.
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

/// Registers and memory that an item reads and writes.
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

fn overlap(a: &Part, b: &Part) -> bool {
    let end = |part: &Part| u16::from(part.first) + u16::from(part.count);
    u16::from(a.first) < end(b) && u16::from(b.first) < end(a)
}

/// Locations of the scalar file by encoding number, then SCC.
const FIXED: usize = 129;

fn fixed(resource: &Resource) -> core::ops::Range<usize> {
    match resource {
        Resource::Scalar(reg) => usize::from(reg.first)..usize::from(reg.first) + usize::from(reg.count),
        Resource::Scc => FIXED - 1..FIXED,
        Resource::Vgpr(_) => 0..0,
    }
}

/// Items that touched something, in order: by the register part or location, whether they wrote it.
type Touched<K> = Vec<(usize, K, bool)>;

/// Order that must be kept between items, as far as the scheduler looks back.
struct Graph {
    /// Later items and the clocks they wait for, by item.
    successors: Vec<Vec<(usize, u32)>>,
    /// Earlier items that are not placed yet, by item.
    waiting: Vec<usize>,
}

impl Graph {
    fn of(accesses: &[Accesses], cost: &impl Fn(usize) -> u32) -> Self {
        let count = accesses.len();
        let mut graph = Self { successors: vec![Vec::new(); count], waiting: vec![0; count] };
        let mut parts: BTreeMap<Reg, Touched<Part>> = BTreeMap::new();
        let mut locations: Vec<Touched<()>> = vec![Vec::new(); FIXED];
        let mut memory: Vec<(Format, Touched<()>)> = Vec::new();
        // Earlier items of the current one, with whether it reads what they produce.
        let mut before: BTreeMap<usize, bool> = BTreeMap::new();
        for (late, access) in accesses.iter().enumerate() {
            before.clear();
            for (list, writes) in [(&access.reads, false), (&access.writes, true)] {
                for part in list {
                    let touched = parts.entry(part.reg).or_default();
                    for (early, other, wrote) in touched.iter() {
                        if (writes || *wrote) && overlap(part, other) {
                            *before.entry(*early).or_default() |= *wrote && !writes;
                        }
                    }
                }
            }
            for (direction, resource) in &access.fixed {
                for location in fixed(resource) {
                    let writes = *direction == Access::Write;
                    let ordered = locations[location].iter().filter(|(_, (), wrote)| writes || *wrote);
                    ordered.for_each(|(early, ..)| _ = before.entry(*early).or_default());
                    locations[location].push((late, (), writes));
                }
            }
            if let Some((format, stores)) = access.memory {
                let known = memory.iter().position(|entry| entry.0 == format);
                let known = known.unwrap_or_else(|| {
                    memory.push((format, Vec::new()));
                    memory.len() - 1
                });
                let ordered = memory[known].1.iter().filter(|(_, (), stored)| stores || *stored);
                ordered.for_each(|(early, ..)| _ = before.entry(*early).or_default());
                memory[known].1.push((late, (), stores));
            }
            for (list, writes) in [(&access.reads, false), (&access.writes, true)] {
                for part in list {
                    parts.entry(part.reg).or_default().push((late, *part, writes));
                }
            }
            before.remove(&late);
            graph.waiting[late] = before.len();
            for (early, data) in &before {
                let delay = if *data { cost(*early) } else { u32::from(cost(*early) > 0) };
                graph.successors[*early].push((late, delay));
            }
        }
        graph
    }
}

/// Largest segment that is reordered.
const MAX_SEGMENT: usize = 600;

fn order(items: Vec<Item>, loaded: &[bool], latency: &impl Fn(&Instr) -> u32) -> Vec<Item> {
    let count = items.len();
    if !(2..=MAX_SEGMENT).contains(&count) {
        return items;
    }
    let accesses: Vec<Accesses> = items.iter().map(accesses).collect();
    let cost = |index: usize| if let Item::Instr(instr) = &items[index] { latency(instr) } else { 0 };
    let Graph { successors, mut waiting } = Graph::of(&accesses, &cost);
    let mut priority = vec![0u32; count];
    for index in (0..count).rev() {
        let after = successors[index].iter().map(|(next, delay)| priority[*next] + delay).max();
        priority[index] = after.unwrap_or(0).max(cost(index));
    }
    let mut earliest = arrivals(&accesses, loaded);
    // Those that could be issued by now, the most urgent first; and the others, the soonest first.
    let (mut ready, mut soon) = (BinaryHeap::new(), BinaryHeap::new());
    for index in (0..count).filter(|index| waiting[*index] == 0) {
        soon.push((Reverse(earliest[index]), priority[index], Reverse(index)));
    }
    let mut clock = 0u32;
    let mut chosen = Vec::with_capacity(count);
    loop {
        while soon.peek().is_some_and(|(Reverse(at), ..)| *at <= clock) {
            let Some((_, urgency, index)) = soon.pop() else { break };
            ready.push((urgency, index));
        }
        let next = ready.pop().map(|(_, Reverse(index))| index);
        let Some(index) = next.or_else(|| soon.pop().map(|(_, _, Reverse(index))| index)) else { break };
        clock = clock.max(earliest[index]) + u32::from(cost(index) > 0);
        for (next, delay) in &successors[index] {
            earliest[*next] = earliest[*next].max(clock.saturating_sub(1) + delay);
            waiting[*next] -= 1;
            if waiting[*next] == 0 {
                soon.push((Reverse(earliest[*next]), priority[*next], Reverse(*next)));
            }
        }
        chosen.push(index);
    }
    let mut slots: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    chosen.into_iter().filter_map(|index| slots[index].take()).collect()
}
