//! Dispatches: from a grid to resident workgroups, and the order in which their waves run.
//!
//! The seed decides every order, so equal seeds give equal runs. Not here: packets (`command`), descriptors (`code`),
//! several host threads (`parallel.rs`).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use doorbell_isa::{Generation, Op, Target, Timing};

use super::check::{Finding, Kind};
use super::fault::{Cause, Fault};
use super::group::{Group, GroupState};
use super::meter::{Meter, Profile};
use super::mode::Mode;
use super::ordering::Ordering;
use super::program::Program;
use super::scalar_hazard::ScalarReads;
use super::step::{Next, Step};
use super::tracker::{Register, Tracker};
use super::trap::{Message, Trap};
use super::unit::Core;
use super::wave::{Activity, EXEC, TTMP, Wave};
use crate::memory::{Random, Simd, Space};

/// How much is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Results only.
    Fast,
    /// All sanitizers, late memory, random order.
    Strict,
}

/// What the packet processor makes of an AQL packet that runs a list of PM4 words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lists {
    /// It runs the list.
    #[default]
    Run,
    /// It refuses the packet, as firmware does that does not know it.
    Refuse,
    /// It never completes the packet.
    Ignore,
    /// It completes the packet and runs nothing.
    Skip,
}

/// Choices of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much is watched.
    pub level: Level,
    /// Seed of every choice.
    pub seed: u64,
    /// Instructions of all waves of one run, at most.
    pub budget: u64,
    /// Instructions without any store or barrier after which nothing is expected to happen any more.
    pub patience: u64,
    /// Workgroups that are resident at a time.
    pub resident: usize,
    /// Distance added to transcendental results, in last places: -1, 0 or 1.
    pub perturb: i32,
    /// Host threads that share the workgroups of fast runs, where nothing makes one group wait for another or depend on
    /// its order: no global atomic, no coherent load, no computed jump, no budget. Results do not depend on the number,
    /// unless the kernel has a race.
    pub threads: usize,
    /// Whether strict runs know the gfx12 rule for scalar registers that vector instructions read. Compilers of LLVM before
    /// 22 do not, so their code has findings.
    pub scalar_reads: bool,
    /// Whether every dispatch is counted by itself ([`Engine::take_profiles`]); dispatches run one after another then,
    /// on one thread, and more slowly.
    pub count: bool,
    /// What becomes of lists.
    pub lists: Lists,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: Level::Strict,
            seed: 0,
            budget: u64::MAX,
            patience: 20_000_000,
            resident: 32,
            perturb: 0,
            threads: 1,
            scalar_reads: true,
            count: false,
            lists: Lists::Run,
        }
    }
}

/// One kernel launch, as the command processor has read it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dispatch {
    /// What reports call it.
    pub name: String,
    /// Address of the first instruction.
    pub entry: u64,
    /// Work-items per dimension.
    pub grid: [u32; 3],
    /// Work-items per group and dimension.
    pub group: [u32; 3],
    /// LDS bytes per group.
    pub lds: usize,
    /// Scratch bytes per work-item.
    pub scratch: usize,
    /// Vector registers per wave.
    pub vgprs: usize,
    /// Initial scalar registers from s0 (user SGPRs with their padding).
    pub user: Vec<u32>,
    /// Which user SGPRs hold a value.
    pub user_defined: u32,
    /// Group ids X, Y, Z wanted in scalar registers.
    pub ids: [bool; 3],
    /// MODE.
    pub mode: u32,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Wave instructions.
    pub instructions: u64,
    /// The same by timing class, in the order of [`Timing`].
    pub mix: [u64; 20],
    /// Sanitizer findings, at most [`Report::MOST`] and one per instruction and kind.
    pub findings: Vec<Finding>,
    /// Interrupt messages.
    pub interrupts: u64,
    /// Those of them that nobody has taken yet, at most [`Report::MOST`].
    pub messages: Vec<Message>,
    /// Cache invalidations and write-backs.
    pub maintenance: u64,
    /// Workgroups finished.
    pub groups: u64,
}

impl Report {
    /// Findings and messages kept.
    pub const MOST: usize = 64;

