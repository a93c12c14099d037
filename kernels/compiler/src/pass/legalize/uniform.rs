//! Conditions combined, and 64-bit arithmetic on uniform values.
//!
//! A varying condition is a mask of lanes in an SGPR; a uniform one is a comparison that sets SCC, or a mask that is
//! zero where it does not hold.

use super::{LegalizeError, Location, Lower, element, whole};
use crate::ir::{Elem, Logic, Op, Value};
use crate::machine::{Arg, Bank, Instr, Item, Part};
use alloc::vec;
use doorbell_isa::{Generation, Operand, op};

const ZERO: Arg = Arg::Fixed(Operand::Int(0));
const ONES: Arg = Arg::Fixed(Operand::Int(-1));

impl Lower<'_> {
    /// A condition as a mask: not zero in the active lanes where it holds.
    pub(super) fn mask(&mut self, condition: Value, operation: &Op) -> Result<Arg, LegalizeError> {
        match self.location(condition).cloned() {
            Some(Location::Part(part)) => Ok(Arg::Reg(part)),
            Some(Location::Compare(compare, args)) => {
                self.compare(compare, args)?;
                let mask = self.scalar_reg();
                self.push(op::s_cselect_b32, vec![Arg::Reg(mask), ONES, ZERO]);
                Ok(Arg::Reg(mask))
            }
            _ => Err(Self::misplaced(operation)),
        }
    }

    fn scalar_reg(&mut self) -> Part {
        let reg = self.machine.reg(Bank::Scalar, 1);
        whole(&self.machine, reg)
    }

    pub(super) fn logic(
        &mut self,
        value: Value,
        logic: Logic,
        values: &[Value],
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let mut masks = vec![];
        for operand in values {
            masks.push(self.mask(*operand, operation)?);
        }
        let uniform = self.ty(value).uniform;
        if let (true, [mask], Logic::Not) = (uniform, &masks[..], logic) {
            self.set(value, Location::Compare(op::s_cmp_eq_u32, [*mask, ZERO]));
            return Ok(());
        }
        let part = self.scalar_reg();
        let op = match logic {
            Logic::And => op::s_and_b32,
            Logic::Or => op::s_or_b32,
            Logic::Not => {
                // Only active lanes: a mask may be tested as a whole.
                masks.insert(0, Arg::Fixed(Operand::EXEC_LO));
                op::s_and_not1_b32
            }
        };
        masks.insert(0, Arg::Reg(part));
        self.push(op, masks);
        let uniform_location = Location::Compare(op::s_cmp_lg_u32, [Arg::Reg(part), ZERO]);
        self.set(value, if uniform { uniform_location } else { Location::Part(part) });
        Ok(())
    }

    /// Result of a 64-bit operation, written dword by dword.
    fn wide_result(&mut self, value: Value) -> [Arg; 2] {
        let part = self.result(value, Bank::Scalar);
        if self.wanted[value.index()].is_none() {
            self.block().push(Item::Undefined(part.reg));
        }
        self.set(value, Location::Part(part));
        [element(Arg::Reg(part), 0), element(Arg::Reg(part), 1)]
    }

    pub(super) fn wide_add(
        &mut self,
        value: Value,
        a: Value,
        b: Value,
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let wide = self.ty(b).elem == Elem::Wide;
        let (a, b) = (self.arg(a, operation)?, self.arg(b, operation)?);
        let (a, b) = (self.in_scalar(a), self.in_scalar(b));
        let high = if wide { element(b, 1) } else { ZERO };
        let gfx12 = self.target.generation() == Generation::Gfx12;
        let (add, carry) =
            if gfx12 { (op::s_add_co_u32, op::s_add_co_ci_u32) } else { (op::s_add_u32, op::s_addc_u32) };
        let to = self.wide_result(value);
        self.push(add, vec![to[0], element(a, 0), element(b, 0)]);
        self.push(carry, vec![to[1], element(a, 1), high]);
        Ok(())
    }

    pub(super) fn wide_mul(
        &mut self,
        value: Value,
        a: Value,
        b: Value,
        operation: &Op,
    ) -> Result<(), LegalizeError> {
        let (a, b) = (self.arg(a, operation)?, self.arg(b, operation)?);
        let (a, b) = (self.in_scalar(a), self.in_scalar(b));
        let to = self.wide_result(value);
        self.emit(Instr::new(op::s_mul_i32, vec![to[0], a, b]), true)?;
        self.emit(Instr::new(op::s_mul_hi_u32, vec![to[1], a, b]), true)
    }
}
