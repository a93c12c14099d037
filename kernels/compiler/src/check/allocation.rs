//! Checks that the allocated program computes the same as the program with virtual registers.
//!
//! Symbolic: follows which dword of which virtual register every physical register holds, on all paths. Every read
//! must find what it names. Not here: anything of the allocator; what splitting did before (`split`).

use super::holding::{Dwords, State};
use crate::machine::{Arg, BlockId, Instr, Item, Line, Machine, Part, Physical, Reg, forward};
use alloc::string::{String, ToString};
use core::fmt;
use doorbell_isa::{Flags, Form, Inst, Lanes, Modifiers, Op, Operand, Operands};

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
    let dwords = Dwords::of(machine);
    let mut start = State::new(384, &dwords);
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

/// The program with virtual registers, item by item.
struct Items<'a> {
    rest: core::slice::Iter<'a, Item>,
}

impl<'a> Items<'a> {
    /// The next item that is code; registers that become undefined on the way are noted.
    fn next(&mut self, state: &mut State<'_>) -> Option<&'a Item> {
        for item in self.rest.by_ref() {
            let Item::Undefined(reg) = item else { return Some(item) };
            state.forget(*reg);
        }
        None
    }
}

fn shape(name: &str) -> AllocationError {
    AllocationError::Shape { instruction: name.to_string() }
}

fn walk(
    machine: &Machine,
    physical: &Physical,
    block: usize,
    state: &mut State<'_>,
) -> Result<(), AllocationError> {
    let mut items = Items { rest: machine.blocks[block].items.iter() };
    let mut result = Ok(());
    for line in &physical.blocks[block] {
        let item = items.next(state);
        let (inst, branch, instr) = match (line, item) {
            (Line::Release(found), Some(Item::Release(expected))) if found == expected => continue,
            (Line::Inst(inst, branch), Some(Item::Instr(instr))) => (inst, branch, instr),
            _ => return Err(shape("wait")),
        };
        if *branch != instr.target() {
            return Err(shape(instr.op.name()));
        }
        let single = [(instr, inst.operands)];
        let Some((op, operands)) = inst.second else {
            if !same(instr, inst) {
                return Err(shape(instr.op.name()));
            }
            step(&single, state, &mut result)?;
            continue;
        };
        let Some(Item::Instr(next)) = items.next(state) else { return Err(shape(instr.op.name())) };
        step(&halves([(inst.op, inst.operands), (op, operands)], [instr, next], state)?, state, &mut result)?;
    }
    match items.next(state) {
        Some(_) => Err(shape("missing instruction")),
        None => result,
    }
}

/// The two instructions that the halves of a dual-issue instruction are.
fn halves<'a>(
    dual: [(Op, Operands); 2],
    instrs: [&'a Instr; 2],
    state: &State<'_>,
) -> Result<[(&'a Instr, Operands); 2], AllocationError> {
    let plain = |instr: &Instr| {
        instr.lanes == Lanes::Own
            && instr.modifiers == Modifiers::default_of(instr.op.row())
            && !instr.op.row().has(Flags::EXEC_OUT)
    };
    let is_half = |half: Op, instr: &Instr| {
        let rest = half.name().strip_prefix("v_dual_");
        rest.is_some() && rest == instr.op.name().strip_prefix("v_") && plain(instr)
    };
    let mut fitting = [[0, 1], [1, 0]]
        .into_iter()
        .filter(|order| is_half(dual[0].0, instrs[order[0]]) && is_half(dual[1].0, instrs[order[1]]));
    let chosen = fitting
        .clone()
        .find(|order| (0..2).all(|half| misread(instrs[order[half]], &dual[half].1, state).is_none()));
    let order = chosen.or_else(|| fitting.next()).ok_or_else(|| shape(dual[0].0.name()))?;
    Ok([(instrs[order[0]], dual[0].1), (instrs[order[1]], dual[1].1)])
}

/// The first register operand that does not hold what the instruction reads there.
fn misread(instr: &Instr, operands: &Operands, state: &State<'_>) -> Option<(Part, Operand)> {
    let uses = instr.uses();
    let registers = instr.args.iter().zip(operands.as_slice());
    let mut reads = registers.filter_map(|(arg, operand)| match arg {
        Arg::Reg(part) if uses.contains(part) => Some((*part, *operand)),
        _ => None,
    });
    reads.find(|(part, operand)| !holds(state, *part, *operand))
}

/// One issue: all reads, then all writes.
fn step(
    issued: &[(&Instr, Operands)],
    state: &mut State<'_>,
    result: &mut Result<(), AllocationError>,
) -> Result<(), AllocationError> {
    for (instr, operands) in issued {
        let fixed = instr.args.iter().zip(operands.as_slice());
        let moved =
            fixed.filter(|(arg, operand)| matches!(arg, Arg::Fixed(fixed) if fixed != *operand)).count() > 0;
        if moved || instr.args.len() != operands.as_slice().len() {
            return Err(shape(instr.op.name()));
        }
        if let Some((expected, operand)) = misread(instr, operands, state)
            && result.is_ok()
        {
            let instruction = instr.op.name().to_string();
            *result = Err(AllocationError::Read { instruction, expected, operand });
        }
    }
    for (instr, operands) in issued {
        for (arg, operand) in instr.args.iter().zip(operands.as_slice()).take(instr.dst_count()) {
            let (Arg::Reg(part), Some((first, count))) = (arg, slots(*operand)) else { continue };
            if count != part.count {
                return Err(shape(instr.op.name()));
            }
            for dword in 0..count {
                state.write(first + usize::from(dword), (part.reg, part.first + dword));
            }
        }
    }
    Ok(())
}

/// True if an allocated instruction is the one with virtual registers, operands aside; the 64-bit form may stand for
/// the 32-bit one.
fn same(instr: &Instr, inst: &Inst) -> bool {
    inst.op == instr.op
        && (inst.form == instr.form || inst.form == Form::Long)
        && inst.modifiers == instr.modifiers
        && inst.lanes == instr.lanes
        && inst.memory == instr.memory
        && inst.second.is_none()
}

/// True if an operand holds a part, dword by dword.
fn holds(state: &State<'_>, part: Part, operand: Operand) -> bool {
    slots(operand).is_some_and(|(first, count)| {
        count == part.count
            && (0..count).all(|dword| state.holds(first + usize::from(dword), (part.reg, part.first + dword)))
    })
}
