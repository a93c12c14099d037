//! The engine: resident workgroups of dispatches, and the order in which their waves run.
//!
//! The seed decides every order, so equal seeds give equal runs. Not here: packets (`command`), descriptors (`code`),
//! several host threads (`parallel.rs`).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use doorbell_isa::{Op, Target};

use super::context::Context;
use super::dispatch::{Dispatch, group_count, groups};
use super::fault::{Cause, Fault};
use super::group::Group;
use super::group_start::make_group;
use super::meter::Meter;
use super::options::{Level, Options};
use super::ordering::Ordering;
use super::profile::Profile;
use super::program::Program;
use super::report::Report;
use super::step::Next;
use super::trap::Trap;
use super::wave::Activity;
use crate::memory::{Random, Simd, Space};

/// Runs dispatches of one chip.
pub struct Engine {
    pub(super) target: Target,
    pub(super) options: Options,
    pub(super) program: Program,
    random: Random,
    simd: Simd,
    executed: BTreeSet<Op>,
    meter: Option<Meter>,
    ordering: Option<Ordering>,
    /// The next run begins without emptying caches.
    keeps_caches: bool,
    profiles: Vec<Profile>,
    pub(super) trap: Option<Trap>,
    /// Engines of the other host threads.
    pub(super) workers: Vec<Self>,
}

/// Position in the groups of a dispatch.
struct Cursor<'a> {
    dispatch: &'a Dispatch,
    next: u64,
}

impl Cursor<'_> {
    fn total(&self) -> u64 {
        group_count(self.dispatch)
    }
}

impl Engine {
    /// Profiles kept between two calls of [`Engine::take_profiles`].
    pub const MOST: usize = 1 << 20;

    /// A processor without any code.
    pub fn new(target: Target, options: Options) -> Self {
        let random = Random::new(options.seed);
        let (program, simd) = (Program::new(target), Simd::detect());
        let meter = options.count.then(|| Meter::new(target));
        let ordering = (options.level == Level::Strict).then(Ordering::default);
        Self {
            target,
            options,
            program,
            random,
            simd,
            executed: BTreeSet::new(),
            meter,
            ordering,
            keeps_caches: false,
            profiles: Vec::new(),
            trap: None,
            workers: Vec::new(),
        }
    }

    /// The chip.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Every instruction that was decoded to be executed.
    pub fn executed(&mut self) -> &BTreeSet<Op> {
        self.collect();
        &self.executed
    }

    /// The next run begins without an acquire: caches may still hold what they held.
    pub fn keep_caches(&mut self) {
        self.keeps_caches = true;
    }

    /// Sets the trap handler for exceptions of the next runs; without one they end the run.
    pub fn set_trap(&mut self, trap: Option<Trap>) {
        self.trap = trap;
        self.workers.iter_mut().for_each(|worker| worker.set_trap(trap));
    }

    /// Profiles of the dispatches that ended since the last call, oldest first, if they are counted.
    pub fn take_profiles(&mut self) -> Vec<Profile> {
        core::mem::take(&mut self.profiles)
    }

    /// Profiles that were not taken yet.
    pub(crate) fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    fn collect(&mut self) {
        for program in
            core::iter::once(&self.program).chain(self.workers.iter().map(|worker| &worker.program))
        {
            program.collect(&mut self.executed);
        }
    }

    /// Runs dispatches that are not ordered among each other, all at once.
    ///
    /// # Errors
    ///
    /// The first fault; memory keeps what was stored until then.
    pub fn run(&mut self, dispatches: &[Dispatch], space: &mut Space) -> Result<Report, Fault> {
        let mut report = Report::default();
        self.run_into(dispatches, space, &mut report)?;
        Ok(report)
    }

