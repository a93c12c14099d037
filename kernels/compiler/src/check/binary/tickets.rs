//! Outstanding memory operations: each is a ticket until a wait says that it is done.
//!
//! Not here: distances between instructions (`hazards`).

use super::super::flow::{Code, forward, meet};
use super::{BinaryError, Origin};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_isa::{Access, Counter, Flags, Format, Generation, Inst, Operand, Target, op};

/// An outstanding operation.
#[derive(Clone, PartialEq)]
struct Ticket {
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

/// Tickets by instruction and counter.
type Open = Vec<Ticket>;

/// Hardware counters as the manuals name them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    Vm,
    Vs,
    Lgkm,
    Km,
}

/// Most operations that a counter tells apart.
const MOST: u32 = 64;

/// Checks all waits.
pub(super) fn check(code: &Code) -> Result<(), BinaryError> {
    forward(code, Open::new(), |at, open| execute(code, at, open), join)
}

fn join(mine: &mut Open, theirs: &Open) -> bool {
    let mut changed = false;
    for ticket in theirs {
        match mine.binary_search_by_key(&(ticket.at, ticket.class), |own| (own.at, own.class)) {
            Ok(place) => {
                let newer = mine[place].newer.min(ticket.newer);
                changed |= newer != mine[place].newer;
                mine[place].newer = newer;
            }
            Err(place) => {
                mine.insert(place, ticket.clone());
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

/// What a wait instruction waits for: at most so many outstanding, by two counters.
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

/// Tickets after an instruction, or the fault it commits.
fn execute(code: &Code, at: usize, open: &mut Open) -> Result<(), BinaryError> {
    let inst = &code.insts[at];
    for (class, most) in waits(inst).into_iter().flatten() {
        let exact = most == 0 || !open.iter().any(|ticket| ticket.class == class && !ticket.ordered);
        open.retain(|ticket| ticket.class != class || !exact || ticket.newer < most);
    }
    let early = |ticket: &&Ticket| {
        let mut touched = code.touched(at).iter().filter(|(_, range)| meet(range, &ticket.result));
        touched.any(|(access, _)| {
            !(*access == Access::Write && ordered_loads(&code.insts[ticket.at], inst, code.target))
        })
    };
    let blocked = |ticket: &&Ticket| code.origin == Origin::Ours && is_blocked(inst, ticket, code);
    let fault = open.iter().find(|ticket| early(ticket) || blocked(ticket));
    let fault = fault.map(|ticket| BinaryError::Wait {
        instruction: inst.text(code.target).to_string(),
        outstanding: code.insts[ticket.at].text(code.target).to_string(),
    });
    if code.origin == Origin::Foreign && inst.op == op::s_swappc_b64 {
        // What is called waits for all at its start, and for all but stores at its end.
        open.retain(|ticket| ticket.class == Class::Vs);
    }
    issue(code, at, open);
    fault.map_or(Ok(()), Err)
}

/// Whether an instruction must not overtake an operation, though it shares no register with it.
fn is_blocked(inst: &Inst, ticket: &Ticket, code: &Code) -> bool {
    match inst.row().name {
        // Other waves must see what this one did in LDS.
        "s_barrier" | "s_barrier_signal" => ticket.class == Class::Lgkm,
        // Invalidation must not overtake the accesses it follows; scratch is the lane's own.
        "buffer_gl0_inv" | "buffer_gl1_inv" | "global_inv" => {
            matches!(ticket.class, Class::Vm | Class::Vs)
                && code.insts[ticket.at].row().format != Format::Scratch
        }
        _ => false,
    }
}

fn issue(code: &Code, at: usize, open: &mut Open) {
    for (class, ordered) in classes(&code.insts[at], code.target) {
        for ticket in open.iter_mut().filter(|ticket| ticket.class == class) {
            ticket.newer = (ticket.newer + 1).min(MOST);
        }
        // One result each, in consecutive registers.
        let result = code.writes(at).next().unwrap_or(0..0);
        let ticket = Ticket { at, class, newer: 0, ordered, result };
        match open.binary_search_by_key(&(at, class), |own| (own.at, own.class)) {
            Ok(place) => open[place] = ticket,
            Err(place) => open.insert(place, ticket),
        }
    }
}
