//! Legalize: IR to machine instructions with virtual registers, for one target.
//!
//! Uniform values go to SGPRs where the target has a scalar instruction, all others to VGPRs. Whether an operand
//! fits an encoding is asked of the instruction set, not known here. Not here: order, registers, waits.

mod arithmetic;
mod control;
mod memory;
mod uniform;
mod uses;

use crate::ir::{ArgumentKind, Axis, Elem, Fragment, Function, Node, Op, Region, Type, Value};
use crate::machine::{Arg, Bank, BlockId, Instr, Item, Machine, Part, Reg, physical};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use doorbell_isa::{self as isa, Form, Generation, Operand, Scalar, Target, encode, op};
use uses::Uses;

pub(crate) use uses::operands;

/// A function that the target cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LegalizeError {
    /// The target has no instruction for an operation.
    NoInstruction {
        /// The operation.
        operation: String,
        /// The target.
        target: Target,
    },
    /// Operands that no encoding of an instruction takes.
    Operands {
        /// The instruction.
        instruction: isa::Op,
    },
    /// A value in a location where its kind cannot be (a condition as data).
    Misplaced {
        /// The operation that needs it.
        operation: String,
    },
}

impl fmt::Display for LegalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInstruction { operation, target } => {
                write!(f, "{target} has no instruction for {operation}")
            }
            Self::Operands { instruction } => {
                write!(f, "no encoding of {} takes the operands", instruction.name())
            }
            Self::Misplaced { operation } => write!(f, "{operation} needs a value of another kind"),
        }
    }
}

impl core::error::Error for LegalizeError {}

/// The location of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Location {
    /// In registers.
    Part(Part),
    /// A 32-bit constant.
    Constant(u32),
    /// A scalar register that is not allocated.
    Fixed(Operand),
    /// A uniform comparison, repeated before each use because it lives in SCC.
    Compare(isa::Op, [Arg; 2]),
}

/// Lowers one function.
struct Lower<'a> {
    function: &'a Function,
    target: Target,
    machine: Machine,
    uses: Uses,
    locations: Vec<Option<Location>>,
    /// Register parts that values must be defined in (loop-carried values).
    wanted: Vec<Option<Part>>,
    /// Registers of packed values, made when the first element is.
    tuples: Vec<Option<Reg>>,
    kernarg: Reg,
    workgroup: [Option<Reg>; 3],
    workitem: Reg,
    /// Blocks there were when a zero was last put into a VGPR, and where it is.
    zero: Option<(usize, Part)>,
}

/// Lowers a verified function.
///
/// # Errors
///
/// If the target lacks an instruction that the function needs.
pub fn legalize(function: &Function, target: Target) -> Result<Machine, LegalizeError> {
    let mut machine = Machine::new(target);
    let kernarg = machine.reg(Bank::Scalar, 2);
    machine.regs[kernarg.index()].fixed = Some(0);
    let workitem = machine.reg(Bank::Vector, 1);
    machine.regs[workitem.index()].fixed = Some(0);
    let count = function.types.len();
    let mut lower = Lower {
        function,
        target,
        machine,
        uses: Uses::of(function),
        locations: vec![None; count],
        wanted: vec![None; count],
        tuples: vec![None; count],
        kernarg,
        workgroup: [None; 3],
        workitem,
        zero: None,
    };
    lower.entry();
    lower.region(&function.body)?;
    lower.push(op::s_endpgm, vec![Arg::Fixed(Operand::Immediate(0))]);
    Ok(lower.machine)
}

/// A whole register as an argument.
fn whole(machine: &Machine, reg: Reg) -> Part {
    Part { reg, first: 0, count: machine.info(reg).dwords }
}

