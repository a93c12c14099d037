//! Static check of finished machine code: every wait and every hazard distance, on all paths.
//!
//! Works on decoded bytes and shares no code with the inserting passes: outstanding memory operations are tickets by
//! instruction, hazards are walks from each producer. Not here: control flow (`flow`).

use super::flow::{Code, depctr, is_salu, is_valu};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use doorbell_isa::{
    Counter, DecodeError, Effects, Flags, Format, Generation, Inst, Operand, Resource, Target, Timing,
};

/// What is wrong with machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BinaryError {
    /// Bytes that are no instruction.
    Decode {
        /// Dword offset.
        at: usize,
        /// Why.
        error: DecodeError,
    },
    /// A branch to no instruction, or code without an end.
    Flow {
        /// Number of the instruction.
        instruction: usize,
    },
    /// An instruction uses registers that a memory operation has yet to write, or passes a barrier too early.
    Wait {
        /// The instruction.
        instruction: String,
        /// The outstanding operation.
        outstanding: String,
    },
    /// A distance or wait that the hardware needs is missing.
    Hazard {
        /// The instruction that comes too early.
        instruction: String,
        /// The instruction before it.
        after: String,
    },
}

impl fmt::Display for BinaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { at, error } => write!(f, "dword {at}: {error}"),
            Self::Flow { instruction } => {
                write!(f, "instruction {instruction}: control flow leaves the code")
            }
            Self::Wait { instruction, outstanding } => {
                write!(f, "{instruction}: {outstanding} is outstanding")
            }
            Self::Hazard { instruction, after } => write!(f, "{instruction}: too soon after {after}"),
        }
    }
}

impl core::error::Error for BinaryError {}

/// Checks machine code.
///
/// # Errors
///
/// The first fault found.
pub fn check(words: &[u32], target: Target) -> Result<(), BinaryError> {
    let code = Code::decode(words, target)?;
    tickets(&code)?;
    transcendentals(&code)?;
    matrices(&code)?;
    permutes(&code)?;
    forwarding(&code)?;
    messages(&code)?;
    clauses(&code)?;
    scalar_reads(&code)
}

/// Outstanding operations: instruction number to how many of the same counter were issued after it, at least.
type Tickets = BTreeMap<(usize, Class), u32>;

/// Hardware counters as the manuals name them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    Vm,
    Vs,
    Lgkm,
    Km,
}

fn classes(inst: &Inst, target: Target) -> Vec<(Class, bool)> {
    let counters = inst.counters(target);
    let gfx12 = target.generation() == Generation::Gfx12;
    let scalar = if gfx12 { Class::Km } else { Class::Lgkm };
    let all = [
        (Counter::Load, Class::Vm, true),
        (Counter::Store, Class::Vs, true),
        (Counter::Lds, Class::Lgkm, true),
        (Counter::Scalar, scalar, false),
    ];
    all.into_iter().filter(|row| counters.has(row.0)).map(|row| (row.1, row.2)).collect()
}

/// What a wait instruction waits for: at most so many outstanding.
fn waits(inst: &Inst) -> Vec<(Class, u32)> {
    let bits = match inst.operands.as_slice() {
        [.., Operand::Immediate(bits)] => bits.cast_unsigned(),
        _ => return Vec::new(),
    };
    let high = (bits >> 8) & 63;
    let low = bits & 63;
    match inst.row().name {
        "s_waitcnt" => vec![(Class::Vm, bits >> 10), (Class::Lgkm, (bits >> 4) & 63)],
        "s_waitcnt_vscnt" | "s_wait_storecnt" => vec![(Class::Vs, bits)],
        "s_wait_loadcnt" => vec![(Class::Vm, bits)],
        "s_wait_dscnt" => vec![(Class::Lgkm, bits)],
        "s_wait_kmcnt" => vec![(Class::Km, bits)],
        "s_wait_loadcnt_dscnt" => vec![(Class::Vm, high), (Class::Lgkm, low)],
        "s_wait_storecnt_dscnt" => vec![(Class::Vs, high), (Class::Lgkm, low)],
        _ => Vec::new(),
    }
}

