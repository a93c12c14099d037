//! Machine code with virtual registers: what the passes after legalization work on.
//!
//! Blocks lie in the order of execution when no branch is taken. Not here: the passes.

use crate::ir::Value;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{
    Flags, Form, Inst, Lanes, Memory, Modifiers, Op, Operand, Operands, Scalar, Target, Vgpr,
};

/// A virtual register (of one or more dwords).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(pub u32);

impl Reg {
    /// Index into [`Machine::regs`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Register file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bank {
    /// VGPRs.
    Vector,
    /// SGPRs.
    Scalar,
}

/// Description of a virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegInfo {
    /// Register file.
    pub bank: Bank,
    /// Size.
    pub dwords: u8,
    /// Physical register that the hardware fills at the start.
    pub fixed: Option<u8>,
    /// The value of the function that it holds, for messages.
    pub value: Option<Value>,
}

/// A block, by its index in the layout.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u32);

impl BlockId {
    /// Index into [`Machine::blocks`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Part of a virtual register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Part {
    /// The register.
    pub reg: Reg,
    /// First dword.
    pub first: u8,
    /// Dwords.
    pub count: u8,
}

/// Operand of a machine instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// Virtual register or part of one.
    Reg(Part),
    /// Anything that is not allocated.
    Fixed(Operand),
    /// Branch target.
    Block(BlockId),
}

/// Waits that memory ordering needs, as far as operations are outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Release {
    /// Vector-memory loads and stores.
    pub global: bool,
    /// LDS.
    pub lds: bool,
}

/// A machine instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instr {
    /// Operation.
    pub op: Op,
    /// Encoding.
    pub form: Form,
    /// Operands in text order.
    pub args: Vec<Arg>,
    /// Arithmetic modifiers.
    pub modifiers: Modifiers,
    /// Lane moves.
    pub lanes: Lanes,
    /// Address modifiers.
    pub memory: Memory,
    /// The destination keeps what it had in inactive lanes, and that is needed.
    pub keeps: bool,
    /// Second half of a dual-issue instruction.
    pub second: Option<(Op, Vec<Arg>)>,
}

/// One line of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// An instruction.
    Instr(Instr),
    /// From here the register holds anything; its parts are written one by one.
    Undefined(Reg),
    /// Waits for earlier memory operations.
    Release(Release),
}

/// Straight-line code; control enters at the top and leaves at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Lines.
    pub items: Vec<Item>,
}

/// Registers that the hardware fills when a wave starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// User SGPRs, padding included.
    pub user_sgprs: u8,
    /// Workgroup ids along X, Y, Z that the hardware is asked for.
    pub workgroup_ids: [bool; 3],
}

/// A function in machine form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// The chip.
    pub target: Target,
    /// Virtual registers.
    pub regs: Vec<RegInfo>,
    /// Blocks in layout order.
    pub blocks: Vec<Block>,
    /// Initial state.
    pub entry: Entry,
}

impl Instr {
    /// An instruction without modifiers.
    pub fn new(op: Op, args: Vec<Arg>) -> Self {
        Self {
            op,
            form: Form::Short,
            args,
            modifiers: Modifiers::default_of(op.row()),
            lanes: Lanes::Own,
            memory: Memory::PLAIN,
            keeps: false,
            second: None,
        }
    }

    /// Destinations present.
    pub fn dst_count(&self) -> usize {
        let row = self.op.row();
        let absent =
            row.has(Flags::ATOMIC) && row.format != doorbell_isa::Format::Ds && !self.memory.cache.returns();
        if absent { 0 } else { row.dst.len() }
    }

    /// Register parts written, with whether their old content matters.
    pub fn defs(&self) -> Vec<(Part, bool)> {
        let mut list = Vec::new();
        let mut add = |op: Op, args: &[Arg], count: usize| {
            let keeps = self.keeps || op.row().has(Flags::READS_DST);
            for arg in args.iter().take(count) {
                if let Arg::Reg(part) = arg {
                    list.push((*part, keeps));
                }
            }
        };
        add(self.op, &self.args, self.dst_count());
        if let Some((op, args)) = &self.second {
            add(*op, args, op.row().dst.len());
        }
        list
    }

    /// Register parts read (kept destinations among them).
    pub fn uses(&self) -> Vec<Part> {
        let mut list = Vec::new();
        let mut add = |op: Op, args: &[Arg], count: usize| {
            let keeps = self.keeps || op.row().has(Flags::READS_DST);
            for (index, arg) in args.iter().enumerate() {
                if let Arg::Reg(part) = arg
                    && (index >= count || keeps)
                {
                    list.push(*part);
                }
            }
        };
        add(self.op, &self.args, self.dst_count());
        if let Some((op, args)) = &self.second {
            add(*op, args, op.row().dst.len());
        }
        list
    }

