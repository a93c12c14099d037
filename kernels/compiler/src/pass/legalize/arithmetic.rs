//! Arithmetic, selection, lanes, dot products and matrices.

use super::{LegalizeError, Location, Lower, whole};
use crate::ir::{Alu, Elem, MatrixOp, Op, Value};
use crate::machine::{Arg, Bank, Instr, Item, Part};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{self as isa, Dpp16, DppControl, Form, Generation, Lanes, Operand, op};

impl Lower<'_> {
    fn available(&self, candidates: &[isa::Op]) -> Option<isa::Op> {
        candidates.iter().copied().find(|op| op.row().opcode(self.target).is_some())
    }

    pub(super) fn arithmetic(&mut self, value: Value, operation: &Op) -> Result<(), LegalizeError> {
        match operation {
            Op::Alu(alu, values) => self.alu(value, *alu, values, operation),
            Op::Select(condition, a, b) => self.select(value, [*condition, *a, *b], operation),
            Op::Extract(a, index) => {
                let location = match self.arg(*a, operation)? {
                    Arg::Reg(part) => {
                        Location::Part(Part { reg: part.reg, first: part.first + index, count: 1 })
                    }
                    Arg::Fixed(operand) => Location::Fixed(operand),
                    Arg::Block(_) => return Err(Self::misplaced(operation)),
                };
                self.set(value, location);
                Ok(())
            }
            Op::Pack(values) => self.pack(value, values, operation),
            Op::LaneXor(a, mask) => self.lane_xor(value, *a, *mask, operation),
            Op::FirstLane(_) | Op::ReadLane(..) | Op::LaneGather(..) => self.lanes(value, operation),
            Op::Logic(logic, values) => self.logic(value, *logic, values, operation),
            Op::WideAdd(a, b) => self.wide_add(value, *a, *b, operation),
            Op::WideMul(a, b) => self.wide_mul(value, *a, *b, operation),
            Op::Dot4 { signed_a, signed_b, values } => {
                let mut args = Vec::new();
                for operand in values {
                    args.push(self.arg(*operand, operation)?);
                }
                let part = self.result(value, Bank::Vector);
                args.insert(0, Arg::Reg(part));
                let mut instr = Instr::new(op::v_dot4_i32_iu8, args);
                instr.modifiers.neg = u8::from(*signed_a) | (u8::from(*signed_b) << 1);
                self.emit(instr, false)?;
                self.set(value, Location::Part(part));
                Ok(())
            }
            Op::Matrix(matrix, values) => self.matrix(value, *matrix, values, operation),
            Op::ZeroFragment => {
                let part = self.result(value, Bank::Vector);
                self.block().push(Item::Undefined(part.reg));
                self.copy(part, Arg::Fixed(Operand::Int(0)), false);
                self.set(value, Location::Part(part));
                Ok(())
            }
            other => Err(Self::misplaced(other)),
        }
    }

    fn alu(&mut self, value: Value, alu: Alu, values: &[Value], operation: &Op) -> Result<(), LegalizeError> {
        let row = alu.row();
        let mut args = Vec::new();
        for operand in values {
            args.push(self.arg(*operand, operation)?);
        }
        let scalar = self.ty(value).uniform && args.iter().all(|arg| self.bank(*arg) != Some(Bank::Vector));
        if scalar && let Some(op) = self.available(row.scalar) {
            if row.result == Elem::Bool {
                let [a, b] = args[..] else { return Err(Self::misplaced(operation)) };
                self.set(value, Location::Compare(op, [a, b]));
                return Ok(());
            }
            let part = self.result(value, Bank::Scalar);
            args.insert(0, Arg::Reg(part));
            self.emit(Instr::new(op, args), row.commutes)?;
            self.set(value, Location::Part(part));
            return Ok(());
        }
        let Some(mut op) = self.available(row.vector) else {
            return Err(LegalizeError::NoInstruction {
                operation: operation.to_string(),
                target: self.target,
            });
        };
        if row.reversed {
            args.swap(0, 1);
        }
        if row.result == Elem::Bool {
            let reg = self.machine.reg(Bank::Scalar, 1);
            let part = whole(&self.machine, reg);
            args.insert(0, Arg::Reg(part));
            let mut instr = Instr::new(op, args);
            instr.form = Form::Long;
            self.emit(instr, row.commutes)?;
            self.set(value, Location::Part(part));
            return Ok(());
        }
        let part = self.result(value, Bank::Vector);
        if alu == Alu::fma && args.get(2) == Some(&Arg::Reg(part)) {
            op = op::v_fmac_f32;
            args.truncate(2);
        }
        args.insert(0, Arg::Reg(part));
        self.emit(Instr::new(op, args), row.commutes)?;
        self.set(value, Location::Part(part));
        Ok(())
    }

    /// Repeats a uniform comparison so that SCC holds it.
    pub(super) fn compare(&mut self, op: isa::Op, args: [Arg; 2]) -> Result<(), LegalizeError> {
        self.emit(Instr::new(op, args.to_vec()), false)
    }

    fn select(&mut self, value: Value, values: [Value; 3], operation: &Op) -> Result<(), LegalizeError> {
        let a = self.arg(values[1], operation)?;
        let b = self.arg(values[2], operation)?;
        let condition = self.location(values[0]).cloned();
        let vector = [a, b].iter().any(|arg| self.bank(*arg) == Some(Bank::Vector));
        if let Some(Location::Compare(op, args)) = condition {
            self.compare(op, args)?;
            if !vector {
                let part = self.result(value, Bank::Scalar);
                self.emit(Instr::new(op::s_cselect_b32, vec![Arg::Reg(part), a, b]), false)?;
                self.set(value, Location::Part(part));
                return Ok(());
            }
            let mask = self.machine.reg(Bank::Scalar, 1);
            let mask = Arg::Reg(whole(&self.machine, mask));
            let (all, none) = (Arg::Fixed(Operand::Int(-1)), Arg::Fixed(Operand::Int(0)));
            self.push(op::s_cselect_b32, vec![mask, all, none]);
            return self.masked_select(value, mask, a, b);
        }
        let mask = self.arg(values[0], operation)?;
        self.masked_select(value, mask, a, b)
    }

    fn masked_select(&mut self, value: Value, mask: Arg, a: Arg, b: Arg) -> Result<(), LegalizeError> {
        let part = self.result(value, Bank::Vector);
        let mut instr = Instr::new(op::v_cndmask_b32, vec![Arg::Reg(part), b, a, mask]);
        instr.form = Form::Long;
        self.emit(instr, false)?;
        self.set(value, Location::Part(part));
        Ok(())
    }

    fn pack(&mut self, value: Value, values: &[Value], operation: &Op) -> Result<(), LegalizeError> {
        if let [single] = values
            && self.dwords(self.ty(*single)) == self.dwords(self.ty(value))
        {
            // The same bits under another type.
            let Some(location) = self.location(*single).cloned() else {
                return Err(Self::misplaced(operation));
            };
            self.set(value, location);
            return Ok(());
        }
        let total: u32 = values.iter().map(|element| u32::from(self.dwords(self.ty(*element)))).sum();
        if total != u32::from(self.dwords(self.ty(value))) {
            return Err(Self::misplaced(operation));
        }
        let reg = self.tuple(value);
        let mut first = 0;
        for element in values {
            let arg = self.arg(*element, operation)?;
            let count = self.dwords(self.ty(*element));
            self.copy(Part { reg, first, count }, arg, false);
            first += count;
        }
        self.set(value, Location::Part(whole(&self.machine, reg)));
        Ok(())
    }

    fn lane_xor(&mut self, value: Value, a: Value, mask: u8, operation: &Op) -> Result<(), LegalizeError> {
        let source = self.arg(a, operation)?;
        let mut source = self.in_vector(source);
        let part = self.result(value, Bank::Vector);
        let (row, half) = (mask & 15, mask & 16 != 0);
        if row != 0 {
            let to = if half { self.vector_reg() } else { part };
            let mut instr = Instr::new(op::v_mov_b32, vec![Arg::Reg(to), Arg::Reg(source)]);
            instr.lanes = Lanes::Dpp16(Dpp16 {
                control: DppControl::RowXmask(row),
                row_mask: 0xf,
                bank_mask: 0xf,
                bound_ctrl: true,
                fetch_inactive: true,
            });
            self.block().push(Item::Instr(instr));
            source = to;
        }
        if half {
            // Each lane of a row reads its own location in the other row.
            let selects =
                [0x7654_3210, 0xfedc_ba98_u32].map(|bits| Arg::Fixed(Operand::int(bits.cast_signed())));
            let args = vec![Arg::Reg(part), Arg::Reg(source), selects[0], selects[1]];
            let mut instr = Instr::new(op::v_permlanex16_b32, args);
            instr.modifiers.op_sel = 0b11;
            self.emit(instr, false)?;
        }
        self.set(value, Location::Part(part));
        Ok(())
    }

    /// Values of other lanes.
    fn lanes(&mut self, value: Value, operation: &Op) -> Result<(), LegalizeError> {
        match operation {
            Op::FirstLane(a) => {
                let source = self.arg(*a, operation)?;
                let source = self.in_vector(source);
                let part = self.result(value, Bank::Scalar);
                self.push(op::v_readfirstlane_b32, vec![Arg::Reg(part), Arg::Reg(source)]);
                self.set(value, Location::Part(part));
                Ok(())
            }
            Op::ReadLane(a, lane) => {
                let source = self.arg(*a, operation)?;
                let source = self.in_vector(source);
                let lane = self.arg(*lane, operation)?;
                let lane = self.in_scalar(lane);
                let part = self.result(value, Bank::Scalar);
                let args = vec![Arg::Reg(part), Arg::Reg(source), lane];
                self.emit(Instr::new(op::v_readlane_b32, args), false)?;
                self.set(value, Location::Part(part));
                Ok(())
            }
            Op::LaneGather(a, lane) => {
                let source = self.arg(*a, operation)?;
                let source = self.in_vector(source);
                let lane = self.arg(*lane, operation)?;
                let address = self.vector_reg();
                let args = vec![Arg::Reg(address), Arg::Fixed(Operand::Int(2)), lane];
                self.emit(Instr::new(op::v_lshlrev_b32, args), false)?;
                let part = self.result(value, Bank::Vector);
                let args = vec![Arg::Reg(part), Arg::Reg(address), Arg::Reg(source)];
                self.push(op::ds_bpermute_b32, args);
                self.set(value, Location::Part(part));
                Ok(())
            }
            other => Err(Self::misplaced(other)),
        }
    }

    /// A fresh VGPR.
    fn vector_reg(&mut self) -> Part {
        let reg = self.machine.reg(Bank::Vector, 1);
        whole(&self.machine, reg)
    }

    fn matrix(
        &mut self,
        value: Value,
        matrix: MatrixOp,
        values: &[Value; 3],
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let gfx12 = self.target.generation() == Generation::Gfx12;
        let op = match (matrix, gfx12) {
            (MatrixOp::Half, false) => op::v_wmma_f32_16x16x16_f16,
            (MatrixOp::Half, true) => op::v_wmma_f32_16x16x16_f16_gfx12,
            (MatrixOp::Byte { .. }, false) => op::v_wmma_i32_16x16x16_iu8,
            (MatrixOp::Byte { .. }, true) => op::v_wmma_i32_16x16x16_iu8_gfx12,
        };
        let mut args = Vec::new();
        for operand in values {
            args.push(self.arg(*operand, operation)?);
        }
        let part = self.result(value, Bank::Vector);
        args.insert(0, Arg::Reg(part));
        let mut instr = Instr::new(op, args);
        if let MatrixOp::Byte { signed_a, signed_b } = matrix {
            instr.modifiers.neg = u8::from(signed_a) | (u8::from(signed_b) << 1);
        }
        self.emit(instr, false)?;
        self.set(value, Location::Part(part));
        Ok(())
    }
}