    #[inline]
    pub(crate) fn count(&mut self, step: &Step) {
        self.instructions += 1;
        self.mix[step.timing as usize] += 1;
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.mix.iter_mut().zip(other.mix).for_each(|(sum, count)| *sum += count);
        self.interrupts += other.interrupts;
        let room = Self::MOST.saturating_sub(self.messages.len());
        self.messages.extend(other.messages.iter().take(room));
        self.maintenance += other.maintenance;
        self.groups += other.groups;
    }

    /// An interrupt message of a wave.
    pub(crate) fn send(&mut self, message: Message) {
        self.interrupts += 1;
        if self.messages.len() < Self::MOST {
            self.messages.push(message);
        }
    }

    /// Whether a finding of this kind at this instruction would not be kept.
    pub(crate) fn is_known(&self, kind: Kind, pc: u64) -> bool {
        self.findings.len() >= Self::MOST
            || self.findings.iter().any(|other| other.kind == kind && other.pc == pc)
    }

    pub(crate) fn find(&mut self, finding: Finding) {
        if !self.is_known(finding.kind, finding.pc) {
            self.findings.push(finding);
        }
    }

    /// Instructions of one timing class.
    pub fn of(&self, timing: Timing) -> u64 {
        self.mix[timing as usize]
    }
}

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