    /// Like [`Engine::run`], but adds to a report that is kept on a fault.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn run_into(
        &mut self,
        dispatches: &[Dispatch],
        space: &mut Space,
        report: &mut Report,
    ) -> Result<(), Fault> {
        if self.meter.is_none() {
            return self.run_all(dispatches, space, report);
        }
        for dispatch in dispatches {
            let before = report.mix;
            self.meter.iter_mut().for_each(Meter::begin);
            self.run_all(core::slice::from_ref(dispatch), space, report)?;
            let mix = core::array::from_fn(|at| report.mix[at] - before[at]);
            if let Some(meter) = self.meter.as_ref().filter(|_| self.profiles.len() < Self::MOST) {
                self.profiles.push(meter.end(dispatch, mix, self.target.generation()));
            }
        }
        Ok(())
    }

    fn run_all(
        &mut self,
        dispatches: &[Dispatch],
        space: &mut Space,
        report: &mut Report,
    ) -> Result<(), Fault> {
        let keeps = core::mem::take(&mut self.keeps_caches);
        self.ordering.iter_mut().for_each(|ordering| ordering.begin(!keeps));
        self.collect();
        self.program.revalidate(space);
        if let Some(outcome) = self.run_parallel(dispatches, space, report) {
            return outcome;
        }
        let mut waiting: Vec<Cursor<'_>> = dispatches.iter().map(cursor).collect();
        let mut groups: Vec<Group> = Vec::new();
        let mut changes = (space.changes, report.instructions);
        let mut halted = None;
        loop {
            while groups.len() < self.options.resident.max(1)
                && scratch(&groups) < SCRATCH_MOST
                && let Some(group) = self.next_group(&mut waiting)
            {
                groups.push(group);
            }
            if groups.is_empty() {
                return halted.map_or(Ok(()), Err);
            }
            let at = if self.options.level == Level::Strict { self.random.below(groups.len()) } else { 0 };
            let rest = self.options.budget.saturating_sub(report.instructions);
            let moved = self.run_group(&mut groups[at], space, report, rest)?;
            if groups[at].is_over() {
                groups.swap_remove(at);
                report.groups += 1;
                changes = (space.changes, report.instructions);
                continue;
            }
            if let Some(fault) = groups[at].halted() {
                groups.swap_remove(at);
                halted = halted.or(Some(fault));
                continue;
            }
            if space.changes != changes.0 {
                changes = (space.changes, report.instructions);
            }
            let stuck = report.instructions - changes.1 > self.options.patience;
            if stuck || (!moved && groups.iter().all(is_blocked)) {
                return Err(halted.unwrap_or_else(|| fault_of(&groups[at], Cause::Deadlock)));
            }
            if report.instructions >= self.options.budget {
                return Err(halted.unwrap_or_else(|| fault_of(&groups[at], Cause::Budget)));
            }
            if self.options.level == Level::Fast {
                groups.rotate_left(1);
            }
        }
    }

    fn next_group(&mut self, waiting: &mut Vec<Cursor<'_>>) -> Option<Group> {
        waiting.retain(|cursor| cursor.next < cursor.total());
        if waiting.is_empty() {
            return None;
        }
        let strict = self.options.level == Level::Strict;
        let at = if strict { self.random.below(waiting.len()) } else { 0 };
        let cursor = &mut waiting[at];
        cursor.next += 1;
        let (dispatch, number) = (cursor.dispatch, cursor.next - 1);
        let mut group = self.group(dispatch, number);
        group.state.serial = self.ordering.as_mut().map_or(0, Ordering::enter);
        Some(group)
    }

    /// One group of a dispatch, by its number in the grid.
    pub(super) fn group(&self, dispatch: &Dispatch, number: u64) -> Group {
        let [x, y, _] = groups(dispatch).map(u64::from);
        let id = [number % x, number / x % y, number / x / y].map(|part| part as u32);
        let mut group = make_group(self.target, dispatch, id, &self.options);
        group.state.number = number;
        group.waves.iter_mut().for_each(|wave| wave.simd = self.simd);
        group
    }

    /// Runs one group for a while; returns true if it executed an instruction.
    pub(super) fn run_group(
        &mut self,
        group: &mut Group,
        space: &mut Space,
        report: &mut Report,
        rest: u64,
    ) -> Result<bool, Fault> {
        let strict = self.options.level == Level::Strict;
        let count = group.waves.len();
        let start = if strict { self.random.below(count) } else { 0 };
        let mut moved = false;
        for offset in 0..count {
            let at = (start + offset) % count;
            let quantum = if strict { 1 + self.random.below(64) as u64 } else { 10_000 };
            moved |= self.run_wave(group, at, space, report, quantum.min(rest))?;
            group.open_barrier();
        }
        Ok(moved)
    }

    /// Runs one wave until it yields or its quantum is over.
    fn run_wave(
        &mut self,
        group: &mut Group,
        at: usize,
        space: &mut Space,
        report: &mut Report,
        quantum: u64,
    ) -> Result<bool, Fault> {
        let Group { state, waves } = group;
        let wave = &mut waves[at];
        if matches!(wave.activity, Activity::Ended | Activity::Halted) {
            return Ok(false);
        }
        let (id, number) = (state.id, wave.number);
        let ordering = self.ordering.as_mut();
        let mut meter = self.meter.as_mut();
        meter.iter_mut().for_each(|meter| meter.group(state.number));
        let (random, trap) = (&mut self.random, self.trap);
        let mut context = Context { wave, group: state, space, report, random, ordering, meter, trap };
        let fault = |pc: u64, cause: Cause| Fault { pc, group: id, wave: number, cause };
        if context.wave.activity == Activity::AtBarrier {
            context.settle().map_err(|cause| fault(context.wave.pc, cause))?;
            return Ok(false);
        }
        let mut outcome = Ok(());
        if context.wave.tracker.is_none() {
            outcome = context.run(&mut self.program, quantum);
        } else {
            for _ in 0..quantum {
                match context.step(&mut self.program) {
                    Ok(Next::Yields) => break,
                    Ok(_) => {}
                    Err(cause) => {
                        outcome = Err(cause);
                        break;
                    }
                }
            }
        }
        match outcome {
            Err(cause) if !context.raise(&cause) => Err(fault(context.wave.pc, cause)),
            _ => Ok(true),
        }
    }
}

/// Most scratch bytes of resident groups, which the host has to hold.
const SCRATCH_MOST: usize = 256 << 20;

fn scratch(groups: &[Group]) -> usize {
    groups.iter().flat_map(|group| &group.waves).map(|wave| wave.scratch.len()).sum()
}

pub(super) fn is_blocked(group: &Group) -> bool {
    group.waves.iter().all(|wave| wave.activity != Activity::Runs)
}

pub(super) fn fault_of(group: &Group, cause: Cause) -> Fault {
    let wave = group.waves.iter().find(|wave| wave.activity != Activity::Ended);
    Fault {
        pc: wave.map_or(0, |wave| wave.pc),
        group: group.state.id,
        wave: wave.map_or(0, |wave| wave.number),
        cause,
    }
}

fn cursor(dispatch: &Dispatch) -> Cursor<'_> {
    Cursor { dispatch, next: 0 }
}
