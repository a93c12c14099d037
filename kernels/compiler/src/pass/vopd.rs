//! VOPD: joins neighboring vector instructions into dual-issue pairs.
//!
//! Both halves read before either writes, so the second may not read the first's result. Register rules are asked
//! of the instruction set. Not here: bringing candidates together (the scheduler's order decides).

use crate::machine::{Line, Physical};
use alloc::vec::Vec;
use doorbell_isa::{Effects, Form, Inst, Lanes, Op, Operands, Resource, Vgpr, encode, op};

/// Instruction and its dual-issue half.
static HALVES: [(Op, Op); 13] = [
    (op::v_fmac_f32, op::v_dual_fmac_f32),
    (op::v_mul_f32, op::v_dual_mul_f32),
    (op::v_add_f32, op::v_dual_add_f32),
    (op::v_sub_f32, op::v_dual_sub_f32),
    (op::v_subrev_f32, op::v_dual_subrev_f32),
    (op::v_mov_b32, op::v_dual_mov_b32),
    (op::v_max_f32, op::v_dual_max_f32),
    (op::v_min_f32, op::v_dual_min_f32),
    (op::v_max_num_f32, op::v_dual_max_num_f32),
    (op::v_min_num_f32, op::v_dual_min_num_f32),
    (op::v_add_nc_u32, op::v_dual_add_nc_u32),
    (op::v_lshlrev_b32, op::v_dual_lshlrev_b32),
    (op::v_and_b32, op::v_dual_and_b32),
];

/// Joins pairs in every block.
pub fn pair(code: &mut Physical) {
    let target = code.target;
    for block in &mut code.blocks {
        let mut lines: Vec<Line> = Vec::with_capacity(block.len());
        for line in block.drain(..) {
            if let (Some(Line::Inst(first, None)), Line::Inst(second, None)) = (lines.last(), &line)
                && let Some(dual) = join(first, second, target)
            {
                lines.pop();
                lines.push(Line::Inst(dual, None));
                continue;
            }
            lines.push(line);
        }
        *block = lines;
    }
}

/// The half of an instruction that has no modifiers.
fn half(inst: &Inst) -> Option<(Op, Operands)> {
    let plain = inst.form == Form::Short
        && inst.second.is_none()
        && inst.lanes == Lanes::Own
        && inst.modifiers == doorbell_isa::Modifiers::default_of(inst.row());
    let (_, half) = HALVES.iter().find(|(op, _)| *op == inst.op)?;
    plain.then_some((*half, inst.operands))
}

fn overlaps(a: Vgpr, b: Vgpr) -> bool {
    let end = |reg: Vgpr| u16::from(reg.first) + u16::from(reg.count);
    u16::from(a.first) < end(b) && u16::from(b.first) < end(a)
}

/// True if `second` reads or writes a VGPR that `first` writes.
fn needs(first: &Inst, second: &Inst) -> bool {
    let (first, second) = (Effects::of(first), Effects::of(second));
    first.writes().any(|written| {
        let Resource::Vgpr(written) = written else { return true };
        second.iter().any(|(_, other)| matches!(other, Resource::Vgpr(other) if overlaps(written, other)))
    })
}

fn join(first: &Inst, second: &Inst, target: doorbell_isa::Target) -> Option<Inst> {
    let (x, y) = (half(first)?, half(second)?);
    if needs(first, second) {
        return None;
    }
    let dual =
        |a: (Op, Operands), b: (Op, Operands)| Inst { second: Some(b), ..Inst::with_operands(a.0, a.1) };
    let candidates = [dual(x, y), dual(y, x)];
    // Exchanging the halves must not change what either reads.
    let swappable = !needs(second, first);
    candidates
        .into_iter()
        .enumerate()
        .find(|(index, inst)| (*index == 0 || swappable) && encode(inst, target).is_ok())
        .map(|(_, inst)| inst)
}