impl Lower<'_> {
    /// Registers that the hardware fills: user SGPRs, then the workgroup ids that are asked for.
    fn entry(&mut self) {
        let ids = self.uses.workgroup_ids;
        self.machine.entry.workgroup_ids = ids;
        let enabled = ids.iter().filter(|id| **id).count() as u8;
        // Some chips initialize SGPRs wrongly unless user and system registers number 16 or more.
        let user = if self.target.pads_user_sgprs() { 16 - enabled } else { 2 };
        self.machine.entry.user_sgprs = user;
        if self.target.generation() == Generation::Gfx12 {
            return;
        }
        let mut next = user;
        for (slot, used) in self.workgroup.iter_mut().zip(ids) {
            if used {
                let reg = self.machine.reg(Bank::Scalar, 1);
                self.machine.regs[reg.index()].fixed = Some(next);
                *slot = Some(reg);
                next += 1;
            }
        }
    }

    fn block(&mut self) -> &mut Vec<Item> {
        let last = self.machine.blocks.len() - 1;
        &mut self.machine.blocks[last].items
    }

    /// Starts the next block.
    fn next_block(&mut self) -> BlockId {
        self.machine.blocks.push(crate::machine::Block::default());
        BlockId(self.machine.blocks.len() as u32 - 1)
    }

    fn push(&mut self, op: isa::Op, args: Vec<Arg>) {
        let instr = Instr::new(op, args);
        self.block().push(Item::Instr(instr));
    }

    fn ty(&self, value: Value) -> Type {
        self.function.ty(value).unwrap_or(Type::of(Elem::Int, false))
    }

    /// Registers that a value of a type takes.
    fn dwords(&self, ty: Type) -> u8 {
        let gfx12 = self.target.generation() == Generation::Gfx12;
        match ty.elem {
            Elem::Wide => 2 * ty.count,
            Elem::Fragment(Fragment::Half) if gfx12 => 4,
            Elem::Fragment(Fragment::Byte) => {
                if gfx12 {
                    2
                } else {
                    4
                }
            }
            Elem::Fragment(_) => 8,
            _ => ty.count,
        }
    }

    fn location(&self, value: Value) -> Option<&Location> {
        self.locations.get(value.index())?.as_ref()
    }

    fn misplaced(op: &Op) -> LegalizeError {
        LegalizeError::Misplaced { operation: op.to_string() }
    }

    /// The value as an argument that is not a condition.
    fn arg(&self, value: Value, op: &Op) -> Result<Arg, LegalizeError> {
        match self.location(value) {
            Some(Location::Part(part)) => Ok(Arg::Reg(*part)),
            Some(Location::Constant(bits)) => Ok(Arg::Fixed(Operand::int(bits.cast_signed()))),
            Some(Location::Fixed(operand)) => Ok(Arg::Fixed(*operand)),
            Some(Location::Compare(..)) | None => Err(Self::misplaced(op)),
        }
    }

    fn bank(&self, arg: Arg) -> Option<Bank> {
        match arg {
            Arg::Reg(part) => Some(self.machine.info(part.reg).bank),
            Arg::Fixed(Operand::Scalar(_)) => Some(Bank::Scalar),
            _ => None,
        }
    }

    /// The argument in VGPRs.
    fn in_vector(&mut self, arg: Arg) -> Part {
        if let Arg::Reg(part) = arg
            && self.bank(arg) == Some(Bank::Vector)
        {
            return part;
        }
        let count = if let Arg::Reg(part) = arg { part.count } else { 1 };
        let reg = self.machine.reg(Bank::Vector, count);
        if count > 1 {
            self.block().push(Item::Undefined(reg));
        }
        for index in 0..count {
            let from = element(arg, index);
            let to = Part { reg, first: index, count: 1 };
            self.push(op::v_mov_b32, vec![Arg::Reg(to), from]);
        }
        Part { reg, first: 0, count }
    }

    /// A uniform argument in scalar registers.
    fn in_scalar(&mut self, arg: Arg) -> Arg {
        let Arg::Reg(part) = arg else { return arg };
        if self.bank(arg) == Some(Bank::Scalar) {
            return arg;
        }
        let reg = self.machine.reg(Bank::Scalar, part.count);
        let to = whole(&self.machine, reg);
        self.copy(to, arg, false);
        Arg::Reg(to)
    }

    /// A constant zero in a VGPR, the same one throughout a block.
    fn zero(&mut self) -> Part {
        let block = self.machine.blocks.len();
        if let Some((at, part)) = self.zero
            && at == block
        {
            return part;
        }
        let part = self.in_vector(Arg::Fixed(Operand::Int(0)));
        self.zero = Some((block, part));
        part
    }

    /// The registers for the result of an operation.
    fn result(&mut self, value: Value, bank: Bank) -> Part {
        let count = self.dwords(self.ty(value));
        let wanted = self.wanted[value.index()];
        if let Some(part) = wanted
            && self.machine.info(part.reg).bank == bank
            && part.count == count
        {
            return part;
        }
        if bank == Bank::Vector
            && let Some((pack, first)) = self.uses.packed[value.index()]
        {
            let reg = self.tuple(pack);
            return Part { reg, first, count };
        }
        let reg = self.machine.reg(bank, count);
        Part { reg, first: 0, count }
    }

    /// The register of a packed value.
    fn tuple(&mut self, pack: Value) -> Reg {
        if let Some(reg) = self.tuples[pack.index()] {
            return reg;
        }
        let count = self.dwords(self.ty(pack));
        let reg = match self.wanted[pack.index()] {
            Some(part) if part == whole(&self.machine, part.reg) && part.count == count => part.reg,
            _ => self.machine.reg(Bank::Vector, count),
        };
        self.block().push(Item::Undefined(reg));
        self.tuples[pack.index()] = Some(reg);
        reg
    }

    fn set(&mut self, value: Value, location: Location) {
        if let Location::Part(part) = &location
            && let Some(info) = self.machine.regs.get_mut(part.reg.index())
            && part.count == info.dwords
        {
            info.value = info.value.or(Some(value));
        }
        self.locations[value.index()] = Some(location);
    }

    /// Copies an argument to a location of the same size.
    fn copy(&mut self, to: Part, from: Arg, keeps: bool) {
        if from == Arg::Reg(to) {
            return;
        }
        for index in 0..to.count {
            let part = Part { reg: to.reg, first: to.first + index, count: 1 };
            let source = element(from, index);
            let op = match (self.machine.info(to.reg).bank, self.bank(source)) {
                (Bank::Vector, _) => op::v_mov_b32,
                // A uniform value that no scalar instruction could compute.
                (Bank::Scalar, Some(Bank::Vector)) => op::v_readfirstlane_b32,
                (Bank::Scalar, _) => op::s_mov_b32,
            };
            let mut instr = Instr::new(op, vec![Arg::Reg(part), source]);
            instr.keeps = keeps;
            self.block().push(Item::Instr(instr));
        }
    }

    /// Pushes an instruction in the first form that takes its operands, moving operands to registers as needed.
    fn emit(&mut self, mut instr: Instr, commutes: bool) -> Result<(), LegalizeError> {
        for _ in 0..6 {
            if self.fit(&mut instr, commutes) {
                self.block().push(Item::Instr(instr));
                return Ok(());
            }
            if !self.materialize(&mut instr) {
                break;
            }
        }
        Err(LegalizeError::Operands { instruction: instr.op })
    }

    /// Tries the forms of an instruction.
    fn fit(&self, instr: &mut Instr, commutes: bool) -> bool {
        let first = instr.dst_count();
        if self.encodes(instr) {
            return true;
        }
        if commutes && instr.args.len() >= first + 2 {
            instr.args.swap(first, first + 1);
            if self.encodes(instr) {
                return true;
            }
            instr.args.swap(first, first + 1);
        }
        if instr.op.row().has_two_forms() {
            instr.form = Form::Long;
            if self.encodes(instr) {
                return true;
            }
            instr.form = Form::Short;
        }
        false
    }

    /// True if the instruction set takes the operands, whatever their registers will be.
    fn encodes(&self, instr: &Instr) -> bool {
        let mut regs: Vec<Reg> = Vec::new();
        for part in
            instr.args.iter().filter_map(|arg| if let Arg::Reg(part) = arg { Some(part) } else { None })
        {
            if !regs.contains(&part.reg) {
                regs.push(part.reg);
            }
        }
        // Distinct registers get distinct numbers within reach of every encoding.
        let number = |reg: Reg| 16 * regs.iter().position(|other| *other == reg).unwrap_or(0) as u8;
        let bank = |reg: Reg| self.machine.info(reg).bank;
        let trial =
            instr.with_registers(|part| physical(bank(part.reg), number(part.reg) + part.first, part.count));
        encode(&trial, self.target).is_ok()
    }

    /// Moves one source that is no VGPR to a register; false if there is none.
    fn materialize(&mut self, instr: &mut Instr) -> bool {
        let first = instr.dst_count();
        let vector = instr.op.row().is_vector();
        let literal = |arg: &Arg| matches!(arg, Arg::Fixed(Operand::Literal(_)));
        // Literals first: they fit the fewest slots.
        let mut order: Vec<usize> = (first..instr.args.len()).collect();
        order.sort_by_key(|index| !literal(&instr.args[*index]));
        for index in order {
            let arg = instr.args[index];
            let kind = instr.op.row().src[index - first];
            let scalar_slot =
                matches!(kind.class, isa::operand_kind::Class::Scalar | isa::operand_kind::Class::Lane);
            let movable = match arg {
                Arg::Reg(part) => vector && !scalar_slot && self.machine.info(part.reg).bank == Bank::Scalar,
                Arg::Fixed(Operand::Literal(_)) => true,
                Arg::Fixed(operand) => vector && !scalar_slot && !matches!(operand, Operand::Immediate(_)),
                Arg::Block(_) => false,
            };
            if !movable || kind.class == isa::operand_kind::Class::Mask {
                continue;
            }
            instr.args[index] = if vector && !scalar_slot {
                Arg::Reg(self.in_vector(arg))
            } else {
                let reg = self.machine.reg(Bank::Scalar, 1);
                let part = Arg::Reg(whole(&self.machine, reg));
                self.push(op::s_mov_b32, vec![part, arg]);
                part
            };
            return true;
        }
        false
    }

    fn region(&mut self, region: &Region) -> Result<(), LegalizeError> {
        for node in &region.nodes {
            match node {
                Node::Op(result, operation) => self.operation(*result, operation)?,
                Node::If { condition, then, otherwise, merged } => {
                    self.branches(*condition, then, otherwise, merged)?;
                }
                Node::Loop { first, carried, body, again } => self.repeat(*first, carried, body, *again)?,
            }
        }
        Ok(())
    }

    fn operation(&mut self, result: Option<Value>, operation: &Op) -> Result<(), LegalizeError> {
        if let Some(value) = result {
            match operation {
                Op::Constant(bits) => {
                    self.set(value, Location::Constant(*bits));
                    return Ok(());
                }
                Op::Argument { offset } => {
                    self.argument(value, *offset);
                    return Ok(());
                }
                Op::WorkgroupId(axis) => {
                    self.workgroup_id(value, *axis);
                    return Ok(());
                }
                Op::WorkitemId => {
                    let part = self.result(value, Bank::Vector);
                    let id = whole(&self.machine, self.workitem);
                    let mask = Arg::Fixed(Operand::int(0x3ff));
                    self.push(op::v_and_b32, vec![Arg::Reg(part), mask, Arg::Reg(id)]);
                    self.set(value, Location::Part(part));
                    return Ok(());
                }
                _ => {}
            }
        }
        match operation {
            Op::Load(..) | Op::Store(..) | Op::Atomic(..) | Op::Fence(..) | Op::Barrier { .. } => {
                self.memory_operation(result, operation)
            }
            _ => match result {
                Some(value) => self.arithmetic(value, operation),
                None => Ok(()),
            },
        }
    }

    fn argument(&mut self, value: Value, offset: u32) {
        let wide = self
            .function
            .arguments
            .iter()
            .any(|argument| argument.offset == offset && argument.kind == ArgumentKind::Buffer);
        let part = self.result(value, Bank::Scalar);
        let load = if wide { op::s_load_b64 } else { op::s_load_b32 };
        let base = whole(&self.machine, self.kernarg);
        let args = vec![Arg::Reg(part), Arg::Reg(base), Arg::Fixed(Operand::Off)];
        let mut instr = Instr::new(load, args);
        instr.memory.offset = offset.cast_signed();
        self.block().push(Item::Instr(instr));
        self.set(value, Location::Part(part));
    }

    fn workgroup_id(&mut self, value: Value, axis: Axis) {
        if let Some(reg) = self.workgroup[axis as usize] {
            let part = whole(&self.machine, reg);
            self.set(value, Location::Part(part));
            return;
        }
        // gfx12: X in ttmp9, Y and Z in the halves of ttmp7.
        let (op, register, amount) = match axis {
            Axis::X => {
                self.set(value, Location::Fixed(Operand::Scalar(Scalar::ttmp(9, 1))));
                return;
            }
            Axis::Y => (op::s_and_b32, Scalar::ttmp(7, 1), 0xffff),
            Axis::Z => (op::s_lshr_b32, Scalar::ttmp(7, 1), 16),
        };
        let part = self.result(value, Bank::Scalar);
        let args =
            vec![Arg::Reg(part), Arg::Fixed(Operand::Scalar(register)), Arg::Fixed(Operand::int(amount))];
        self.push(op, args);
        self.set(value, Location::Part(part));
    }
}

/// One dword of an argument.
fn element(arg: Arg, index: u8) -> Arg {
    match arg {
        Arg::Reg(part) => Arg::Reg(Part { reg: part.reg, first: part.first + index, count: 1 }),
        other => other,
    }
}
