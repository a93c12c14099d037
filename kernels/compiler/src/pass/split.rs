//! Split: cuts the live ranges of registers: cheap values are computed again where they are used, others are kept in
//! scratch memory between their uses.
//!
//! Every use gets a short-lived register of its own, filled just before it; every definition of a spilled register is
//! stored just behind it, so that each lane of the slot always has what the lane of the register had. Not here: which
//! registers (`fit`), proof of the result (`check::split`).

use crate::machine::{Arg, Bank, Block, Instr, Item, Machine, Part, Reg};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{self as isa, Flags, Format, Lanes, Operand, Timing, op};

/// Largest offset of a slot: what scratch instructions of gfx11 encode.
const MOST_SCRATCH: u32 = 4096;

/// Items between uses that share a value computed again.
const REUSE: usize = 12;

/// Spill instructions by dwords: load, store.
static MOVES: [(isa::Op, isa::Op); 4] = [
    (op::scratch_load_b32, op::scratch_store_b32),
    (op::scratch_load_b64, op::scratch_store_b64),
    (op::scratch_load_b96, op::scratch_store_b96),
    (op::scratch_load_b128, op::scratch_store_b128),
];

/// A function some of whose registers are split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// The function.
    pub machine: Machine,
    /// Registers that hold a value computed again, with the register that held it before.
    pub copies: BTreeMap<Reg, Reg>,
    /// Registers whose only definition is gone.
    pub removed: BTreeSet<Reg>,
    /// Scratch bytes of each lane.
    pub scratch_bytes: u32,
    /// VGPRs that are kept in scratch memory.
    pub spilled: u32,
    /// Registers below are those of the function before.
    pub first_new: u32,
}

impl Split {
    /// A function none of whose registers is split.
    pub fn of(machine: Machine) -> Self {
        let first_new = machine.regs.len() as u32;
        Self {
            machine,
            copies: BTreeMap::new(),
            removed: BTreeSet::new(),
            scratch_bytes: 0,
            spilled: 0,
            first_new,
        }
    }

    /// True if any register is split.
    pub fn is_changed(&self) -> bool {
        self.spilled > 0 || !self.copies.is_empty()
    }

    /// Computes a register's value again before its uses. `instr` is its only definition, which must be one that
    /// `repeatable` gives.
    pub fn rematerialize(&mut self, reg: Reg, instr: &Instr) {
        let info = self.machine.info(reg);
        for block in 0..self.machine.blocks.len() {
            let items = core::mem::take(&mut self.machine.blocks[block].items);
            let mut result = Vec::with_capacity(items.len());
            let mut last: Option<(usize, Reg)> = None;
            for mut item in items {
                match &mut item {
                    Item::Undefined(other) if *other == reg => continue,
                    Item::Instr(found) if defines(found, reg) => continue,
                    Item::Instr(found) if uses(found, reg) => {
                        let copy = match last {
                            Some((at, copy)) if result.len() - at <= REUSE => copy,
                            _ => {
                                let copy = self.machine.reg(info.bank, info.dwords);
                                self.copies.insert(copy, reg);
                                let mut again = instr.clone();
                                rename(&mut again, reg, copy);
                                result.push(Item::Instr(again));
                                copy
                            }
                        };
                        last = Some((result.len(), copy));
                        rename(found, reg, copy);
                    }
                    Item::Instr(found) if writes_exec(found) => last = None,
                    _ => {}
                }
                result.push(item);
            }
            self.machine.blocks[block] = Block { items: result };
        }
        self.removed.insert(reg);
    }

    /// Keeps a VGPR in scratch memory; false, with nothing changed, if there is no more room.
    pub fn spill(&mut self, reg: Reg) -> bool {
        let dwords = self.machine.info(reg).dwords;
        let slot = self.scratch_bytes;
        if slot + 4 * u32::from(dwords) > MOST_SCRATCH {
            return false;
        }
        self.scratch_bytes += 4 * u32::from(dwords);
        self.spilled += u32::from(dwords);
        for block in 0..self.machine.blocks.len() {
            let items = core::mem::take(&mut self.machine.blocks[block].items);
            let mut result = Vec::with_capacity(items.len());
            for mut item in items {
                match &mut item {
                    Item::Undefined(other) if *other == reg => {}
                    Item::Instr(instr) if defines(instr, reg) || uses(instr, reg) => {
                        let temporary = self.machine.reg(Bank::Vector, dwords);
                        let stored = around(instr, reg, temporary, slot, dwords, &mut result);
                        result.push(item);
                        result.extend(stored);
                    }
                    _ => result.push(item),
                }
            }
            self.machine.blocks[block] = Block { items: result };
        }
        true
    }
}