/// Registers as one number line: VGPRs, then scalar registers.
fn numbers(resource: Resource) -> core::ops::Range<u16> {
    match resource {
        Resource::Vgpr(reg) => u16::from(reg.first)..u16::from(reg.first) + u16::from(reg.count),
        Resource::Scalar(reg) => {
            let first = 256 + u16::from(reg.first);
            first..first + u16::from(reg.count)
        }
        Resource::Scc => 1000..1001,
    }
}

fn meet(a: &core::ops::Range<u16>, b: &core::ops::Range<u16>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Whether two in-order vector loads may write the same registers.
fn ordered_loads(first: &Inst, second: &Inst, target: Target) -> bool {
    let vector = |inst: &Inst| {
        let row = inst.row();
        matches!(row.format, Format::Global | Format::Scratch | Format::Mubuf)
            && row.has(Flags::LOAD)
            && !row.has(Flags::READS_DST)
    };
    target.generation() != Generation::Gfx12 && vector(first) && vector(second)
}

fn tickets(code: &Code) -> Result<(), BinaryError> {
    let count = code.insts.len();
    let mut states: Vec<Option<Tickets>> = vec![None; count];
    let mut work = vec![(0usize, Tickets::new())];
    while let Some((at, incoming)) = work.pop() {
        let Some(slot) = states.get_mut(at) else { continue };
        let merged = match slot {
            None => incoming,
            Some(old) => {
                let mut merged = old.clone();
                for (ticket, newer) in incoming {
                    let entry = merged.entry(ticket).or_insert(newer);
                    *entry = (*entry).min(newer);
                }
                if merged == *old {
                    continue;
                }
                merged
            }
        };
        *slot = Some(merged.clone());
        let after = execute(code, at, merged)?;
        for next in &code.successors[at] {
            work.push((*next, after.clone()));
        }
    }
    Ok(())
}

/// Tickets after an instruction, or the fault it commits.
fn execute(code: &Code, at: usize, mut open: Tickets) -> Result<Tickets, BinaryError> {
    let inst = &code.insts[at];
    let unordered = |open: &Tickets, class: Class| {
        open.keys().any(|(ticket, other)| {
            *other == class
                && classes(&code.insts[*ticket], code.target).iter().any(|row| row.0 == class && !row.1)
        })
    };
    for (class, most) in waits(inst) {
        let exact = most == 0 || !unordered(&open, class);
        open.retain(|(_, other), newer| *other != class || !exact || *newer < most);
    }
    let fault = |ticket: usize| BinaryError::Wait {
        instruction: inst.text(code.target).to_string(),
        outstanding: code.insts[ticket].text(code.target).to_string(),
    };
    let touched: Vec<_> =
        Effects::of(inst).iter().map(|(access, resource)| (access, numbers(resource))).collect();
    for (ticket, _) in open.keys() {
        let pending = &code.insts[*ticket];
        for result in Effects::of(pending).writes().map(numbers) {
            let hit = touched.iter().any(|(access, range)| {
                let overwrites =
                    *access == doorbell_isa::Access::Write && ordered_loads(pending, inst, code.target);
                meet(range, &result) && !overwrites
            });
            if hit {
                return Err(fault(*ticket));
            }
        }
    }
    let name = inst.row().name;
    let blocked = match name {
        // Other waves must see what this one did in LDS.
        "s_barrier" | "s_barrier_signal" => open.keys().find(|(_, class)| *class == Class::Lgkm),
        // Invalidation must not overtake the accesses it follows.
        "buffer_gl0_inv" | "buffer_gl1_inv" | "global_inv" => {
            open.keys().find(|(_, class)| matches!(class, Class::Vm | Class::Vs))
        }
        _ => None,
    };
    if let Some((ticket, _)) = blocked {
        return Err(fault(*ticket));
    }
    for (class, _) in classes(inst, code.target) {
        for ((_, other), newer) in &mut open {
            if *other == class {
                *newer += 1;
            }
        }
        open.insert((at, class), 0);
    }
    for newer in open.values_mut() {
        *newer = (*newer).min(64);
    }
    Ok(open)
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
        code.successors[start].iter().map(|next| (*next, state.clone())).collect();
    while let Some((at, state)) = work.pop() {
        if !seen.insert((at, state.clone())) {
            continue;
        }
        if let Some(after) = visit(at, state)? {
            work.extend(code.successors[at].iter().map(|next| (*next, after.clone())));
        }
    }
    Ok(())
}

fn hazard(code: &Code, at: usize, producer: usize) -> BinaryError {
    BinaryError::Hazard {
        instruction: code.insts[at].text(code.target).to_string(),
        after: code.insts[producer].text(code.target).to_string(),
    }
}

fn reads(inst: &Inst, range: &core::ops::Range<u16>) -> bool {
    Effects::of(inst).reads().any(|resource| meet(&numbers(resource), range))
}

fn writes(inst: &Inst, range: &core::ops::Range<u16>) -> bool {
    Effects::of(inst).writes().any(|resource| meet(&numbers(resource), range))
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
        for range in Effects::of(inst).writes().map(numbers) {
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
                if reads(reader, &range) {
                    return Err(hazard(code, at, producer));
                }
                let after = (valu + 1, trans + u8::from(reader.row().timing == Timing::Trans));
                Ok((after.0 < 6 && after.1 < 2 && !writes(reader, &range)).then_some(after))
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
        for range in Effects::of(inst).writes().map(numbers) {
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
        let mut before = code.successors.iter().enumerate().filter(|(_, next)| next.contains(&at));
        if at == 0 || before.any(|(from, _)| code.insts[from].row().name != "s_nop") {
            return Err(hazard(code, at, at.saturating_sub(1)));
        }
    }
    Ok(())
}

/// What may stand together in a clause.
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
                .any(|(from, next)| from + 1 != member && next.contains(&member));
            if wanted.is_none() || found != wanted || entered {
                return Err(hazard(code, member.min(code.insts.len() - 1), start));
            }
        }
    }
    Ok(())
}

