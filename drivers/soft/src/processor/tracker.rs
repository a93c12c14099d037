//! The state of the sanitizers for one wave: outstanding operations by counter, undefined registers, hazards.
//!
//! Operations of one class are performed in issue order, each at a time that the seed chooses between issue and the
//! wait that retires it. Undefined values are tracked bit by bit. Not here: LDS (`lds_shadow.rs`), findings
//! (`context.rs`).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use doorbell_isa::{Counter, Counters};

use super::registers::{EXEC, Lanes, NULL, Register};
use super::request::{Destination, MemoryKind, Request};
use super::scalar_hazard::ScalarReads;
use super::wait::Wait;

/// Operations behind the oldest one that may stay although no counter counts them.
const SWEPT: usize = 32;
const COUNTERS: [Counter; 4] = [Counter::Load, Counter::Store, Counter::Lds, Counter::Scalar];

/// An operation that a counter still counts.
pub(crate) struct Pending {
    /// The operation; `None` once it is performed.
    pub(crate) request: Option<Box<Request>>,
    /// Registers it will write or wrote.
    pub(crate) destination: Destination,
    /// Memory that it accesses.
    pub(crate) memory: MemoryKind,
    /// Counters that count it, bit by [`Counter`].
    pub(crate) counters: Counters,
    /// Counters that show when its data arrived.
    pub(crate) lands: Counters,
    /// Counters whose part is retired.
    pub(crate) retired: Counters,
    /// Address of the instruction.
    pub(crate) pc: u64,
}

impl Pending {
    fn counts(&self, counter: Counter) -> bool {
        self.counters.has(counter) && !self.retired.has(counter)
    }

    /// True if its data may not have arrived.
    pub(crate) fn is_outstanding(&self) -> bool {
        COUNTERS.iter().any(|counter| self.lands.has(*counter) && !self.retired.has(*counter))
    }

    /// True if registers still wait for it.
    fn awaits_result(&self) -> bool {
        self.destination != Destination::Nothing && self.is_outstanding()
    }

    fn is_counted(&self) -> bool {
        COUNTERS.iter().any(|counter| self.counts(*counter))
    }

    fn covers(&self, register: Register) -> bool {
        let (found, first, count) = match (self.destination, register) {
            (Destination::Vector(first, count), Register::Vector(number)) => (number, first, count),
            (Destination::Scalar(first, count), Register::Scalar(number)) => (number, first, count),
            _ => return false,
        };
        (first..first + count).contains(&found)
    }
}

/// Vector instructions since something happened, for hazards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age {
    /// Register written.
    pub(crate) register: usize,
    /// Vector instructions since.
    pub(crate) vector: u32,
    /// Transcendental instructions since.
    pub(crate) trans: u32,
    /// Address of the instruction.
    pub(crate) pc: u64,
}

/// State of the sanitizers for one wave.
pub(crate) struct Tracker {
    /// In issue order.
    pub(crate) pending: VecDeque<Pending>,
    /// Operations that each counter counts.
    counts: [usize; COUNTERS.len()],
    /// Operations that are not performed yet, and those that write registers.
    pub(crate) waiting: usize,
    pub(crate) results: usize,
    /// Bits without a value, by vector register.
    vector: Vec<Lanes>,
    /// True if a vector register has undefined bits.
    any: Vec<bool>,
    /// Bits without a value, by encoding number of the scalar register.
    pub(crate) scalar: [u32; 128],
    /// SCC has no value.
    pub(crate) scc: bool,
    /// Bits without a value of the wave's scratch memory.
    pub(crate) scratch: Vec<u8>,
    /// Results of transcendental instructions that may not be read yet.
    pub(crate) trans: Vec<Age>,
    /// Result registers of the last matrix instruction, if no vector instruction followed.
    pub(crate) matrix: Option<(usize, usize, u64)>,
    /// A comparison wrote EXEC and no vector instruction followed.
    pub(crate) compared: Option<u64>,
    /// Scalar registers that vector instructions read, where that matters.
    pub(crate) scalar_reads: Option<ScalarReads>,
}

impl core::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tracker").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl Clone for Tracker {
    fn clone(&self) -> Self {
        Self::new(self.any.len(), self.scratch.len())
    }
}

impl Tracker {
    /// Everything undefined except EXEC, nothing outstanding.
    pub(crate) fn new(vectors: usize, scratch: usize) -> Self {
        let mut scalar = [u32::MAX; 128];
        scalar[EXEC] = 0;
        scalar[EXEC + 1] = 0;
        scalar[NULL] = 0;
        Self {
            pending: VecDeque::new(),
            counts: [0; COUNTERS.len()],
            waiting: 0,
            results: 0,
            vector: vec![[u32::MAX; 32]; vectors],
            any: vec![true; vectors],
            scalar,
            scc: true,
            scratch: vec![0xff; scratch],
            trans: Vec::new(),
            matrix: None,
            compared: None,
            scalar_reads: None,
        }
    }

    /// The oldest outstanding operation that writes a register.
    pub(crate) fn outstanding(&self, register: Register) -> Option<&Pending> {
        self.pending.iter().find(|pending| pending.is_outstanding() && pending.covers(register))
    }

