//! One step of one wave: fetch and execute, issue and perform memory operations, barriers.
//!
//! Not here: which wave runs next (`dispatch.rs`), what is watched (`watch.rs`, `undefined.rs`).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use doorbell_isa::{
    Access as Direction, Cache as Cpol, Counter, Counters, Effects, Inst, Resource, Scope, Target, decode,
};

use super::check::{Finding, Kind, LdsAccess, Party};
use super::dispatch::Report;
use super::fault::Cause;
use super::group::GroupState;
use super::memory_ops::{Destination, Place, Request, Transfer};
use super::meter::Meter;
use super::ordering::{Cache, GlobalAccess, Ordering, Reach};
use super::program::{Program, Stretch};
use super::scalar;
use super::step::{Next, Run, Step};
use super::tracker::{Pending, Wait};
use super::trap::Trap;
use super::vector;
use super::wave::{Activity, Wave};
use crate::memory::{Random, Space};

/// Dwords of the longest instruction.
const LONGEST: u64 = 4;

/// The memories an operation may touch.
pub(crate) struct Memories<'a> {
    /// The GPU's address space.
    pub(crate) space: &'a mut Space,
    /// The group's LDS.
    pub(crate) lds: &'a mut [u8],
}

/// One wave with everything it can reach.
pub(crate) struct Core<'a> {
    /// The wave.
    pub(crate) wave: &'a mut Wave,
    /// What its group shares.
    pub(crate) group: &'a mut GroupState,
    /// The GPU's address space.
    pub(crate) space: &'a mut Space,
    /// Counts and findings.
    pub(crate) report: &'a mut Report,
    /// Choices of the hardware.
    pub(crate) random: &'a mut Random,
    /// The watch over global memory.
    pub(crate) ordering: Option<&'a mut Ordering>,
    /// Counts by dispatch.
    pub(crate) meter: Option<&'a mut Meter>,
    /// Where exceptions go.
    pub(crate) trap: Option<Trap>,
}

