//! Outstanding memory operations: an operation is pending until a wait shows that it is done.
//!
//! Not here: distances between instructions (`hazards`).

use super::super::fault::{BinaryError, Origin};
use super::super::flow::{Code, forward, meet};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_isa::{Access, Counter, Flags, Format, Generation, Inst, Operand, Target, op};

/// An outstanding operation.
#[derive(Clone, PartialEq)]
struct Pending {
    /// Its instruction, and the counter.
    at: usize,
    class: Class,
    /// Operations of the same counter that were issued after it, at least.
    newer: u32,
    /// The counter falls in the order of issue.
    ordered: bool,
    /// Registers that it has yet to write.
    result: Range<u16>,
}

/// Pending operations by instruction and counter.
type Open = Vec<Pending>;

/// Hardware counters as the manuals name them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    Vm,
    Vs,
    Lgkm,
    Km,
}

/// Most operations that a counter can count.
const MOST: u32 = 64;

/// Checks all waits.
pub(super) fn check(code: &Code) -> Result<(), BinaryError> {
    forward(code, Open::new(), |at, open| execute(code, at, open), join)
}

fn join(mine: &mut Open, theirs: &Open) -> bool {
    let mut changed = false;
    for pending in theirs {
        match mine.binary_search_by_key(&(pending.at, pending.class), |own| (own.at, own.class)) {
            Ok(index) => {
                let newer = mine[index].newer.min(pending.newer);
                changed |= newer != mine[index].newer;
                mine[index].newer = newer;
            }
            Err(index) => {
                mine.insert(index, pending.clone());
                changed = true;
            }
        }
    }
    changed
}

fn classes(inst: &Inst, target: Target) -> impl Iterator<Item = (Class, bool)> {
    let counters = inst.counters(target);
    let gfx12 = target.generation() == Generation::Gfx12;
    let scalar = if gfx12 { Class::Km } else { Class::Lgkm };
    let all = [
        (Counter::Load, Class::Vm, true),
        (Counter::Store, Class::Vs, true),
        (Counter::Lds, Class::Lgkm, true),
        (Counter::Scalar, scalar, false),
    ];
    all.into_iter().filter(move |row| counters.has(row.0)).map(|row| (row.1, row.2))
}

/// Operations that a wait instruction leaves outstanding at most, by two counters.
fn waits(inst: &Inst) -> [Option<(Class, u32)>; 2] {
    let [.., Operand::Immediate(bits)] = inst.operands.as_slice() else { return [None; 2] };
    let bits = bits.cast_unsigned();
    let high = (bits >> 8) & 63;
    let low = bits & 63;
    match inst.op {
        op::s_waitcnt => [Some((Class::Vm, bits >> 10)), Some((Class::Lgkm, (bits >> 4) & 63))],
        op::s_waitcnt_vscnt | op::s_wait_storecnt => [Some((Class::Vs, bits)), None],
        op::s_wait_loadcnt => [Some((Class::Vm, bits)), None],
        op::s_wait_dscnt => [Some((Class::Lgkm, bits)), None],
        op::s_wait_kmcnt => [Some((Class::Km, bits)), None],
        op::s_wait_loadcnt_dscnt => [Some((Class::Vm, high)), Some((Class::Lgkm, low))],
        op::s_wait_storecnt_dscnt => [Some((Class::Vs, high)), Some((Class::Lgkm, low))],
        _ => [None; 2],
    }
}

/// True if two in-order vector loads may write the same registers.
fn ordered_loads(first: &Inst, second: &Inst, target: Target) -> bool {
    let vector = |inst: &Inst| {
        let row = inst.row();
        matches!(row.format, Format::Global | Format::Scratch | Format::Mubuf)
            && row.has(Flags::LOAD)
            && !row.has(Flags::READS_DST)
    };
    target.generation() != Generation::Gfx12 && vector(first) && vector(second)
}

/// Pending operations after an instruction, or the rule that it breaks.
fn execute(code: &Code, at: usize, open: &mut Open) -> Result<(), BinaryError> {
    let inst = &code.insts[at];
    for (class, most) in waits(inst).into_iter().flatten() {
        let exact = most == 0 || !open.iter().any(|pending| pending.class == class && !pending.ordered);
        open.retain(|pending| pending.class != class || !exact || pending.newer < most);
    }
    let early = |pending: &&Pending| {
        let mut touched = code.touched(at).iter().filter(|(_, range)| meet(range, &pending.result));
        touched.any(|(access, _)| {
            !(*access == Access::Write && ordered_loads(&code.insts[pending.at], inst, code.target))
        })
    };
    let blocked = |pending: &&Pending| code.origin == Origin::Ours && is_blocked(inst, pending, code);
    let fault = open.iter().find(|pending| early(pending) || blocked(pending));
    let fault = fault.map(|pending| BinaryError::Wait {
        instruction: inst.text(code.target).to_string(),
        outstanding: code.insts[pending.at].text(code.target).to_string(),
    });
    if code.origin == Origin::Foreign && inst.op == op::s_swappc_b64 {
        // What is called waits for all at its start, and for all but stores at its end.
        open.retain(|pending| pending.class == Class::Vs);
    }
    issue(code, at, open);
    fault.map_or(Ok(()), Err)
}

/// True if an instruction must not overtake an operation, though it shares no register with it.
fn is_blocked(inst: &Inst, pending: &Pending, code: &Code) -> bool {
    match inst.row().name {
        // Other waves must see what this one did in LDS.
        "s_barrier" | "s_barrier_signal" => pending.class == Class::Lgkm,
        // Invalidation must not overtake the accesses it follows; scratch is the lane's own.
        "buffer_gl0_inv" | "buffer_gl1_inv" | "global_inv" => {
            matches!(pending.class, Class::Vm | Class::Vs)
                && code.insts[pending.at].row().format != Format::Scratch
        }
        _ => false,
    }
}

fn issue(code: &Code, at: usize, open: &mut Open) {
    for (class, ordered) in classes(&code.insts[at], code.target) {
        for pending in open.iter_mut().filter(|pending| pending.class == class) {
            pending.newer = (pending.newer + 1).min(MOST);
        }
        // One result each, in consecutive registers.
        let result = code.writes(at).next().unwrap_or(0..0);
        let pending = Pending { at, class, newer: 0, ordered, result };
        match open.binary_search_by_key(&(at, class), |own| (own.at, own.class)) {
            Ok(index) => open[index] = pending,
            Err(index) => open.insert(index, pending),
        }
    }
}
