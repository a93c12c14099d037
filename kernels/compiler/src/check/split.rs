//! Checks that a program whose live ranges were split computes the same as the one before.
//!
//! Symbolic, as the check of allocation: follows what every register and every scratch slot holds. What splitting
//! adds is recognized by itself: scratch accesses, which nothing else makes, and instructions that repeat the only
//! definition of a register while its sources hold what they did. Not here: anything of the pass (`pass::split`) but
//! its claim which registers are copies, which is not relied on.

use super::allocation::AllocationError;
use super::holding::{Dwords, State};
use crate::machine::{Arg, Bank, BlockId, Instr, Item, Machine, Part, Reg, forward};
use crate::pass::split::Split;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{Flags, Format, Lanes, Operand};

/// Compares a program before and after splitting.
///
/// # Errors
///
/// The first instruction that reads something else than before, or is another instruction.
pub fn check(before: &Machine, split: &Split) -> Result<(), AllocationError> {
    let after = &split.machine;
    let kept = before.regs.len() <= after.regs.len() && before.regs[..] == after.regs[..before.regs.len()];
    if before.blocks.len() != after.blocks.len() || before.entry != after.entry || !kept {
        return Err(shape("function"));
    }
    let (old, new) = (Dwords::of(before), Dwords::of(after));
    let walk = Walk { before, split, old, new, definitions: definitions(before) };
    let states = forward(
        before.blocks.len(),
        walk.start(),
        |block, mut state| {
            // Faults of intermediate states are only reported at the fixed point.
            let _ = walk.block(block, &mut state);
            state
        },
        |block| before.successors(BlockId(block as u32)).into_iter().map(BlockId::index).collect(),
        Known::join,
    );
    for (block, state) in states.into_iter().enumerate() {
        if let Some(mut state) = state {
            walk.block(block, &mut state)?;
        }
    }
    Ok(())
}

fn shape(name: &str) -> AllocationError {
    AllocationError::Shape { instruction: name.to_string() }
}

/// Facts at a point of the program.
#[derive(Clone)]
struct Known<'a> {
    /// Registers of the split program by dword, then its scratch slots.
    state: State<'a>,
    /// Registers whose only definition was passed, its sources unchanged since.
    current: BTreeSet<Reg>,
}

impl Known<'_> {
    fn join(&mut self, other: &Self) -> bool {
        let count = self.current.len();
        self.current.retain(|reg| other.current.contains(reg));
        let fewer = self.current.len() != count;
        self.state.join(&other.state) || fewer
    }
}

struct Walk<'a> {
    before: &'a Machine,
    split: &'a Split,
    /// Dwords of both programs; those of the split one are the locations, its scratch slots follow.
    old: Dwords,
    new: Dwords,
    /// The only definition by register of the program before.
    definitions: Vec<Option<&'a Instr>>,
}

/// The only definition by register.
fn definitions(machine: &Machine) -> Vec<Option<&Instr>> {
    let mut counts = vec![0u32; machine.regs.len()];
    let mut definitions = vec![None; machine.regs.len()];
    for item in machine.blocks.iter().flat_map(|block| &block.items) {
        if let Item::Instr(instr) = item {
            for (part, _) in instr.defs() {
                counts[part.reg.index()] += 1;
                definitions[part.reg.index()] = Some(instr);
            }
        }
    }
    for (definition, count) in definitions.iter_mut().zip(counts) {
        *definition = definition.filter(|_| count == 1);
    }
    definitions
}

impl<'a> Walk<'a> {
    fn slots(&self) -> usize {
        self.new.count()
    }