impl Core<'_> {
    /// Executes one instruction.
    #[inline]
    pub(crate) fn step(&mut self, program: &mut Program) -> Result<Next, Cause> {
        let step = program.fetch(self.wave.pc, self.space)?;
        if usize::from(step.highest) >= self.wave.vgpr.len() {
            return Err(Cause::Register { number: step.highest.into(), allocated: self.wave.vgpr.len() });
        }
        let next = if self.wave.tracker.is_some() { self.watched(step)? } else { self.execute(step)? };
        self.wave.count += 1;
        self.report.count(step);
        if next != Next::Jumped {
            self.wave.pc = step.next();
        }
        Ok(next)
    }

    /// Executes instructions unwatched until the wave yields or the quantum is over.
    pub(crate) fn run(&mut self, program: &mut Program, quantum: u64) -> Result<(), Cause> {
        let mut left = quantum;
        while left > 0 {
            program.fetch(self.wave.pc, self.space)?;
            let before = left;
            // Registers are copied in pieces as wide as the handlers read them: mixed widths stall.
            let simd = self.wave.simd;
            let outcome = simd.run(
                #[inline(always)]
                || self.stretch(program.stretch(), &mut left),
            );
            self.wave.count += before - left;
            self.report.instructions += before - left;
            if outcome? == Next::Yields {
                break;
            }
        }
        Ok(())
    }

    /// Executes what is decoded of one block of code.
    #[inline(always)]
    fn stretch(&mut self, stretch: Stretch<'_>, left: &mut u64) -> Result<Next, Cause> {
        let registers = self.wave.vgpr.len();
        while *left > 0
            && let Some(step) = stretch.step(self.wave.pc)
        {
            if usize::from(step.highest) >= registers {
                return Err(Cause::Register { number: step.highest.into(), allocated: registers });
            }
            let next = self.execute(step)?;
            *left -= 1;
            self.report.mix[step.timing as usize] += 1;
            if next != Next::Jumped {
                self.wave.pc = step.next();
            }
            if next == Next::Yields {
                return Ok(next);
            }
        }
        Ok(Next::Following)
    }

    #[inline(always)]
    pub(crate) fn execute(&mut self, step: &Step) -> Result<Next, Cause> {
        match step.run {
            Run::Scalar(handler) => {
                scalar::execute(self, step, handler);
                Ok(Next::Following)
            }
            Run::Special(handler) => handler(self, step),
            _ => vector::execute(self, step),
        }
    }

    /// Whether nobody looks at memory operations.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.wave.tracker.is_none() && self.meter.is_none()
    }

    /// Issues a memory operation.
    pub(crate) fn submit(&mut self, step: &Step, mut request: Request) -> Result<(), Cause> {
        let Self { wave, group, space, .. } = self;
        let mut memories = Memories { space, lds: &mut group.lds };
        request.check(wave, &mut memories)?;
        if let Some(meter) = &mut self.meter {
            meter.note(&request);
        }
        if self.wave.tracker.is_none() {
            let Self { wave, group, space, .. } = self;
            return request.perform(wave, &mut Memories { space, lds: &mut group.lds });
        }
        self.check_memory(step, &mut request);
        request.reach = self.reach(step, &request);
        let counters = step.inst.counters(self.wave.target);
        let gfx12 = self.wave.is_gfx12();
        if let Some(room) = self.wave.tracker.as_ref().map(|tracker| tracker.room(counters, gfx12))
            && room != Wait::default()
        {
            self.wait(room)?;
        }
        let (destination, place, lands) = (request.destination, request.place, landing(&request, counters));
        let pending = Pending {
            request: Some(Box::new(request)),
            destination,
            place,
            counters,
            lands,
            retired: Counters::NONE,
            pc: step.at,
        };
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.push(pending);
        }
        // The memory may answer at any time from now on.
        while self.random.once_in(2) && self.perform_next()? {}
        Ok(())
    }

    /// Counts an answer that may come late, for registers that hold it already.
    pub(crate) fn answer_later(&mut self, step: &Step, destination: Destination) {
        let counters = step.inst.counters(self.wave.target);
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.push(Pending {
                request: None,
                destination,
                place: Place::Scalar,
                counters,
                lands: counters,
                retired: Counters::NONE,
                pc: step.at,
            });
        }
    }

    /// Gives the vector registers back, and scratch memory with them.
    pub(crate) fn release(&mut self, step: &Step) {
        self.wave.released = Some(step.at);
        let stores = |pending: &&Pending| pending.place == Place::Scratch && pending.is_outstanding();
        let store = self.wave.tracker.as_ref().and_then(|tracker| {
            tracker.pending.iter().filter(stores).find(|pending| pending.counters.has(Counter::Store))
        });
        if let Some(pc) = store.map(|pending| pending.pc) {
            let detail = "a store to scratch memory is outstanding".into();
            self.find(Kind::AfterRelease, step, Some(pc), detail);
        }
    }

    /// Performs the oldest operation that is not performed yet; false if there is none.
    pub(crate) fn perform_next(&mut self) -> Result<bool, Cause> {
        let Some(tracker) = self.wave.tracker.as_mut().filter(|tracker| tracker.waiting > 0) else {
            return Ok(false);
        };
        tracker.waiting -= 1;
        let Some(pending) = tracker.pending.iter_mut().find(|pending| pending.request.is_some()) else {
            return Ok(false);
        };
        let pc = pending.pc;
        let Some(request) = pending.request.take() else { return Ok(false) };
        self.note_lds(&request, pc);
        self.note_global(&request, pc);
        let Self { wave, group, space, .. } = self;
        request.perform(wave, &mut Memories { space, lds: &mut group.lds })?;
        self.define(&request);
        Ok(true)
    }

    /// Performs and forgets everything a wait retires.
    pub(crate) fn wait(&mut self, wait: Wait) -> Result<(), Cause> {
        if self.wave.tracker.as_mut().is_none_or(|tracker| !tracker.wait(wait)) {
            return Ok(());
        }
        // Operations are performed in issue order, so all before one that has to be there come first.
        while self.wave.tracker.as_ref().is_some_and(|tracker| tracker.landed().is_some()) {
            self.perform_next()?;
        }
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.sweep();
        }
        Ok(())
    }

    /// Lets some outstanding operations happen while the wave waits.
    pub(crate) fn settle(&mut self) -> Result<(), Cause> {
        while self.random.once_in(4) && self.perform_next()? {}
        Ok(())
    }

    /// Cache maintenance.
    pub(crate) fn maintain(&mut self, step: &Step) {
        self.report.maintenance += 1;
        let serial = self.group.serial;
        if let (Some(ordering), Some(cache)) = (&mut self.ordering, emptied(step)) {
            ordering.invalidate(serial, cache);
        }
    }

    /// How far an access goes past caches, and whether it publishes what its wave has stored.
    fn reach(&self, step: &Step, request: &Request) -> Reach {
        let atomic = matches!(request.transfer, Transfer::Atomic { .. });
        let (past_gl0, past_gl1) = match step.inst.memory.cache {
            Cpol::Gfx11 { glc, .. } => (glc, glc),
            Cpol::Gfx12 { scope, .. } => (scope != Scope::Cu, matches!(scope, Scope::Device | Scope::System)),
        };
        let released = self.wave.tracker.as_ref().is_none_or(|tracker| tracker.has_no_stores());
        // The bit that returns the old value of an atomic is not one of coherence.
        Reach {
            past_gl0: past_gl0 || atomic,
            past_gl1: past_gl1 || atomic,
            released,
            atomic,
            scalar: request.place == Place::Scalar,
        }
    }

    /// Races and old lines in global memory.
    fn note_global(&mut self, request: &Request, pc: u64) {
        // What a trap handler writes down is for the host.
        let watched = request.is_global() && !self.wave.exceptions.privileged;
        let Some(ordering) = self.ordering.as_mut().filter(|_| watched) else { return };
        let lanes = (0..32).filter(|lane| request.exec >> lane & 1 != 0 && request.outside >> lane & 1 == 0);
        let pieces = lanes.filter_map(|lane| request.global_piece(lane));
        let access = GlobalAccess {
            group: self.group.serial,
            pc,
            reads: request.transfer.reads(),
            writes: request.transfer.writes(),
            reach: request.reach,
        };
        let problem = ordering.note(access, pieces.map(|(start, len)| (start, len as u64)));
        if let Some(problem) = problem {
            self.found(problem.kind, pc, Some(problem.other), format!("address {:#x}", problem.address));
        }
    }

    /// Signals the workgroup barrier.
    pub(crate) fn arrive(&mut self, step: &Step) {
        if self.group.arrived == 0 {
            self.group.barrier_pc = step.at;
        } else if self.group.barrier_pc != step.at {
            let other = Some(self.group.barrier_pc);
            self.find(Kind::DivergentBarrier, step, other, "another wave arrived elsewhere".into());
        }
        self.group.arrived += 1;
        self.wave.signalled = true;
        self.wave.phase = self.group.phase;
    }

    /// Waits for the barrier that was signalled.
    pub(crate) fn await_barrier(&mut self, step: &Step) -> Result<Next, Cause> {
        if !self.wave.signalled {
            self.find(Kind::DivergentBarrier, step, None, "wait without a signal".into());
            return Ok(Next::Following);
        }
        if self.group.phase > self.wave.phase {
            self.wave.signalled = false;
            return Ok(Next::Following);
        }
        self.wave.activity = Activity::AtBarrier;
        Ok(Next::Yields)
    }

    /// LDS race check.
    fn note_lds(&mut self, request: &Request, pc: u64) {
        let (wave, exec) = (self.wave.number, request.exec);
        let Some(shadow) = &mut self.group.shadow else { return };
        let mut conflict = None;
        for lane in (0..32).filter(|lane| exec >> lane & 1 != 0) {
            for (start, len) in request.lds_pieces(lane).into_iter().flatten() {
                let access = LdsAccess {
                    start,
                    len,
                    wave,
                    pc,
                    reads: request.transfer.reads(),
                    writes: request.transfer.writes(),
                };
                if let Some(other) = shadow.touch(access) {
                    conflict = Some((other, start));
                }
            }
        }
        if let Some((other, start)) = conflict {
            self.found(Kind::LdsRace, pc, Some(other), format!("LDS byte {start:#x}"));
        }
    }

    /// Records a finding.
    pub(crate) fn find(&mut self, kind: Kind, step: &Step, other: Option<u64>, detail: String) {
        self.found(kind, step.at, other, detail);
    }

    /// Records a finding at an address.
    fn found(&mut self, kind: Kind, pc: u64, other: Option<u64>, detail: String) {
        if self.report.is_known(kind, pc) {
            return;
        }
        let target = self.wave.target;
        let text = text_at(self.space, target, pc);
        let other = other.map(|pc| Party { pc, text: text_at(self.space, target, pc) });
        let (kernel, group, wave) = (self.group.kernel.clone(), self.group.id, self.wave.number);
        self.report.find(Finding { kind, kernel, pc, text, group, wave, other, detail });
    }
}

