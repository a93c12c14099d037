//! Control flow of decoded code: instructions by number with what they touch, successors by branch distance.

use super::fault::{BinaryError, Origin};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_isa::{Access, Effects, Flags, Format, Inst, Operand, Resource, Target, decode, op};

/// Instructions that may come next.
#[derive(Clone, Copy, Default)]
pub(super) struct Successors {
    numbers: [usize; 2],
    count: u8,
}

impl Successors {
    fn push(&mut self, number: usize) {
        if let Some(slot) = self.numbers.get_mut(usize::from(self.count)) {
            *slot = number;
            self.count += 1;
        }
    }

    /// Their numbers.
    pub(super) fn list(&self) -> &[usize] {
        &self.numbers[..usize::from(self.count)]
    }
}

/// Decoded code.
pub(super) struct Code {
    pub(super) target: Target,
    pub(super) origin: Origin,
    pub(super) insts: Vec<Inst>,
    pub(super) successors: Vec<Successors>,
    /// True if control may come from elsewhere than the instruction before.
    pub(super) leaders: Vec<bool>,
    touched: Vec<Vec<(Access, Range<u16>)>>,
}

impl Code {
    /// Decodes all of `words`.
    pub(super) fn decode(words: &[u32], target: Target, origin: Origin) -> Result<Self, BinaryError> {
        let mut insts = Vec::new();
        let mut starts = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let (inst, length) =
                decode(&words[at..], target).map_err(|error| BinaryError::Decode { at, error })?;
            starts.push(at);
            insts.push(inst);
            at += length;
        }
        let touched = insts.iter().map(|inst| {
            Effects::of(inst).iter().map(|(access, resource)| (access, numbers(resource))).collect()
        });
        let touched = touched.collect();
        let count = insts.len();
        let mut code =
            Self { target, origin, insts, successors: Vec::new(), leaders: vec![false; count], touched };
        code.link(&starts, words.len())?;
        Ok(code)
    }

    fn link(&mut self, starts: &[usize], end: usize) -> Result<(), BinaryError> {
        for (index, inst) in self.insts.iter().enumerate() {
            let mut next = Successors::default();
            let row = inst.row();
            let calls = self.origin == Origin::Foreign && inst.op == op::s_swappc_b64;
            let returns = self.origin == Origin::Foreign && inst.op == op::s_setpc_b64;
            if row.has(Flags::BRANCHES) && !calls && !returns {
                let [Operand::Immediate(distance)] = inst.operands.as_slice() else {
                    return Err(BinaryError::Flow { instruction: index });
                };
                let after = starts.get(index + 1).copied().unwrap_or(end);
                let target = after as i64 + i64::from(*distance);
                let target =
                    usize::try_from(target).ok().and_then(|target| starts.binary_search(&target).ok());
                let target = target.ok_or(BinaryError::Flow { instruction: index })?;
                next.push(target);
                self.leaders[target] = true;
            }
            if !row.has(Flags::ENDS) && inst.op != op::s_branch && !returns {
                let Some(leads) = self.leaders.get_mut(index + 1) else {
                    return Err(BinaryError::Flow { instruction: index });
                };
                *leads |= row.has(Flags::BRANCHES);
                next.push(index + 1);
            }
            self.successors.push(next);
        }
        Ok(())
    }

    /// Registers that an instruction reads and writes.
    pub(super) fn touched(&self, at: usize) -> &[(Access, Range<u16>)] {
        &self.touched[at]
    }

    /// Registers that an instruction reads.
    pub(super) fn reads(&self, at: usize) -> impl Iterator<Item = Range<u16>> + '_ {
        self.ranges(at, Access::Read)
    }

    /// Registers that an instruction writes.
    pub(super) fn writes(&self, at: usize) -> impl Iterator<Item = Range<u16>> + '_ {
        self.ranges(at, Access::Write)
    }

    /// The instruction behind one that has no other successor and that nothing else leads to.
    fn only_after(&self, at: usize) -> Option<usize> {
        match self.successors[at].list() {
            [next] if !self.leaders[*next] => Some(*next),
            _ => None,
        }
    }

    fn ranges(&self, at: usize, wanted: Access) -> impl Iterator<Item = Range<u16>> + '_ {
        self.touched[at].iter().filter(move |touched| touched.0 == wanted).map(|touched| touched.1.clone())
    }
}

/// Runs a forward analysis: states at leaders, instructions in order from each. `step` changes the state by one
/// instruction or finds a fault; `join` merges a state into another and says whether that changed.
///
/// Only faults in final states count: with less known of other paths, an instruction may look worse than it is.
pub(super) fn forward<S: Clone>(
    code: &Code,
    start: S,
    step: impl Fn(usize, &mut S) -> Result<(), BinaryError>,
    join: impl Fn(&mut S, &S) -> bool,
) -> Result<(), BinaryError> {
    let mut states: Vec<Option<S>> = vec![None; code.insts.len()];
    let mut pending = Vec::new();
    if let Some(slot) = states.first_mut() {
        *slot = Some(start);
        pending.push(0);
    }
    while let Some(first) = pending.pop() {
        let Some(mut state) = states[first].clone() else { continue };
        let mut at = first;
        loop {
            let _ = step(at, &mut state);
            let next = code.successors[at];
            if let Some(after) = code.only_after(at) {
                at = after;
                continue;
            }
            for next in next.list() {
                let changed = match &mut states[*next] {
                    Some(known) => join(known, &state),
                    slot => {
                        *slot = Some(state.clone());
                        true
                    }
                };
                if changed && !pending.contains(next) {
                    pending.push(*next);
                }
            }
            break;
        }
    }
    for (first, state) in states.into_iter().enumerate() {
        let Some(mut state) = state else { continue };
        let mut at = Some(first);
        while let Some(here) = at {
            step(here, &mut state)?;
            at = code.only_after(here);
        }
    }
    Ok(())
}

/// Registers as one number line: VGPRs, then scalar registers.
pub(super) fn numbers(resource: Resource) -> Range<u16> {
    match resource {
        Resource::Vgpr(reg) => u16::from(reg.first)..u16::from(reg.first) + u16::from(reg.count),
        Resource::Scalar(reg) => {
            let first = SCALARS + u16::from(reg.first);
            first..first + u16::from(reg.count)
        }
        Resource::Scc => 1000..1001,
    }
}

/// Number of s0.
pub(super) const SCALARS: u16 = 256;

pub(super) fn meet(a: &Range<u16>, b: &Range<u16>) -> bool {
    a.start < b.end && b.start < a.end
}

/// True if an instruction is executed by the vector ALU.
pub(super) fn is_valu(inst: &Inst) -> bool {
    inst.row().is_vector()
}

/// True if an instruction is executed by the scalar ALU (waits and branches are not).
pub(super) fn is_salu(inst: &Inst) -> bool {
    matches!(inst.row().format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk)
        && !inst.row().name.starts_with("s_waitcnt")
}

/// Fields of a dependency-counter wait; all ones where the instruction is none.
pub(super) fn depctr(inst: &Inst) -> u32 {
    match (inst.op, inst.operands.as_slice()) {
        (op::s_waitcnt_depctr | op::s_wait_alu, [Operand::Immediate(bits)]) => bits.cast_unsigned(),
        _ => 0xffff,
    }
}
