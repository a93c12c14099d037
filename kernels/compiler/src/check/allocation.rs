//! Whether the allocated program computes what the program with virtual registers does.
//!
//! Symbolic: follows which dword of which virtual register every physical register holds, on all paths. Every read
//! must find what it names. Not here: anything of the allocator.

use crate::machine::{Arg, BlockId, Instr, Item, Line, Machine, Part, Physical, Reg, forward};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use doorbell_isa::{Inst, Operand};

/// A difference between the two programs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocationError {
    /// The programs do not have the same instructions.
    Shape {
        /// Instruction of the allocated program, or where one is missing.
        instruction: String,
    },
    /// A read finds something else than it names.
    Read {
        /// The instruction.
        instruction: String,
        /// The virtual register it names.
        expected: Part,
        /// The physical operand.
        operand: Operand,
    },
}

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { instruction } => write!(f, "{instruction}: not the instruction that was allocated"),
            Self::Read { instruction, expected, operand } => {
                write!(
                    f,
                    "{instruction}: {operand} does not hold register {} dword {}",
                    expected.reg.0, expected.first
                )
            }
        }
    }
}

impl core::error::Error for AllocationError {}

/// A dword of a virtual register.
type Dword = (Reg, u8);

#[derive(Clone, PartialEq)]
struct State {
    /// 256 VGPRs, then 128 scalar registers.
    holds: Vec<Option<Dword>>,
    /// Dwords that hold nothing in particular yet: reading them is reading anything.
    undefined: BTreeSet<Dword>,
}

impl State {
    fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.holds.iter_mut().zip(&other.holds) {
            *mine = match (*mine, *theirs) {
                (a, b) if a == b => a,
                // What is undefined on the other path may be taken from here.
                (Some(a), _) if other.undefined.contains(&a) => Some(a),
                (_, Some(b)) if before.undefined.contains(&b) => Some(b),
                _ => None,
            };
        }
        self.undefined = before.undefined.intersection(&other.undefined).copied().collect();
        *self != before
    }

    fn write(&mut self, slot: usize, dword: Dword) {
        for held in &mut self.holds {
            if *held == Some(dword) {
                *held = None;
            }
        }
        self.undefined.remove(&dword);
        if let Some(held) = self.holds.get_mut(slot) {
            *held = Some(dword);
        }
    }
}

/// Slot of the first register of an operand, and how many.
fn slots(operand: Operand) -> Option<(usize, u8)> {
    match operand {
        Operand::Vgpr(reg) => Some((usize::from(reg.first), reg.count)),
        Operand::Scalar(reg) => Some((256 + usize::from(reg.first), reg.count)),
        _ => None,
    }
}

/// Compares a program before and after allocation.
///
/// # Errors
///
/// The first instruction that reads something else than before, or is another instruction.
pub fn check(machine: &Machine, physical: &Physical) -> Result<(), AllocationError> {
    let shape = |text: &str| AllocationError::Shape { instruction: text.to_string() };
    if machine.blocks.len() != physical.blocks.len() {
        return Err(shape("blocks"));
    }
    let mut start = State { holds: vec![None; 384], undefined: BTreeSet::new() };
    for (index, info) in machine.regs.iter().enumerate() {
        if let Some(first) = info.fixed {
            let base = if info.bank == crate::machine::Bank::Scalar { 256 } else { 0 };
            for dword in 0..info.dwords {
                start.write(base + usize::from(first + dword), (Reg(index as u32), dword));
            }
        }
    }
    let mut fault = None;
    let states = forward(
        machine.blocks.len(),
        start,
        |block, mut state| {
            // Faults of intermediate states are only reported at the fixed point.
            let _ = walk(machine, physical, block, &mut state);
            state
        },
        |block| machine.successors(BlockId(block as u32)).into_iter().map(BlockId::index).collect(),
        State::join,
    );
    for (block, state) in states.into_iter().enumerate() {
        if let Some(mut state) = state
            && fault.is_none()
        {
            fault = walk(machine, physical, block, &mut state).err();
        }
    }
    fault.map_or(Ok(()), Err)
}

fn walk(
    machine: &Machine,
    physical: &Physical,
    block: usize,
    state: &mut State,
) -> Result<(), AllocationError> {
    let mut lines = physical.blocks[block].iter();
    let mut result = Ok(());
    for item in &machine.blocks[block].items {
        let instr = match item {
            Item::Undefined(reg) => {
                for dword in 0..machine.info(*reg).dwords {
                    state.undefined.insert((*reg, dword));
                }
                continue;
            }
            Item::Release(_) => {
                lines.next();
                continue;
            }
            Item::Instr(instr) => instr,
        };
        let shape = || AllocationError::Shape { instruction: instr.op.name().to_string() };
        let Some(Line::Inst(inst, branch)) = lines.next() else { return Err(shape()) };
        if !same(instr, inst) || *branch != instr.target() {
            return Err(shape());
        }
        let uses = instr.uses();
        for (arg, operand) in instr.args.iter().zip(inst.operands.as_slice()) {
            match arg {
                Arg::Fixed(fixed) if fixed == operand => {}
                Arg::Fixed(_) => return Err(shape()),
                Arg::Block(_) => {}
                Arg::Reg(part) => {
                    let read = uses.contains(part);
                    let found = holds(state, *part, *operand);
                    if read && !found && result.is_ok() {
                        result = Err(AllocationError::Read {
                            instruction: instr.op.name().to_string(),
                            expected: *part,
                            operand: *operand,
                        });
                    }
                }
            }
        }
        for (arg, operand) in instr.args.iter().zip(inst.operands.as_slice()).take(instr.dst_count()) {
            let (Arg::Reg(part), Some((first, count))) = (arg, slots(*operand)) else { continue };
            if count != part.count {
                return Err(shape());
            }
            for dword in 0..count {
                state.write(first + usize::from(dword), (part.reg, part.first + dword));
            }
        }
    }
    result
}

/// Whether an allocated instruction is the one with virtual registers, operands aside.
fn same(instr: &Instr, inst: &Inst) -> bool {
    inst.op == instr.op
        && inst.form == instr.form
        && inst.modifiers == instr.modifiers
        && inst.lanes == instr.lanes
        && inst.memory == instr.memory
        && inst.second.is_none()
        && inst.operands.as_slice().len() == instr.args.len()
}

/// Whether an operand holds a part, dword by dword.
fn holds(state: &State, part: Part, operand: Operand) -> bool {
    let Some((first, count)) = slots(operand) else { return false };
    count == part.count
        && (0..count).all(|dword| {
            let wanted = (part.reg, part.first + dword);
            state.holds.get(first + usize::from(dword)).copied().flatten() == Some(wanted)
                || state.undefined.contains(&wanted)
        })
}