/// Pairs of scalar registers that take part in the gfx12 hazard.
fn pairs(resource: Resource) -> u64 {
    let Resource::Scalar(reg) = resource else { return 0 };
    if reg.first >= 124 {
        return 0;
    }
    let last = reg.first + reg.count - 1;
    (reg.first / 2..=last / 2).fold(0, |set, pair| set | (1 << pair))
}

/// gfx12: a scalar register of a pair that a vector instruction ever read, written again, may be read only after a
/// wait. Scalar writers: eleven scalar instructions also suffice.
fn scalar_reads(code: &Code) -> Result<(), BinaryError> {
    if code.target.generation() != Generation::Gfx12 {
        return Ok(());
    }
    let ever = ever_read(code);
    for (producer, inst) in code.insts.iter().enumerate() {
        let (valu, salu) = (is_valu(inst), is_salu(inst));
        if !valu && !salu {
            continue;
        }
        let before = ever[producer]
            | if valu { Effects::of(inst).reads().fold(0, |set, r| set | pairs(r)) } else { 0 };
        let written = Effects::of(inst).writes().fold(0, |set, resource| set | pairs(resource)) & before;
        for pair in (0..64u32).filter(|pair| written & (1 << pair) != 0) {
            walk(code, producer, 0u8, |at, scalars| {
                let reader = &code.insts[at];
                let wait = depctr(reader);
                let cleared = match (valu, pair) {
                    (false, _) => wait & 1 == 0,
                    (true, 53) => wait & 2 == 0,
                    (true, _) => (wait >> 9) & 7 == 0,
                };
                if cleared {
                    return Ok(None);
                }
                let needs = is_valu(reader) || (salu && is_salu(reader));
                let read = Effects::of(reader).reads().fold(0, |set, resource| set | pairs(resource));
                if needs && read & (1 << pair) != 0 {
                    return Err(hazard(code, at, producer));
                }
                let scalars = scalars + u8::from(is_salu(reader));
                Ok((!salu || scalars < 11).then_some(if salu { scalars } else { 0 }))
            })?;
        }
    }
    Ok(())
}

/// Pairs that vector instructions read on some path before each instruction.
fn ever_read(code: &Code) -> Vec<u64> {
    let mut ever = vec![0u64; code.insts.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (at, inst) in code.insts.iter().enumerate() {
            let own =
                if is_valu(inst) { Effects::of(inst).reads().fold(0, |set, r| set | pairs(r)) } else { 0 };
            let after = ever[at] | own;
            for next in &code.successors[at] {
                if ever[*next] | after != ever[*next] {
                    ever[*next] |= after;
                    changed = true;
                }
            }
        }
    }
    ever
}