/// Where the next group of a dispatch is.
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

    /// The choices.
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

    /// Where the exceptions of the next runs go; without a handler they end the run.
    pub fn set_trap(&mut self, trap: Option<Trap>) {
        self.trap = trap;
        self.workers.iter_mut().for_each(|worker| worker.set_trap(trap));
    }

    /// Profiles of the dispatches that ended since the last call, oldest first, if they are counted.
    pub fn take_profiles(&mut self) -> Vec<Profile> {
        core::mem::take(&mut self.profiles)
    }

    /// Profiles that nobody has taken yet.
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

    /// Runs dispatches that nothing orders among each other, all at once.
    ///
    /// # Errors
    ///
    /// The first fault; memory keeps what was stored until then.
    pub fn run(&mut self, dispatches: &[Dispatch], space: &mut Space) -> Result<Report, Fault> {
        let mut report = Report::default();
        self.run_into(dispatches, space, &mut report)?;
        Ok(report)
    }

    /// The same, adding to a report that survives a fault.
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
        if let Some(outcome) = self.share(dispatches, space, report) {
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
            let moved = self.turn(&mut groups[at], space, report, rest)?;
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
                return Err(halted.unwrap_or_else(|| stop(&groups[at], Cause::Deadlock)));
            }
            if report.instructions >= self.options.budget {
                return Err(halted.unwrap_or_else(|| stop(&groups[at], Cause::Budget)));
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

    /// Lets one group run for a while; whether anything was executed.
    pub(super) fn turn(
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
        let mut core = Core { wave, group: state, space, report, random, ordering, meter, trap };
        let fault = |pc: u64, cause: Cause| Fault { pc, group: id, wave: number, cause };
        if core.wave.activity == Activity::AtBarrier {
            core.settle().map_err(|cause| fault(core.wave.pc, cause))?;
            return Ok(false);
        }
        let mut outcome = Ok(());
        if core.wave.tracker.is_none() {
            outcome = core.run(&mut self.program, quantum);
        } else {
            for _ in 0..quantum {
                match core.step(&mut self.program) {
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
            Err(cause) if !core.raise(&cause) => Err(fault(core.wave.pc, cause)),
            _ => Ok(true),
        }
    }
}

/// Scratch bytes of resident groups beyond which no other becomes resident: the host has to hold them.
const SCRATCH_MOST: usize = 256 << 20;

fn scratch(groups: &[Group]) -> usize {
    groups.iter().flat_map(|group| &group.waves).map(|wave| wave.scratch.len()).sum()
}

pub(super) fn is_blocked(group: &Group) -> bool {
    group.waves.iter().all(|wave| wave.activity != Activity::Runs)
}

pub(super) fn stop(group: &Group, cause: Cause) -> Fault {
    let wave = group.waves.iter().find(|wave| wave.activity != Activity::Ended);
    Fault {
        pc: wave.map_or(0, |wave| wave.pc),
        group: group.state.id,
        wave: wave.map_or(0, |wave| wave.number),
        cause,
    }
}

/// Groups in all; a launch may claim more than can be counted.
pub(super) fn group_count(dispatch: &Dispatch) -> u64 {
    groups(dispatch).into_iter().fold(1, |product, count| product.saturating_mul(count.into()))
}

/// Groups per dimension.
pub(super) fn groups(dispatch: &Dispatch) -> [u32; 3] {
    let mut count = [0; 3];
    for (count, (grid, group)) in count.iter_mut().zip(dispatch.grid.iter().zip(dispatch.group)) {
        *count = grid.div_ceil(group.max(1));
    }
    count
}

fn cursor(dispatch: &Dispatch) -> Cursor<'_> {
    Cursor { dispatch, next: 0 }
}

/// A group at its start: work-items beyond the grid do not exist.
fn make_group(target: Target, dispatch: &Dispatch, id: [u32; 3], options: &Options) -> Group {
    let strict = options.level == Level::Strict;
    let watches_scalars = options.scalar_reads && target.generation() == Generation::Gfx12;
    let mut size = [1; 3];
    for (axis, size) in size.iter_mut().enumerate() {
        let start = id[axis].saturating_mul(dispatch.group[axis]);
        *size = dispatch.group[axis].max(1).min(dispatch.grid[axis].saturating_sub(start)).max(1);
    }
    let items: u32 = size.iter().product();
    let mut state = GroupState::new(id, dispatch.lds, strict);
    if strict {
        state.kernel = match dispatch.name.as_str() {
            "" => format!("kernel at {:#x}", dispatch.entry),
            name => name.into(),
        };
    }
    let waves = (0..items.div_ceil(32))
        .map(|number| {
            let mut wave = Wave::new(target, dispatch.vgprs, dispatch.scratch);
            wave.number = number;
            wave.pc = dispatch.entry;
            wave.mode = Mode(dispatch.mode);
            wave.perturb = options.perturb;
            let lanes = (items - number * 32).min(32);
            wave.sgpr[EXEC] = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
            if let Some(ids) = wave.vgpr.first_mut() {
                for (lane, slot) in (0u32..).zip(ids.iter_mut()) {
                    let item = number * 32 + lane;
                    let [x, y, z] = [item % size[0], item / size[0] % size[1], item / size[0] / size[1]];
                    *slot = x | y << 10 | z << 20;
                }
            }
            if strict {
                let mut tracker = Tracker::new(dispatch.vgprs, dispatch.scratch.saturating_mul(32));
                tracker.scalar_reads = watches_scalars.then(ScalarReads::default);
                wave.tracker = Some(alloc::boxed::Box::new(tracker));
                define(&mut wave, Register::Vector(0));
            }
            set_scalars(&mut wave, dispatch, id);
            wave
        })
        .collect();
    Group { state, waves }
}

fn define(wave: &mut Wave, register: Register) {
    let Some(tracker) = &mut wave.tracker else { return };
    match register {
        Register::Vector(number) => tracker.clear_lanes(number, u32::MAX, u32::MAX),
        Register::Scalar(number) => tracker.scalar[number & 127] = 0,
    }
}

/// User SGPRs and group ids. gfx12 has the ids in ttmp9 and ttmp7 (reference: initial wave state).
fn set_scalars(wave: &mut Wave, dispatch: &Dispatch, id: [u32; 3]) {
    for (number, value) in dispatch.user.iter().enumerate() {
        wave.set_scalar(number, *value);
        if dispatch.user_defined >> number & 1 != 0 {
            define(wave, Register::Scalar(number));
        }
    }
    if wave.is_gfx12() {
        wave.sgpr[TTMP + 9] = id[0];
        wave.sgpr[TTMP + 7] = id[1] & 0xffff | id[2] << 16;
        define(wave, Register::Scalar(TTMP + 9));
        define(wave, Register::Scalar(TTMP + 7));
        return;
    }
    let wanted = id.iter().zip(dispatch.ids).filter(|(_, wanted)| *wanted);
    for (number, (value, _)) in (dispatch.user.len()..).zip(wanted) {
        wave.set_scalar(number, *value);
        define(wave, Register::Scalar(number));
    }
}
