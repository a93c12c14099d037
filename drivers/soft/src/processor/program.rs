//! Decoded programs: every instruction is decoded once and kept until its bytes change.
//!
//! Not here: execution.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use doorbell_isa::{Format, Op, Target, decode};

use super::fault::Cause;
use super::handler::{Instruction, Run};
use super::{memory_ops, scalar, vector};
use crate::memory::{Access, Space};

/// Dwords of the longest instruction.
const LONGEST: usize = 4;
/// Dwords decoded per block of the cache.
const BLOCK: u64 = 1024;

fn handler(inst: &doorbell_isa::Inst) -> Option<Run> {
    match inst.row().format {
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => scalar::find(inst.op),
        Format::Smem | Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf => {
            memory_ops::find(inst.op)
        }
        _ => vector::find(inst),
    }
}

/// True if the processor executes an instruction of the table.
pub fn supports(op: Op) -> bool {
    handler(&doorbell_isa::Inst::new(op, [])).is_some()
}

struct Block {
    base: u64,
    words: Vec<u32>,
    /// Index into the instructions plus one, by dword; 0 is not decoded.
    index: Vec<u32>,
}

/// Decoded instructions of one block.
pub(crate) struct DecodedBlock<'a> {
    base: u64,
    index: &'a [u32],
    instructions: &'a [Instruction],
}

impl DecodedBlock<'_> {
    /// The instruction at an address; `None` if it lies elsewhere or is not decoded.
    #[inline]
    pub(crate) fn instruction(&self, pc: u64) -> Option<&Instruction> {
        let distance = pc.wrapping_sub(self.base);
        let known = self.index.get(usize::try_from(distance / 4).ok()?)?;
        if !distance.is_multiple_of(4) {
            return None;
        }
        self.instructions.get((*known as usize).wrapping_sub(1))
    }
}

/// All decoded code of one chip.
pub(crate) struct Program {
    target: Target,
    blocks: Vec<Block>,
    last: usize,
    instructions: Vec<Instruction>,
    /// True if groups that start here depend on each other, by entry.
    pub(super) dependent: BTreeMap<u64, bool>,
}

impl Program {
    /// Nothing decoded.
    pub(crate) fn new(target: Target) -> Self {
        Self { target, blocks: Vec::new(), last: 0, instructions: Vec::new(), dependent: BTreeMap::new() }
    }

    /// Removes all blocks if bytes have changed, as an instruction cache invalidation at a packet does.
    pub(crate) fn revalidate(&mut self, space: &mut Space) {
        let same = self.blocks.iter().all(|block| {
            let mut now = vec![0; block.words.len() * 4];
            let readable = space.read(block.base, &mut now).is_ok();
            let words = now.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            readable && words.eq(block.words.iter().copied())
        });
        if !same {
            self.blocks.clear();
            self.instructions.clear();
            self.dependent.clear();
            self.last = 0;
        }
    }

    /// Adds every instruction that was decoded.
    pub(crate) fn collect(&self, executed: &mut BTreeSet<Op>) {
        for instruction in &self.instructions {
            let inst = &instruction.step.inst;
            executed.insert(inst.op);
            executed.extend(inst.second.map(|(op, _)| op));
        }
    }

    fn block(&mut self, pc: u64, space: &mut Space) -> Result<usize, Cause> {
        let base = pc & !(BLOCK * 4 - 1);
        if self
            .blocks
            .get(self.last)
            .is_some_and(|block| block.base <= pc && pc - block.base < block.words.len() as u64 * 4)
        {
            return Ok(self.last);
        }
        let inside = |block: &Block| block.base <= pc && pc - block.base < block.words.len() as u64 * 4;
        if let Some(found) = self.blocks.iter().position(inside) {
            self.last = found;
            return Ok(found);
        }
        let mut words = Vec::new();
        // A block reaches as far as the mapping does, on either side of the program counter.
        let mut start = pc;
        while start > base && space.check(start - 4, 4, Access::Execute).is_ok() {
            start -= 4;
        }
        let end = base + BLOCK * 4;
        let mut at = start;
        while at < end {
            match space.check(at, 4, Access::Execute).and_then(|()| space.load32(at)) {
                Ok(word) => words.push(word),
                Err(fault) if at == pc => return Err(fault.into()),
                Err(_) => break,
            }
            at += 4;
        }
        let index = vec![0; words.len()];
        self.blocks.push(Block { base: start, words, index });
        self.last = self.blocks.len() - 1;
        Ok(self.last)
    }

    /// The instruction at an address.
    #[inline]
    pub(crate) fn fetch(&mut self, pc: u64, space: &mut Space) -> Result<&Instruction, Cause> {
        if !pc.is_multiple_of(4) {
            return Err(Cause::Unsupported("misaligned program counter"));
        }
        let block = self.block(pc, space)?;
        let block = &self.blocks[block];
        let at = ((pc - block.base) / 4) as usize;
        let known = block.index[at];
        if known != 0 {
            return Ok(&self.instructions[known as usize - 1]);
        }
        self.decode(pc, at, space)
    }

    /// The block of the last fetch.
    pub(crate) fn block_of_last_fetch(&self) -> DecodedBlock<'_> {
        let block = &self.blocks[self.last];
        DecodedBlock { base: block.base, index: &block.index, instructions: &self.instructions }
    }

    #[cold]
    fn decode(&mut self, pc: u64, at: usize, space: &mut Space) -> Result<&Instruction, Cause> {
        let block = &self.blocks[self.last];
        let mut words: Vec<u32> = block.words[at..].iter().take(LONGEST).copied().collect();
        while words.len() < LONGEST {
            match space.load32(pc + 4 * words.len() as u64) {
                Ok(word) => words.push(word),
                Err(_) => break,
            }
        }
        let (inst, length) = decode(&words, self.target).map_err(Cause::Illegal)?;
        let run = handler(&inst).ok_or(Cause::Unsupported("instruction without a handler"))?;
        let words = u8::try_from(length).map_err(|_| Cause::Unsupported("overlong instruction"))?;
        self.instructions.push(Instruction::new(inst, pc, words, run, self.target));
        let number = u32::try_from(self.instructions.len()).map_err(|_| Cause::Budget)?;
        self.blocks[self.last].index[at] = number;
        Ok(&self.instructions[number as usize - 1])
    }
}