    fn count(&self, counter: Counter) -> usize {
        self.counts[counter as usize]
    }

    /// An operation was issued.
    pub(crate) fn push(&mut self, pending: Pending) {
        for counter in COUNTERS.iter().filter(|counter| pending.counts(**counter)) {
            self.counts[*counter as usize] += 1;
        }
        self.waiting += usize::from(pending.request.is_some());
        self.results += usize::from(pending.awaits_result());
        self.pending.push_back(pending);
    }

    /// Retires the oldest parts of a counter until `left` remain; returns true if there were any.
    fn retire(&mut self, counter: Counter, left: usize) -> bool {
        let mut excess = self.count(counter).saturating_sub(left);
        if excess == 0 {
            return false;
        }
        self.counts[counter as usize] -= excess;
        for pending in &mut self.pending {
            if excess == 0 {
                break;
            }
            if pending.counts(counter) {
                let was = pending.awaits_result();
                pending.retired = pending.retired.with(counter);
                self.results -= usize::from(was && !pending.awaits_result());
                excess -= 1;
            }
        }
        true
    }

    /// The wait before an operation of these counters can be counted: a full counter retires its oldest operation
    /// first.
    pub(crate) fn room(&self, counters: Counters, gfx12: bool) -> Wait {
        let full = |counter: Counter, most: usize| {
            (counters.has(counter) && self.count(counter) >= most).then_some(most - 1)
        };
        let scalar = if gfx12 { 31 } else { 63 };
        Wait {
            load: full(Counter::Load, 63),
            store: full(Counter::Store, 63),
            lds: full(Counter::Lds, 63),
            // Scalar operations finish in any order; a full counter says no more than that some have.
            scalar: full(Counter::Scalar, scalar).map(|_| 0),
            shared: None,
        }
    }

    /// Marks the operations that a wait retires; returns true if there are any. They stay in the queue until `sweep`.
    pub(crate) fn wait(&mut self, wait: Wait) -> bool {
        // Of LDS and scalar operations of one counter, the scalar ones may have been those to finish: they finish in any
        // order, so only an empty counter says anything about them.
        let scalar = wait.scalar.or(wait.shared).filter(|left| *left == 0);
        let parts = [
            (Counter::Load, wait.load),
            (Counter::Store, wait.store),
            (Counter::Lds, wait.lds.or(wait.shared)),
            (Counter::Scalar, scalar),
        ];
        parts
            .into_iter()
            .fold(false, |any, (counter, left)| left.is_some_and(|left| self.retire(counter, left)) | any)
    }

    /// True if every store so far was acknowledged.
    pub(crate) fn has_no_stores(&self) -> bool {
        self.count(Counter::Store) == 0
    }

    /// Position of an operation that has to be performed now.
    pub(crate) fn landed(&self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        self.pending.iter().rposition(|pending| pending.request.is_some() && !pending.is_outstanding())
    }

    /// Removes operations at the front that no counter counts any more, and those behind them now and then.
    pub(crate) fn sweep(&mut self) {
        while self.pending.front().is_some_and(|pending| !pending.is_counted()) {
            self.pending.pop_front();
        }
        if self.pending.len() > SWEPT + 2 * self.counts.iter().sum::<usize>() {
            self.pending.retain(Pending::is_counted);
        }
    }

    /// Undefined bits of a vector register.
    pub(crate) fn lanes(&self, number: usize) -> Lanes {
        self.vector.get(number).copied().unwrap_or([0; 32])
    }

    /// Replaces the undefined bits of a vector register, those in `bits` of the lanes of `exec`.
    pub(crate) fn set_lanes(&mut self, number: usize, value: &Lanes, exec: u32, bits: u32) {
        let (Some(slot), Some(any)) = (self.vector.get_mut(number), self.any.get_mut(number)) else { return };
        for (lane, (slot, value)) in slot.iter_mut().zip(value).enumerate() {
            if exec >> lane & 1 != 0 {
                *slot = *slot & !bits | value & bits;
            }
        }
        *any = slot.iter().any(|bits| *bits != 0);
    }

    /// Clears the undefined bits of a vector register, those in `bits` of the lanes of `exec`.
    pub(crate) fn clear_lanes(&mut self, number: usize, exec: u32, bits: u32) {
        if self.any.get(number).copied().unwrap_or(false) {
            self.set_lanes(number, &[0; 32], exec, bits);
        }
    }

    /// True if a register has bits without a value among the lanes of `exec`.
    pub(crate) fn is_undefined(&self, register: Register, exec: u32) -> bool {
        match register {
            Register::Vector(number) => {
                let any = self.any.get(number).copied().unwrap_or(false);
                let lanes = self.vector.get(number).filter(|_| any);
                lanes.is_some_and(|lanes| (0..32).any(|lane| exec >> lane & 1 != 0 && lanes[lane] != 0))
            }
            Register::Scalar(number) => self.scalar[number & 127] != 0,
        }
    }

    /// Counts one vector instruction for the hazards.
    pub(crate) fn age(&mut self, is_trans: bool) {
        for age in &mut self.trans {
            age.vector += 1;
            age.trans += u32::from(is_trans);
        }
        self.trans.retain(|age| age.vector <= 5 && age.trans <= 1);
    }
}
