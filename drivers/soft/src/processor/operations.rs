//! Memory operations of a wave: issue, performance, waits, cache maintenance, races.
//!
//! Not here: addresses (`memory_ops`), moving the data (`perform.rs`), undefined data (`undefined_memory.rs`).

use alloc::boxed::Box;
use alloc::format;

use doorbell_isa::{Cache as Policy, Counter, Counters, Scope};

use super::context::Context;
use super::fault::Cause;
use super::finding::FindingKind;
use super::lds_shadow::LdsAccess;
use super::ordering::{Cache, GlobalAccess};
use super::perform::Memories;
use super::request::{Destination, MemoryKind, Reach, Request};
use super::step::Step;
use super::tracker::Pending;
use super::transfer::Transfer;
use super::wait::Wait;

impl Context<'_> {
    /// True if memory operations are neither watched nor counted.
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
        let (destination, memory, lands) = (request.destination, request.memory, landing(&request, counters));
        let pending = Pending {
            request: Some(Box::new(request)),
            destination,
            memory,
            counters,
            lands,
            retired: Counters::NONE,
            pc: step.at,
        };
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.push(pending);
        }
        // The memory may perform it at any time from now on.
        while self.random.once_in(2) && self.perform_next()? {}
        Ok(())
    }

    /// Counts a result that may arrive late, for registers that hold it already.
    pub(crate) fn push_result(&mut self, step: &Step, destination: Destination) {
        let counters = step.inst.counters(self.wave.target);
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.push(Pending {
                request: None,
                destination,
                memory: MemoryKind::Scalar,
                counters,
                lands: counters,
                retired: Counters::NONE,
                pc: step.at,
            });
        }
    }

    /// Releases the vector registers and scratch memory.
    pub(crate) fn release(&mut self, step: &Step) {
        self.wave.released = Some(step.at);
        let stores = |pending: &&Pending| pending.memory == MemoryKind::Scratch && pending.is_outstanding();
        let store = self.wave.tracker.as_ref().and_then(|tracker| {
            tracker.pending.iter().filter(stores).find(|pending| pending.counters.has(Counter::Store))
        });
        if let Some(pc) = store.map(|pending| pending.pc) {
            let detail = "a store to scratch memory is outstanding".into();
            self.find(FindingKind::AfterRelease, step, Some(pc), detail);
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

    /// Performs and removes everything that a wait retires.
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

    /// Performs some outstanding operations while the wave waits.
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

    /// Caches that an access bypasses, and whether it publishes the earlier stores of its wave.
    fn reach(&self, step: &Step, request: &Request) -> Reach {
        let atomic = matches!(request.transfer, Transfer::Atomic { .. });
        let (past_gl0, past_gl1) = match step.inst.memory.cache {
            Policy::Gfx11 { glc, .. } => (glc, glc),
            Policy::Gfx12 { scope, .. } => {
                (scope != Scope::Cu, matches!(scope, Scope::Device | Scope::System))
            }
        };
        let released = self.wave.tracker.as_ref().is_none_or(|tracker| tracker.has_no_stores());
        // The bit that returns the old value of an atomic is not one of coherence.
        Reach {
            past_gl0: past_gl0 || atomic,
            past_gl1: past_gl1 || atomic,
            released,
            atomic,
            scalar: request.memory == MemoryKind::Scalar,
        }
    }

    /// Races and old lines in global memory.
    fn note_global(&mut self, request: &Request, pc: u64) {
        // Stores of a trap handler are for the host.
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
            self.found(FindingKind::LdsRace, pc, Some(other), format!("LDS byte {start:#x}"));
        }
    }
}

/// The counters that show when an operation's data arrived. Two count a flat operation; relevant are those of the
/// memories that its addresses lead to, and the other one retires without data.
fn landing(request: &Request, counters: Counters) -> Counters {
    if request.memory != MemoryKind::Flat {
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
        Policy::Gfx11 { .. } => false,
        Policy::Gfx12 { scope, .. } => matches!(scope, Scope::Device | Scope::System),
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
