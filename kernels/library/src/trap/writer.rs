//! Instructions that parts of the handler have in common, and branches between its blocks.

use crate::trap::layout::{CAUSE, DOORBELL_BITS, MESSAGE, PC, PC_HIGH};
use alloc::vec::Vec;
use doorbell_compiler::CompileError;
use doorbell_compiler::isa::{Generation, Inst, Op, Operand, Scalar, Target, encode, op};
use doorbell_compiler::machine::{BlockId, Line};
use doorbell_compiler::pass::emit;

/// Placeholder for a distance that is not known yet.
pub(crate) const UNKNOWN: Operand = Operand::Int(-1);

/// Blocks of the handler, in the order of the code.
#[derive(Clone, Copy)]
pub(crate) enum Block {
    Entry,
    Report,
    NotViolation,
    NotAperture,
    NotIllegal,
    NotAbort,
    Record,
    Leave,
    Parked,
}

pub(crate) const BLOCKS: usize = Block::Parked as usize + 1;

/// Builds the code block by block.
pub(crate) struct Writer {
    pub(crate) target: Target,
    pub(crate) blocks: Vec<Vec<Line>>,
}

pub(crate) fn ttmp(first: u8) -> Operand {
    Operand::Scalar(Scalar::ttmp(first, 1))
}

pub(crate) fn pair(first: u8) -> Operand {
    Operand::Scalar(Scalar::ttmp(first, 2))
}

/// A field of a hardware register: number, lowest bit, width.
pub(crate) fn field((number, low, width): (u32, u32, u32)) -> Operand {
    Operand::Immediate((number | low << 6 | (width - 1) << 11).cast_signed())
}

/// A field for `s_bfe`: lowest bit, width.
pub(crate) fn bits((low, width): (u32, u32)) -> Operand {
    Operand::Literal(low | width << 16)
}

impl Writer {
    pub(crate) fn add<const N: usize>(&mut self, op: Op, operands: [Operand; N]) {
        self.line(Inst::new(op, operands), None);
    }

    pub(crate) fn branch(&mut self, op: Op, to: Block) {
        self.line(Inst::new(op, [Operand::Immediate(0)]), Some(BlockId(to as u32)));
    }

    pub(crate) fn line(&mut self, inst: Inst, to: Option<BlockId>) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(Line::Inst(inst, to));
        }
    }

    pub(crate) fn begin(&mut self, block: Block) {
        debug_assert_eq!(self.blocks.len(), block as usize, "blocks in order");
        self.blocks.push(Vec::new());
    }

    pub(crate) fn is_gfx12(&self) -> bool {
        self.target.generation() == Generation::Gfx12
    }

    /// Waits for every memory operation and message.
    pub(crate) fn wait(&mut self) {
        let zero = Operand::Immediate(0);
        if self.is_gfx12() {
            self.add(op::s_wait_loadcnt, [zero]);
            self.add(op::s_wait_storecnt, [zero]);
            self.add(op::s_wait_dscnt, [zero]);
            self.add(op::s_wait_kmcnt, [zero]);
        } else {
            self.add(op::s_waitcnt, [zero]);
            self.add(op::s_waitcnt_vscnt, [Operand::NULL, zero]);
        }
    }

    /// Lets scalar results settle: on gfx12 nothing else orders them where vector instructions have read the registers.
    pub(crate) fn settle(&mut self) {
        if self.is_gfx12() {
            self.add(op::s_wait_alu, [Operand::Immediate(0)]);
        }
    }

    /// Adds to the 64-bit program counter.
    pub(crate) fn advance(&mut self, by: Operand) {
        let (add, carry) = if self.is_gfx12() {
            (op::s_add_co_u32, op::s_add_co_ci_u32)
        } else {
            (op::s_add_u32, op::s_addc_u32)
        };
        self.add(add, [ttmp(PC), ttmp(PC), by]);
        self.settle();
        self.add(carry, [ttmp(PC_HIGH), ttmp(PC_HIGH), Operand::Int(0)]);
    }

    /// Adds `exception` to the message.
    pub(crate) fn report_exception(&mut self, exception: i8) {
        let bit = Operand::Int(DOORBELL_BITS + exception - 1);
        self.add(op::s_bitset1_b32, [ttmp(MESSAGE), bit]);
    }

    /// Reports `exception` if `bit` is among the flags; goes on at `next` otherwise.
    pub(crate) fn report_exception_if(&mut self, bit: i8, exception: i8, next: Block) {
        self.add(op::s_bitcmp1_b32, [ttmp(CAUSE), Operand::Int(bit)]);
        self.branch(op::s_cbranch_scc0, next);
        self.report_exception(exception);
    }

    /// Puts the distance to the parked waves into the addition after `s_getpc_b64`.
    pub(crate) fn patch_distance(&mut self) -> Result<(), CompileError> {
        let mut at = 0u32;
        let (mut from, mut parked) = (0, 0);
        for (index, block) in self.blocks.iter().enumerate() {
            if index == Block::Parked as usize {
                parked = at;
            }
            for line in block {
                let Line::Inst(inst, _) = line else { continue };
                let code = encode(inst, self.target);
                let code = code.map_err(|error| CompileError::Emit(emit::EmitError::Encode(error)))?;
                at += 4 * code.words().len() as u32;
                if inst.op == op::s_getpc_b64 {
                    from = at;
                }
            }
        }
        let bytes = parked - from;
        let distance = i8::try_from(bytes).ok().filter(|&distance| distance <= 64);
        let too_far = CompileError::Emit(emit::EmitError::Distance { dwords: i64::from(bytes / 4) });
        let distance = Operand::Int(distance.ok_or(too_far)?);
        for line in &mut self.blocks[Block::Record as usize] {
            if let Line::Inst(inst, _) = line {
                let unknown = inst.operands.as_mut_slice().iter_mut().filter(|operand| **operand == UNKNOWN);
                unknown.for_each(|operand| *operand = distance);
            }
        }
        Ok(())
    }
}
