//! Fit: allocation of a function that may have too many live registers: splits the cheapest ranges until it fits.
//!
//! Values that one cheap instruction gives again come first; others go to scratch memory only if that is allowed. The
//! same is done for few values to keep one more wave resident. Not here: how ranges are split (`split`).

use super::allocate::{Allocation, PressureError, allocate};
use super::liveness::{Range, ranges};
use super::split::{Split, crosses_lanes, repeatable};
use crate::machine::{Arg, Bank, BlockId, Instr, Item, Machine, Reg};
use alloc::vec;
use alloc::vec::Vec;

/// Limits of the allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most VGPRs.
    pub max_vgprs: u16,
    /// VGPRs may be kept in scratch memory.
    pub spill: bool,
}

/// Splits and tries before giving up.
const ROUNDS: usize = 400;

/// VGPRs above the next step of occupancy that are worth splitting for.
const REACH: u16 = 8;

/// Instructions executed again, weighed by loops, that one more wave may cost.
const WORTH: u32 = 16;

/// Weight of a loop's trips, and of loops within loops beyond.
const TRIPS: [u32; 4] = [1, 8, 64, 512];

/// Blocks that are taken back to the order before scheduling, one after the other, before all are.
const TAKEN_BACK: usize = 4;

/// Allocates a function in the order that scheduling gave it; blocks whose new order needs too many registers get
/// the order of `before` back.
///
/// # Errors
///
/// If that does not help.
pub fn fit_scheduled(
    mut machine: Machine,
    before: &Machine,
    limits: Limits,
) -> Result<(Machine, Split, Allocation), PressureError> {
    let mut failed = Vec::new();
    loop {
        match allocate(&machine, limits.max_vgprs) {
            Ok(allocation) => {
                let (split, allocation) = raise(Split::of(machine.clone()), allocation);
                return Ok((machine, split, allocation));
            }
            Err(error) if failed.len() == TAKEN_BACK || failed.contains(&error.block) => return Err(error),
            Err(error) => {
                let block = error.block.index();
                machine.blocks[block].clone_from(&before.blocks[block]);
                failed.push(error.block);
            }
        }
    }
}

/// Allocates a function, its ranges split as far as needed.
///
/// # Errors
///
/// If a register file is exhausted all the same: as it was before anything was split.
pub fn fit(machine: &Machine, limits: Limits) -> Result<(Split, Allocation), PressureError> {
    let mut split = Split::of(machine.clone());
    let first = match allocate(&split.machine, limits.max_vgprs) {
        Ok(allocation) => return Ok(raise(split, allocation)),
        Err(error) => error,
    };
    let mut error = first.clone();
    for _ in 0..ROUNDS {
        if relieve(&mut split, &error, limits.spill, u32::MAX).is_none() {
            break;
        }
        match allocate(&split.machine, limits.max_vgprs) {
            Ok(allocation) => return Ok((split, allocation)),
            Err(next) => error = next,
        }
    }
    Err(first)
}

/// One more resident wave if that costs little: fewer VGPRs by splitting cheap values.
fn raise(split: Split, allocation: Allocation) -> (Split, Allocation) {
    let target = split.machine.target;
    let waves = target.waves_per_simd(allocation.vgprs);
    let fewer = (allocation.vgprs.saturating_sub(REACH)..allocation.vgprs).rev();
    let Some(goal) = fewer.filter(|vgprs| *vgprs > 0).find(|vgprs| target.waves_per_simd(*vgprs) > waves)
    else {
        return (split, allocation);
    };
    let mut better = split.clone();
    let mut budget = WORTH;
    loop {
        match allocate(&better.machine, goal) {
            Ok(found) => return (better, found),
            Err(error) => match relieve(&mut better, &error, false, budget) {
                Some(cost) => budget -= cost,
                None => return (split, allocation),
            },
        }
    }
}

/// A register that can be split.
struct Candidate {
    reg: Reg,
    dwords: u16,
    /// Instructions that splitting adds, weighed by loops.
    cost: u32,
    /// Its definition, if that can be repeated.
    again: Option<Instr>,
}

/// Splits registers that are live where allocation failed, as many as lack; the cost, or nothing if none can be split.
fn relieve(split: &mut Split, error: &PressureError, spill: bool, budget: u32) -> Option<u32> {
    let mut candidates = candidates(split, error, spill);
    // Cheap values first, then the least cost per register.
    candidates.sort_by(|a, b| {
        let weigh = |candidate: &Candidate, other: &Candidate| candidate.cost * u32::from(other.dwords);
        (a.again.is_none(), weigh(a, b), a.reg).cmp(&(b.again.is_none(), weigh(b, a), b.reg))
    });
    let mut lacking = error.needed.saturating_sub(error.available).max(1);
    let mut cost = 0u32;
    let mut split_now: Vec<Reg> = Vec::new();
    for candidate in candidates {
        if lacking == 0 || cost.saturating_add(candidate.cost) > budget {
            break;
        }
        // What a definition reads may have another name by now.
        let mut reads = candidate.again.iter().flat_map(Instr::uses);
        if reads.any(|part| split_now.contains(&part.reg)) {
            continue;
        }
        match &candidate.again {
            Some(instr) => split.rematerialize(candidate.reg, instr),
            None if split.spill(candidate.reg) => {}
            None => break,
        }
        cost = cost.saturating_add(candidate.cost);
        lacking = lacking.saturating_sub(candidate.dwords);
        split_now.push(candidate.reg);
    }
    (!split_now.is_empty()).then_some(cost)
}