/// The counters that tell when an operation's data are there. A flat one is counted by two, of which those count whose
/// memory an address leads to; the other part retires without anything to bring.
fn landing(request: &Request, counters: Counters) -> Counters {
    if request.place != Place::Flat {
        return counters;
    }
    let (mut lds, mut others) = (false, request.exec == 0);
    for lane in (0..32).filter(|lane| request.exec >> lane & 1 != 0) {
        let local = request.lds_pieces(lane)[0].is_some();
        lds |= local;
        others |= !local;
    }
    let vector =
        [Counter::Load, Counter::Store].into_iter().filter(|counter| others && counters.has(*counter));
    vector.chain(lds.then_some(Counter::Lds)).fold(Counters::NONE, Counters::with)
}

/// The cache that an instruction empties.
fn emptied(step: &Step) -> Option<Cache> {
    let device = match step.inst.memory.cache {
        Cpol::Gfx11 { .. } => false,
        Cpol::Gfx12 { scope, .. } => matches!(scope, Scope::Device | Scope::System),
    };
    match step.row().name {
        "buffer_gl0_inv" => Some(Cache::Gl0),
        "buffer_gl1_inv" => Some(Cache::Gl1),
        "global_inv" if device => Some(Cache::Both),
        "global_inv" => Some(Cache::Gl0),
        "s_dcache_inv" => Some(Cache::Scalar),
        _ => None,
    }
}

/// Text of the instruction at an address, as it is in memory now.
fn text_at(space: &mut Space, target: Target, pc: u64) -> String {
    let words: Vec<u32> =
        (0..LONGEST).map_while(|word| space.load32(pc.wrapping_add(4 * word)).ok()).collect();
    match decode(&words, target) {
        Ok((inst, _)) => inst.text(target).to_string(),
        Err(error) => error.to_string(),
    }
}

/// What an instruction reads and writes, as a list.
pub(crate) fn effects_of(inst: &Inst) -> Vec<(Direction, Resource)> {
    Effects::of(inst).iter().collect()
}