    /// Branch target.
    pub fn target(&self) -> Option<BlockId> {
        self.args.iter().find_map(|arg| if let Arg::Block(block) = arg { Some(*block) } else { None })
    }

    /// True if control may go on to the next instruction.
    pub fn falls_through(&self) -> bool {
        self.op != doorbell_isa::op::s_branch && !self.op.row().has(Flags::ENDS)
    }

    /// The instruction with every register replaced by `operand_of`, branches by distance 0.
    pub fn with_registers(&self, operand_of: impl Fn(Part) -> Operand) -> Inst {
        let map = |args: &[Arg]| {
            let mut list = Operands::EMPTY;
            for arg in args {
                list.push(match arg {
                    Arg::Reg(part) => operand_of(*part),
                    Arg::Fixed(operand) => *operand,
                    Arg::Block(_) => Operand::Immediate(0),
                });
            }
            list
        };
        Inst {
            op: self.op,
            form: self.form,
            operands: map(&self.args),
            modifiers: self.modifiers,
            lanes: self.lanes,
            memory: self.memory,
            second: self.second.as_ref().map(|(op, args)| (*op, map(args))),
        }
    }
}

impl Machine {
    /// An empty function with one block.
    pub fn new(target: Target) -> Self {
        Self { target, regs: Vec::new(), blocks: vec![Block::default()], entry: Entry::default() }
    }

    /// A new virtual register.
    pub fn reg(&mut self, bank: Bank, dwords: u8) -> Reg {
        self.regs.push(RegInfo { bank, dwords, fixed: None, value: None });
        Reg(self.regs.len() as u32 - 1)
    }

    /// A register's description.
    pub fn info(&self, reg: Reg) -> RegInfo {
        self.regs[reg.index()]
    }

    /// Blocks that may follow a block.
    pub fn successors(&self, block: BlockId) -> Vec<BlockId> {
        let mut list = Vec::new();
        let mut through = true;
        for item in &self.blocks[block.index()].items {
            if let Item::Instr(instr) = item {
                list.extend(instr.target());
                through = instr.falls_through();
            }
        }
        let next = BlockId(block.0 + 1);
        if through && next.index() < self.blocks.len() {
            list.push(next);
        }
        list
    }
}

/// Operand of physical registers.
pub fn physical(bank: Bank, first: u8, count: u8) -> Operand {
    match bank {
        Bank::Vector => Operand::Vgpr(Vgpr { first, count }),
        Bank::Scalar => Operand::Scalar(Scalar { first, count }),
    }
}

/// A line of allocated code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// An instruction, with its target if it branches.
    Inst(Inst, Option<BlockId>),
    /// Waits for earlier memory operations.
    Release(Release),
}

/// A function in physical registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Physical {
    /// The chip.
    pub target: Target,
    /// Blocks in layout order.
    pub blocks: Vec<Vec<Line>>,
}

impl Physical {
    /// Blocks that may follow a block.
    pub fn successors(&self, block: usize) -> Vec<usize> {
        let mut list = Vec::new();
        let mut through = true;
        for line in &self.blocks[block] {
            if let Line::Inst(inst, branch) = line {
                list.extend(branch.map(BlockId::index));
                through = inst.op != doorbell_isa::op::s_branch && !inst.row().has(Flags::ENDS);
            }
        }
        if through && block + 1 < self.blocks.len() {
            list.push(block + 1);
        }
        list
    }
}

/// Runs a forward data-flow analysis over `blocks` blocks to its fixed point: the state at the start of each block.
///
/// `step` gives the state after a block; `join` merges a state into another and says whether that changed. Blocks
/// that nothing reaches keep `None`.
pub fn forward<S: Clone>(
    blocks: usize,
    start: S,
    mut step: impl FnMut(usize, S) -> S,
    mut successors: impl FnMut(usize) -> Vec<usize>,
    mut join: impl FnMut(&mut S, &S) -> bool,
) -> Vec<Option<S>> {
    let mut states: Vec<Option<S>> = vec![None; blocks];
    let mut pending: Vec<usize> = Vec::new();
    if let Some(slot) = states.first_mut() {
        *slot = Some(start);
        pending.push(0);
    }
    while let Some(block) = pending.pop() {
        let Some(state) = states[block].clone() else { continue };
        let after = step(block, state);
        for next in successors(block) {
            let changed = match &mut states[next] {
                Some(state) => join(state, &after),
                slot => {
                    *slot = Some(after.clone());
                    true
                }
            };
            if changed && !pending.contains(&next) {
                pending.push(next);
            }
        }
    }
    states
}