/// Renames a spilled register in one instruction: pushes the loads before it, gives the stores behind it.
fn around(
    instr: &mut Instr,
    reg: Reg,
    temporary: Reg,
    slot: u32,
    dwords: u8,
    before: &mut Vec<Item>,
) -> Vec<Item> {
    let mut read: Vec<Part> = instr.uses().into_iter().filter(|part| part.reg == reg).collect();
    read.sort();
    read.dedup();
    let written: Vec<Part> =
        instr.defs().into_iter().map(|(part, _)| part).filter(|part| part.reg == reg).collect();
    let whole = |parts: &[Part]| parts.iter().any(|part| part.count == dwords);
    if dwords > 1 && !whole(&read) && !whole(&written) {
        before.push(Item::Undefined(temporary));
    }
    rename(instr, reg, temporary);
    let moves = |parts: Vec<Part>, load: bool| {
        let pieces = parts.into_iter().flat_map(pieces);
        let moves = pieces.map(move |part| {
            let part = Part { reg: temporary, ..part };
            let (from, to) = MOVES[usize::from(part.count - 1)];
            let off = Arg::Fixed(Operand::Off);
            let args = if load { vec![Arg::Reg(part), off, off] } else { vec![off, Arg::Reg(part), off] };
            let mut instr = Instr::new(if load { from } else { to }, args);
            instr.memory.offset = (slot + 4 * u32::from(part.first)).cast_signed();
            Item::Instr(instr)
        });
        moves.collect::<Vec<Item>>()
    };
    before.extend(moves(read, true));
    moves(written, false)
}

/// A part in pieces of up to four dwords.
fn pieces(part: Part) -> Vec<Part> {
    let starts = (0..part.count).step_by(4);
    starts.map(|at| Part { reg: part.reg, first: part.first + at, count: (part.count - at).min(4) }).collect()
}

fn defines(instr: &Instr, reg: Reg) -> bool {
    instr.defs().iter().any(|(part, _)| part.reg == reg)
}

fn uses(instr: &Instr, reg: Reg) -> bool {
    instr.uses().iter().any(|part| part.reg == reg)
}

fn rename(instr: &mut Instr, from: Reg, to: Reg) {
    for arg in &mut instr.args {
        if let Arg::Reg(part) = arg
            && part.reg == from
        {
            part.reg = to;
        }
    }
}

/// True if an instruction changes which lanes are active.
pub(crate) fn writes_exec(instr: &Instr) -> bool {
    let exec = Arg::Fixed(Operand::EXEC_LO);
    instr.op.row().has(Flags::EXEC_OUT) || instr.args.iter().take(instr.dst_count()).any(|arg| *arg == exec)
}

/// True if an instruction reads values of other lanes in its vector sources; a register filled just before it has
/// that in active lanes only.
pub(crate) fn crosses_lanes(instr: &Instr) -> bool {
    let name = instr.op.name();
    instr.lanes != Lanes::Own
        || instr.op.row().has(Flags::PERMUTES)
        || ["v_permlane", "v_readlane", "v_writelane"].iter().any(|prefix| name.starts_with(prefix))
}

/// True if an instruction gives the same result wherever its sources are the same, in one cheap step, and changes
/// nothing else.
pub(crate) fn repeatable(instr: &Instr, machine: &Machine) -> bool {
    const EFFECTS: Flags = Flags::READS_DST
        .with(Flags::EXEC_IN)
        .with(Flags::EXEC_OUT)
        .with(Flags::SCC_IN)
        .with(Flags::SCC_OUT)
        .with(Flags::VCC_IN)
        .with(Flags::INDEXED)
        .with(Flags::MATRIX);
    let row = instr.op.row();
    let cheap = matches!(row.timing, Timing::Valu | Timing::Salu)
        && !row.name.contains("read")
        && matches!(
            row.format,
            Format::Vop1 | Format::Vop2 | Format::Vop3 | Format::Sop1 | Format::Sop2 | Format::Sopk
        );
    let argument = matches!(instr.op, op::s_load_b32 | op::s_load_b64)
        && matches!(instr.args.get(1), Some(Arg::Reg(base)) if machine.info(base.reg).fixed.is_some());
    let plain = |arg: &Arg| match arg {
        Arg::Reg(_) => true,
        Arg::Fixed(operand) => {
            matches!(operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_) | Operand::Off)
        }
        Arg::Block(_) => false,
    };
    (cheap || argument)
        && !row.has(EFFECTS)
        && !instr.keeps
        && instr.lanes == Lanes::Own
        && instr.second.is_none()
        && instr.dst_count() == 1
        && instr.args.iter().all(plain)
}