    fn start(&self) -> Known<'_> {
        let locations = self.slots() + self.split.scratch_bytes.div_ceil(4) as usize;
        let mut state = State::new(locations, &self.old);
        for (index, info) in self.before.regs.iter().enumerate() {
            if info.fixed.is_some() {
                for dword in 0..info.dwords {
                    let reg = Reg(index as u32);
                    state.write(self.new.first(reg) + usize::from(dword), (reg, dword));
                }
            }
        }
        Known { state, current: BTreeSet::new() }
    }

    fn locations(&self, part: Part) -> core::ops::Range<usize> {
        let first = self.new.first(part.reg) + usize::from(part.first);
        first..first + usize::from(part.count)
    }

    fn block(&self, block: usize, known: &mut Known<'_>) -> Result<(), AllocationError> {
        let mut old = &self.before.blocks[block].items[..];
        let mut result = Ok(());
        for item in &self.split.machine.blocks[block].items {
            old = self.skip(old, known);
            match item {
                Item::Undefined(_) => continue,
                Item::Instr(instr) if instr.op.row().format == Format::Scratch => {
                    self.scratch(instr, known)?;
                    continue;
                }
                Item::Instr(instr) => {
                    if let Some(reg) = self.copied(instr) {
                        self.again(instr, reg, known)?;
                        continue;
                    }
                }
                Item::Release(_) => {}
            }
            match (old.first(), item) {
                (Some(Item::Release(expected)), Item::Release(release)) if expected == release => {}
                (Some(Item::Instr(expected)), Item::Instr(instr)) => {
                    self.step(expected, instr, known, &mut result)?;
                }
                (_, Item::Instr(instr)) => return Err(shape(instr.op.name())),
                _ => return Err(shape("wait")),
            }
            old = &old[1..];
        }
        match self.skip(old, known) {
            [] => result,
            _ => Err(shape("missing instruction")),
        }
    }

    /// The items of the program before from the next on that should be there; what becomes undefined and what was
    /// removed on the way is noted.
    fn skip(&self, mut items: &'a [Item], known: &mut Known<'_>) -> &'a [Item] {
        while let [first, rest @ ..] = items {
            match first {
                Item::Undefined(reg) => known.state.forget(*reg),
                Item::Instr(instr) if self.is_removed(instr) => self.defined(instr, known),
                _ => break,
            }
            items = rest;
        }
        items
    }

    /// An instruction without another effect than to define a register that is said to be removed. If it is not, its
    /// readers find nothing.
    fn is_removed(&self, instr: &Instr) -> bool {
        let mut defs = instr.defs().into_iter();
        let only = defs.next().filter(|_| defs.next().is_none());
        only.is_some_and(|(part, _)| self.split.removed.contains(&part.reg) && is_pure(instr))
    }

    /// The register whose value an added instruction is said to compute again.
    fn copied(&self, instr: &Instr) -> Option<Reg> {
        let Some(Arg::Reg(part)) = instr.args.first() else { return None };
        self.split.copies.get(&part.reg).copied().filter(|_| instr.dst_count() == 1)
    }

    /// A scratch access: content moves between registers and slots.
    fn scratch(&self, instr: &Instr, known: &mut Known<'_>) -> Result<(), AllocationError> {
        let load = instr.op.row().has(Flags::LOAD);
        let data = instr.args.get(usize::from(!load));
        let off = Arg::Fixed(Operand::Off);
        let addressed = instr.args.iter().filter(|arg| **arg == off).count() == 2;
        let offset = usize::try_from(instr.memory.offset).ok().filter(|offset| offset % 4 == 0);
        let (Some(Arg::Reg(part)), Some(offset), true) = (data, offset, addressed) else {
            return Err(shape(instr.op.name()));
        };
        if instr.args.len() != 3 || offset + 4 * usize::from(part.count) > self.split.scratch_bytes as usize {
            return Err(shape(instr.op.name()));
        }
        let slot = self.slots() + offset / 4;
        for (index, location) in self.locations(*part).enumerate() {
            let (from, to) = if load { (slot + index, location) } else { (location, slot + index) };
            known.state.copy(from, to);
        }
        Ok(())
    }

    /// The definition of `reg` once more, to another register.
    fn again(&self, instr: &Instr, reg: Reg, known: &mut Known<'_>) -> Result<(), AllocationError> {
        let definition = self.definitions.get(reg.index()).copied().flatten();
        let Some(definition) = definition.filter(|definition| is_pure(definition)) else {
            return Err(shape(instr.op.name()));
        };
        let whole = |arg: Option<&Arg>, machine: &Machine| matches!(arg, Some(Arg::Reg(part)) if part.count == machine.info(part.reg).dwords);
        let fits = whole(definition.args.first(), self.before)
            && whole(instr.args.first(), &self.split.machine)
            && same(definition, instr);
        let sources = definition.args.iter().zip(&instr.args).skip(1);
        let found = sources.filter_map(|pair| self.misread(pair, known)).next();
        let outdated = (!known.current.contains(&reg)).then(|| whole_part(self.before, reg));
        if let Some(expected) = found.or(outdated) {
            return Err(self.read(instr, expected));
        }
        let (true, Some(Arg::Reg(to))) = (fits, instr.args.first()) else {
            return Err(shape(instr.op.name()));
        };
        for (dword, location) in (0..).zip(self.locations(*to)) {
            known.state.put(location, (reg, dword));
        }
        Ok(())
    }

    /// The part that an argument should hold and does not.
    fn misread(&self, (old, new): (&Arg, &Arg), known: &Known<'_>) -> Option<Part> {
        let (Arg::Reg(part), Arg::Reg(location)) = (old, new) else { return None };
        let mut dwords = (part.first..).zip(self.locations(*location)).take(usize::from(part.count));
        let held = dwords.all(|(dword, location)| known.state.holds(location, (part.reg, dword)));
        (!held || location.count != part.count).then_some(*part)
    }

    fn is_new(&self, arg: &Arg) -> bool {
        matches!(arg, Arg::Reg(part) if part.reg.index() >= self.before.regs.len())
    }

    fn read(&self, instr: &Instr, expected: Part) -> AllocationError {
        AllocationError::Read { instruction: instr.op.name().to_string(), expected, operand: Operand::Off }
    }

    /// An instruction of both programs: all reads, then all writes.
    fn step(
        &self,
        old: &Instr,
        new: &Instr,
        known: &mut Known<'_>,
        result: &mut Result<(), AllocationError>,
    ) -> Result<(), AllocationError> {
        if !same(old, new) || old.keeps != new.keeps {
            return Err(shape(new.op.name()));
        }
        // Registers filled for a use have nothing in other lanes.
        if crosses_lanes(new) && new.args.iter().skip(new.dst_count()).any(|arg| self.is_new(arg)) {
            return Err(shape(new.op.name()));
        }
        let uses = old.uses();
        let reads = old.args.iter().zip(&new.args);
        let reads = reads.filter(|(arg, _)| matches!(arg, Arg::Reg(part) if uses.contains(part)));
        if let Some(expected) = reads.filter_map(|pair| self.misread(pair, known)).next()
            && result.is_ok()
        {
            *result = Err(self.read(new, expected));
        }
        for (old, new) in old.args.iter().zip(&new.args).take(old.dst_count()) {
            let (Arg::Reg(part), Arg::Reg(location)) = (old, new) else { continue };
            for (dword, location) in (part.first..).zip(self.locations(*location)) {
                known.state.write(location, (part.reg, dword));
            }
        }
        self.defined(old, known);
        if writes_exec(old) {
            self.lanes_changed(known);
        }
        Ok(())
    }

    /// Makes a definition current and forgets the copies of the value before.
    fn defined(&self, instr: &Instr, known: &mut Known<'_>) {
        for (part, _) in instr.defs() {
            known.current.retain(|reg| {
                let definition = self.definitions[reg.index()];
                !definition.is_some_and(|found| found.uses().iter().any(|source| source.reg == part.reg))
            });
            if self.definitions[part.reg.index()].is_some() {
                known.current.insert(part.reg);
            }
        }
    }

    /// Registers that were filled for a use have their value in the lanes that were active then.
    fn lanes_changed(&self, known: &mut Known<'_>) {
        for (reg, info) in self.split.machine.regs.iter().enumerate().skip(self.before.regs.len()) {
            if info.bank == Bank::Vector {
                let reg = Reg(reg as u32);
                (self.new.first(reg)..self.new.first(Reg(reg.0 + 1)))
                    .for_each(|location| known.state.clear(location));
            }
        }
    }
}

