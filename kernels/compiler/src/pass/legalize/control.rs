//! Branches and loops: uniform conditions jump, others mask lanes.

use super::{LegalizeError, Location, Lower, whole};
use crate::ir::{Carried, Merged, Op, Region, Value};
use crate::machine::{Arg, Bank, BlockId, Item, Part};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{self as isa, Operand, Scalar, op};

const EXEC: Arg = Arg::Fixed(Operand::Scalar(Scalar::EXEC_LO));

impl Lower<'_> {
    /// Pushes a branch whose target is set later; the result is its location.
    fn branch(&mut self, op: isa::Op) -> (usize, usize) {
        self.push(op, vec![Arg::Block(BlockId(0))]);
        let block = self.machine.blocks.len() - 1;
        (block, self.machine.blocks[block].items.len() - 1)
    }

    fn aim(&mut self, branch: (usize, usize), to: BlockId) {
        if let Some(Item::Instr(instr)) = self.machine.blocks[branch.0].items.get_mut(branch.1) {
            instr.args = vec![Arg::Block(to)];
        }
    }

    pub(super) fn branches(
        &mut self,
        condition: Value,
        then: &Region,
        otherwise: &Region,
        merged: &[Merged],
    ) -> Result<(), LegalizeError> {
        let Some(location) = self.location(condition).cloned() else {
            return Err(Self::misplaced(&Op::FirstLane(condition)));
        };
        let lanes = !matches!(location, Location::Compare(..));
        let mut results = Vec::new();
        for merge in merged {
            let ty = self.ty(merge.result);
            let bank = if ty.uniform && !lanes { Bank::Scalar } else { Bank::Vector };
            let dwords = self.dwords(ty);
            let reg = self.machine.reg(bank, dwords);
            self.block().push(Item::Undefined(reg));
            results.push(whole(&self.machine, reg));
        }
        match location {
            Location::Compare(op, args) => {
                self.compare(op, args)?;
                let skip = self.branch(op::s_cbranch_scc0);
                self.next_block();
                self.region(then)?;
                self.merge(merged, &results, |merge| merge.then, false)?;
                let end = self.branch(op::s_branch);
                let second = self.next_block();
                self.aim(skip, second);
                self.region(otherwise)?;
                self.merge(merged, &results, |merge| merge.otherwise, false)?;
                let after = self.next_block();
                self.aim(end, after);
            }
            _ => {
                let Location::Part(mask) = location else {
                    return Err(Self::misplaced(&Op::FirstLane(condition)));
                };
                self.masked(mask, then, otherwise, merged, &results)?;
            }
        }
        for (merge, part) in merged.iter().zip(results) {
            self.set(merge.result, Location::Part(part));
        }
        Ok(())
    }

    fn masked(
        &mut self,
        mask: Part,
        then: &Region,
        otherwise: &Region,
        merged: &[Merged],
        results: &[Part],
    ) -> Result<(), LegalizeError> {
        let saved = self.machine.reg(Bank::Scalar, 1);
        let saved = Arg::Reg(whole(&self.machine, saved));
        self.push(op::s_and_saveexec_b32, vec![saved, Arg::Reg(mask)]);
        let skip = self.branch(op::s_cbranch_execz);
        self.next_block();
        self.region(then)?;
        self.merge(merged, results, |merge| merge.then, true)?;
        let second = self.next_block();
        self.aim(skip, second);
        if !otherwise.nodes.is_empty() || !merged.is_empty() {
            // The lanes that were active and did not take the first branch.
            self.push(op::s_xor_b32, vec![EXEC, EXEC, saved]);
            let skip = self.branch(op::s_cbranch_execz);
            self.next_block();
            self.region(otherwise)?;
            self.merge(merged, results, |merge| merge.otherwise, true)?;
            let after = self.next_block();
            self.aim(skip, after);
        }
        self.push(op::s_mov_b32, vec![EXEC, saved]);
        Ok(())
    }

    fn merge(
        &mut self,
        merged: &[Merged],
        results: &[Part],
        side: impl Fn(&Merged) -> Value,
        keeps: bool,
    ) -> Result<(), LegalizeError> {
        for (merge, part) in merged.iter().zip(results) {
            let arg = self.arg(side(merge), &Op::FirstLane(merge.result))?;
            self.copy(*part, arg, keeps);
        }
        Ok(())
    }

    pub(super) fn repeat(
        &mut self,
        first: Option<Value>,
        carried: &[Carried],
        body: &Region,
        again: Value,
    ) -> Result<(), LegalizeError> {
        let mut parts = Vec::new();
        for value in carried {
            let ty = self.ty(value.inside);
            let initial = self.arg(value.initial, &Op::FirstLane(value.inside))?;
            let bank = if ty.uniform { Bank::Scalar } else { Bank::Vector };
            let part = match initial {
                Arg::Reg(part) if self.uses.begins(value.initial) && self.is_whole(part, bank) => part,
                _ => self.fresh_copy(initial, bank, self.dwords(ty)),
            };
            self.set(value.inside, Location::Part(part));
            if self.uses.in_place(value, carried, body) {
                self.wanted[value.next.index()] = Some(part);
            }
            parts.push(part);
        }
        let operation = Op::FirstLane(again);
        let lanes = !self.ty(again).uniform;
        // Lanes that leave the loop one by one come back behind it.
        let saved = lanes.then(|| self.machine.reg(Bank::Scalar, 1));
        let saved = saved.map(|reg| Arg::Reg(whole(&self.machine, reg)));
        let skip = self.enter(first, saved, &operation)?;
        let head = self.next_block();
        self.region(body)?;
        if let Some(saved) = saved {
            let mask = self.mask(again, &operation)?;
            self.carry(carried, &parts)?;
            self.push(op::s_and_b32, vec![EXEC, EXEC, mask]);
            let back = self.branch(op::s_cbranch_execnz);
            self.aim(back, head);
            self.leave(skip, carried, &parts);
            self.push(op::s_mov_b32, vec![EXEC, saved]);
            return Ok(());
        }
        // Before the moves: the condition may read current values. Moves leave SCC alone.
        match self.location(again).cloned() {
            Some(Location::Compare(op, args)) => self.compare(op, args)?,
            // Compared in VGPRs: the mask of active lanes is all or nothing.
            Some(Location::Part(mask)) => {
                self.compare(op::s_cmp_lg_u32, [Arg::Reg(mask), Arg::Fixed(Operand::Int(0))])?;
            }
            _ => return Err(Self::misplaced(&operation)),
        }
        self.carry(carried, &parts)?;
        let back = self.branch(op::s_cbranch_scc1);
        self.aim(back, head);
        self.leave(skip, carried, &parts);
        Ok(())
    }

    fn is_whole(&self, part: Part, bank: Bank) -> bool {
        part == whole(&self.machine, part.reg) && self.machine.info(part.reg).bank == bank
    }

    /// A new register with the content of an argument.
    fn fresh_copy(&mut self, from: Arg, bank: Bank, dwords: u8) -> Part {
        let reg = self.machine.reg(bank, dwords);
        if dwords > 1 {
            self.block().push(Item::Undefined(reg));
        }
        let part = whole(&self.machine, reg);
        self.copy(part, from, false);
        part
    }

    /// The condition for the first trip: the branch past the loop, if there is one. `saved` takes EXEC.
    fn enter(
        &mut self,
        first: Option<Value>,
        saved: Option<Arg>,
        operation: &Op,
    ) -> Result<Option<(usize, usize)>, LegalizeError> {
        match (first, saved) {
            (None, None) => Ok(None),
            (None, Some(saved)) => {
                self.push(op::s_mov_b32, vec![saved, EXEC]);
                Ok(None)
            }
            (Some(first), Some(saved)) => {
                let mask = self.mask(first, operation)?;
                self.push(op::s_and_saveexec_b32, vec![saved, mask]);
                Ok(Some(self.branch(op::s_cbranch_execz)))
            }
            (Some(first), None) => {
                match self.location(first).cloned() {
                    Some(Location::Compare(op, args)) => self.compare(op, args)?,
                    Some(Location::Part(mask)) => {
                        self.compare(op::s_cmp_lg_u32, [Arg::Reg(mask), Arg::Fixed(Operand::Int(0))])?;
                    }
                    _ => return Err(Self::misplaced(operation)),
                }
                Ok(Some(self.branch(op::s_cbranch_scc0)))
            }
        }
    }

    /// Emits the code after a loop.
    fn leave(&mut self, skip: Option<(usize, usize)>, carried: &[Carried], parts: &[Part]) {
        let after = self.next_block();
        if let Some(skip) = skip {
            self.aim(skip, after);
        }
        for (value, part) in carried.iter().zip(parts) {
            self.set(value.result, Location::Part(*part));
        }
    }

    /// Moves the next values into the carried registers, through temporaries where they cross.
    fn carry(&mut self, carried: &[Carried], parts: &[Part]) -> Result<(), LegalizeError> {
        let mut moves = Vec::new();
        for (value, part) in carried.iter().zip(parts) {
            let arg = self.arg(value.next, &Op::FirstLane(value.inside))?;
            if arg != Arg::Reg(*part) {
                moves.push((*part, arg));
            }
        }
        let crossing = moves.iter().any(|(_, arg)| matches!(arg, Arg::Reg(part) if parts.contains(part)));
        if crossing {
            for (part, arg) in &mut moves {
                let info = self.machine.info(part.reg);
                let reg = self.machine.reg(info.bank, part.count);
                if part.count > 1 {
                    self.block().push(Item::Undefined(reg));
                }
                let temporary = whole(&self.machine, reg);
                self.copy(temporary, *arg, false);
                *arg = Arg::Reg(temporary);
            }
        }
        for (part, arg) in moves {
            self.copy(part, arg, false);
        }
        Ok(())
    }
}
