//! Distances and fixes that instructions need after others, and what may stand in a clause.
//!
//! Not here: gfx12's scalar registers (`scalars`).

use super::super::fault::BinaryError;
use super::super::flow::{Code, depctr, is_valu, meet, numbers};
use super::hazard;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use doorbell_isa::{Flags, Format, Generation, Inst, Operand, Resource, Timing};

/// Checks all of them.
pub(super) fn check(code: &Code) -> Result<(), BinaryError> {
    transcendentals(code)?;
    matrices(code)?;
    permutes(code)?;
    forwarding(code)?;
    messages(code)?;
    clauses(code)
}

/// Walks all paths from the successors of `start`. `visit` gets an instruction and the state on the way to it and
/// says how to go on: a new state, or `None` to stop.
fn walk<S: Clone + Ord>(
    code: &Code,
    start: usize,
    state: S,
    mut visit: impl FnMut(usize, S) -> Result<Option<S>, BinaryError>,
) -> Result<(), BinaryError> {
    let mut seen = BTreeSet::new();
    let mut work: Vec<(usize, S)> =
        code.successors[start].list().iter().map(|next| (*next, state.clone())).collect();
    while let Some((at, state)) = work.pop() {
        if !seen.insert((at, state.clone())) {
            continue;
        }
        if let Some(after) = visit(at, state)? {
            work.extend(code.successors[at].list().iter().map(|next| (*next, after.clone())));
        }
    }
    Ok(())
}

/// gfx11.0: a transcendental result may be read by the vector ALU only after six vector or two transcendental
/// instructions, a vector-memory or LDS instruction, or a wait for the vector ALU.
fn transcendentals(code: &Code) -> Result<(), BinaryError> {
    if code.target.generation() != Generation::Gfx11 {
        return Ok(());
    }
    for (producer, inst) in code.insts.iter().enumerate() {
        if inst.row().timing != Timing::Trans {
            continue;
        }
        for range in code.writes(producer) {
            walk(code, producer, (0u8, 0u8), |at, (valu, trans)| {
                let reader = &code.insts[at];
                let memory = matches!(
                    reader.row().format,
                    Format::Ds | Format::Global | Format::Scratch | Format::Flat | Format::Mubuf
                );
                if memory || depctr(reader) >> 12 == 0 {
                    return Ok(None);
                }
                if !is_valu(reader) {
                    return Ok(Some((valu, trans)));
                }
                if code.reads(at).any(|read| meet(&read, &range)) {
                    return Err(hazard(code, at, producer));
                }
                let after = (valu + 1, trans + u8::from(reader.row().timing == Timing::Trans));
                Ok((after.0 < 6 && after.1 < 2 && !code.writes(at).any(|written| meet(&written, &range)))
                    .then_some(after))
            })?;
        }
    }
    Ok(())
}

/// A matrix result as input A or B of the next matrix instruction needs a vector instruction between.
fn matrices(code: &Code) -> Result<(), BinaryError> {
    for (producer, inst) in code.insts.iter().enumerate() {
        if !inst.row().has(Flags::MATRIX) {
            continue;
        }
        for range in code.writes(producer) {
            walk(code, producer, (), |at, ()| {
                let reader = &code.insts[at];
                if !is_valu(reader) {
                    return Ok(Some(()));
                }
                let inputs = if reader.row().has(Flags::READS_DST) { 3 } else { 2 };
                let mut inputs = reader.src().iter().take(inputs).filter_map(|operand| operand.vgpr());
                let feeds = reader.row().has(Flags::MATRIX)
                    && inputs.any(|input| meet(&numbers(Resource::Vgpr(input)), &range));
                if feeds { Err(hazard(code, at, producer)) } else { Ok(None) }
            })?;
        }
    }
    Ok(())
}

/// A lane permute after a comparison that writes EXEC needs a vector instruction between.
fn permutes(code: &Code) -> Result<(), BinaryError> {
    for (producer, inst) in code.insts.iter().enumerate() {
        if !(is_valu(inst) && inst.row().has(Flags::EXEC_OUT)) {
            continue;
        }
        walk(code, producer, (), |at, ()| {
            let reader = &code.insts[at];
            match (is_valu(reader), reader.row().name.starts_with("v_permlane")) {
                (true, true) => Err(hazard(code, at, producer)),
                (true, false) => Ok(None),
                _ => Ok(Some(())),
            }
        })?;
    }
    Ok(())
}

/// gfx11.0: a 64-bit multiply-add must not write what it reads.
fn forwarding(code: &Code) -> Result<(), BinaryError> {
    if code.target.generation() != Generation::Gfx11 {
        return Ok(());
    }
    let multiplies = |inst: &Inst| matches!(inst.row().name, "v_mad_u64_u32" | "v_mad_i64_i32");
    for (at, inst) in code.insts.iter().enumerate().filter(|(_, inst)| multiplies(inst)) {
        let result = inst.dst().first().and_then(|operand| operand.vgpr());
        let mut sources = inst.src().iter().filter_map(|operand| operand.vgpr());
        let written = result.map(|reg| numbers(Resource::Vgpr(reg)));
        if written.is_some_and(|written| sources.any(|reg| meet(&written, &numbers(Resource::Vgpr(reg))))) {
            return Err(hazard(code, at, at));
        }
    }
    Ok(())
}

/// The message that gives the registers back follows an `s_nop` directly.
fn messages(code: &Code) -> Result<(), BinaryError> {
    for (at, inst) in code.insts.iter().enumerate() {
        if !matches!((inst.row().name, inst.operands.as_slice()), ("s_sendmsg", [Operand::Immediate(3)])) {
            continue;
        }
        let mut before = code.successors.iter().enumerate().filter(|(_, next)| next.list().contains(&at));
        if at == 0 || before.any(|(from, _)| code.insts[from].row().name != "s_nop") {
            return Err(hazard(code, at, at.saturating_sub(1)));
        }
    }
    Ok(())
}

/// Kinds of instructions that may stand together in a clause.
fn clause_kind(inst: &Inst) -> Option<(Format, bool)> {
    let row = inst.row();
    let memory = row.has(Flags::LOAD.with(Flags::STORE));
    let format = match row.format {
        Format::Global | Format::Mubuf | Format::Scratch => Format::Global,
        format @ (Format::Smem | Format::Ds) => format,
        _ => return None,
    };
    memory.then_some((format, row.has(Flags::LOAD)))
}

/// A clause holds as many instructions of one kind as it says, entered from the top only.
fn clauses(code: &Code) -> Result<(), BinaryError> {
    for (start, inst) in code.insts.iter().enumerate() {
        let ("s_clause", [Operand::Immediate(length)]) = (inst.row().name, inst.operands.as_slice()) else {
            continue;
        };
        let members = start + 1..start + 2 + (*length as usize & 63);
        let wanted = code.insts.get(start + 1).and_then(clause_kind);
        for member in members.clone() {
            let found = code.insts.get(member).and_then(clause_kind);
            let entered = code
                .successors
                .iter()
                .enumerate()
                .any(|(from, next)| from + 1 != member && next.list().contains(&member));
            if wanted.is_none() || found != wanted || entered {
                return Err(hazard(code, member.min(code.insts.len() - 1), start));
            }
        }
    }
    Ok(())
}