fn whole_part(machine: &Machine, reg: Reg) -> Part {
    Part { reg, first: 0, count: machine.info(reg).dwords }
}

/// True if two instructions are the same, registers aside.
fn same(old: &Instr, new: &Instr) -> bool {
    let alike = |(old, new): (&Arg, &Arg)| match (old, new) {
        (Arg::Reg(old), Arg::Reg(new)) => old.count == new.count,
        (old, new) => old == new,
    };
    old.op == new.op
        && old.form == new.form
        && old.modifiers == new.modifiers
        && old.lanes == new.lanes
        && old.memory == new.memory
        && old.second == new.second
        && old.args.len() == new.args.len()
        && old.args.iter().zip(&new.args).all(alike)
}

/// True if an instruction only gives a result that depends on its sources alone. Arguments of the kernel
/// count as constants; that the base is theirs is checked as any source.
fn is_pure(instr: &Instr) -> bool {
    const EFFECTS: [Flags; 10] = [
        Flags::READS_DST,
        Flags::VCC_IN,
        Flags::SCC_IN,
        Flags::SCC_OUT,
        Flags::EXEC_IN,
        Flags::EXEC_OUT,
        Flags::BRANCHES,
        Flags::ENDS,
        Flags::INDEXED,
        Flags::MATRIX,
    ];
    let row = instr.op.row();
    let format = matches!(
        row.format,
        Format::Vop1
            | Format::Vop2
            | Format::Vop3
            | Format::Sop1
            | Format::Sop2
            | Format::Sopk
            | Format::Smem
    );
    let lanes = instr.lanes == Lanes::Own && !row.name.contains("lane");
    let registers =
        instr.args.iter().all(|arg| !matches!(arg, Arg::Fixed(Operand::Scalar(_) | Operand::Special(_))));
    format && lanes && registers && !instr.keeps && !EFFECTS.iter().any(|flag| row.has(*flag))
}

fn crosses_lanes(instr: &Instr) -> bool {
    let row = instr.op.row();
    instr.lanes != Lanes::Own
        || row.has(Flags::PERMUTES)
        || row.name.contains("permlane")
        || row.name.contains("readlane")
}

fn writes_exec(instr: &Instr) -> bool {
    let row = instr.op.row();
    let exec = [Arg::Fixed(Operand::EXEC_LO)];
    row.has(Flags::EXEC_OUT) || row.dst.iter().zip(&instr.args).any(|(_, arg)| exec.contains(arg))
}