/// The instructions of a register.
#[derive(Clone, Default)]
struct RegisterUses {
    definitions: u32,
    definition: Option<Instr>,
    /// Its position in the code.
    items: Vec<usize>,
    /// Uses and definitions, weighed by loops.
    uses: u32,
    stores: u32,
    crosses: bool,
}

fn register_uses(machine: &Machine) -> Vec<RegisterUses> {
    let depths = depths(machine);
    let mut registers = vec![RegisterUses::default(); machine.regs.len()];
    let mut number = 0;
    for (block, depth) in machine.blocks.iter().zip(depths) {
        let weight = TRIPS[depth.min(TRIPS.len() - 1)];
        for item in &block.items {
            if let Item::Instr(instr) = item {
                for part in instr.uses() {
                    let register = &mut registers[part.reg.index()];
                    register.uses += weight;
                    register.items.push(number);
                    register.crosses |= crosses_lanes(instr);
                }
                for (part, _) in instr.defs() {
                    let register = &mut registers[part.reg.index()];
                    register.definitions += 1;
                    register.definition = Some(instr.clone());
                    register.stores += weight;
                    register.items.push(number);
                    register.crosses |= crosses_lanes(instr) && instr.op.name() == "v_writelane_b32";
                }
            }
            number += 1;
        }
    }
    registers
}

/// Loops around each block.
fn depths(machine: &Machine) -> Vec<usize> {
    let mut depths = vec![0; machine.blocks.len()];
    for (block, code) in machine.blocks.iter().enumerate() {
        let branches = code
            .items
            .iter()
            .filter_map(|item| if let Item::Instr(instr) = item { instr.target() } else { None });
        for BlockId(target) in branches {
            let target = target as usize;
            if target <= block {
                depths[target..=block].iter_mut().for_each(|depth| *depth += 1);
            }
        }
    }
    depths
}

/// Registers that live across the item where allocation failed without being needed there.
fn candidates(split: &Split, error: &PressureError, spill: bool) -> Vec<Candidate> {
    let machine = &split.machine;
    let registers = register_uses(machine);
    let ranges = ranges(machine);
    let before: usize = machine.blocks[..error.block.index()].iter().map(|block| block.items.len()).sum();
    let here = before + error.item;
    let range = |reg: Reg| ranges.binary_search_by_key(&reg, |range| range.reg).ok().map(|at| &ranges[at]);
    let mut candidates = Vec::new();
    for live in &error.live {
        let register = &registers[live.reg.index()];
        let info = machine.info(live.reg);
        let across = register.items.iter().all(|item| *item != here);
        if live.reg.0 >= split.first_new || info.fixed.is_some() || register.crosses || !across {
            continue;
        }
        let again = range(live.reg).and_then(|range| again(split, register, range, &registers, &ranges));
        let cost = if again.is_some() { register.uses } else { register.uses + register.stores };
        let dwords = u16::from(live.dwords);
        if again.is_some() || (spill && info.bank == Bank::Vector) {
            candidates.push(Candidate { reg: live.reg, dwords, cost, again });
        }
    }
    candidates
}

/// The definition of a register, if it can be repeated at every use: its sources still hold what they did.
fn again(
    split: &Split,
    register: &RegisterUses,
    own: &Range,
    registers: &[RegisterUses],
    ranges: &[Range],
) -> Option<Instr> {
    let machine = &split.machine;
    let instr = register.definition.as_ref()?;
    let whole =
        matches!(instr.args.first(), Some(Arg::Reg(part)) if part.count == machine.info(part.reg).dwords);
    if register.definitions != 1 || !whole || !repeatable(instr, machine) {
        return None;
    }
    let kept = instr.uses().iter().all(|part| {
        let info = machine.info(part.reg);
        let once = registers[part.reg.index()].definitions == u32::from(info.fixed.is_none());
        let range = ranges.binary_search_by_key(&part.reg, |range| range.reg).ok().map(|at| &ranges[at]);
        // A longer life of another VGPR would relieve nothing.
        part.reg.0 < split.first_new
            && once
            && (info.bank == Bank::Scalar || range.is_some_and(|range| range.end() >= own.end()))
    });
    kept.then(|| instr.clone())
}
