//! One step of one wave: fetch, watch, execute.
//!
//! Not here: which wave runs next (`dispatch.rs`).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use doorbell_isa::{Access as Direction, Counters, Effects, Flags, Format, Generation, Resource, Timing};

use super::check::{Finding, Kind, LdsAccess};
use super::dispatch::Report;
use super::fault::Cause;
use super::group::GroupState;
use super::memory_ops::{Destination, Place, Request};
use super::program::Program;
use super::scalar;
use super::step::{Dest, Next, Run, Step};
use super::tracker::{Age, Pending, Register, Tracker, Wait, registers};
use super::vector;
use super::wave::{Activity, EXEC, Lanes, VCC, Wave};
use crate::memory::{Random, Space};

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
}

impl Core<'_> {
    /// Executes one instruction.
    #[inline]
    pub(crate) fn step(&mut self, program: &mut Program) -> Result<Next, Cause> {
        let step = program.fetch(self.wave.pc, self.space)?;
        if usize::from(step.highest) >= self.wave.vgpr.len() {
            return Err(Cause::Register { number: step.highest.into(), allocated: self.wave.vgpr.len() });
        }
        let next = if self.wave.tracker.is_some() {
            self.watched(step)?
        } else {
            self.execute(step)?
        };
        self.wave.count += 1;
        self.report.count(step);
        if next != Next::Jumped {
            self.wave.pc = step.next();
        }
        Ok(next)
    }

    #[inline]
    fn execute(&mut self, step: &Step) -> Result<Next, Cause> {
        match step.run {
            Run::Scalar(handler) => {
                scalar::execute(self, step, handler);
                Ok(Next::Following)
            }
            Run::Special(handler) => handler(self, step),
            _ => vector::execute(self, step),
        }
    }

    /// Issues a memory operation.
    pub(crate) fn submit(&mut self, step: &Step, mut request: Request) -> Result<(), Cause> {
        let Self { wave, group, space, .. } = self;
        let mut memories = Memories { space, lds: &mut group.lds };
        request.check(wave, &mut memories)?;
        if self.wave.tracker.is_none() {
            let Self { wave, group, space, .. } = self;
            return request.perform(wave, &mut Memories { space, lds: &mut group.lds });
        }
        self.check_memory(step, &mut request);
        let counters = step.inst.counters(self.wave.target);
        let (destination, place) = (request.destination, request.place);
        let pending = Pending {
            request: Some(request),
            destination,
            place,
            counters,
            retired: Counters::NONE,
            pc: step.at,
        };
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.pending.push_back(pending);
        }
        // The memory may answer at any time from now on.
        while self.random.once_in(2) && self.perform_next()? {}
        Ok(())
    }

    /// Performs the oldest operation that is not performed yet; false if there is none.
    fn perform_next(&mut self) -> Result<bool, Cause> {
        let Some(tracker) = &mut self.wave.tracker else { return Ok(false) };
        let Some(pending) = tracker.pending.iter_mut().find(|pending| pending.request.is_some()) else {
            return Ok(false);
        };
        let pc = pending.pc;
        let Some(request) = pending.request.take() else { return Ok(false) };
        self.note_lds(&request, pc);
        let Self { wave, group, space, .. } = self;
        request.perform(wave, &mut Memories { space, lds: &mut group.lds })?;
        self.define(&request);
        Ok(true)
    }

    /// Performs and forgets everything a wait retires.
    fn wait(&mut self, wait: Wait) -> Result<(), Cause> {
        if let Some(tracker) = &mut self.wave.tracker {
            tracker.wait(wait);
        }
        while let Some(at) = self.wave.tracker.as_ref().and_then(|tracker| tracker.retired()) {
            // Operations are performed in issue order, so all before this one come first.
            while self.wave.tracker.as_ref().is_some_and(|tracker| tracker.pending[at].request.is_some()) {
                self.perform_next()?;
            }
            if let Some(tracker) = &mut self.wave.tracker {
                tracker.pending.remove(at);
            }
        }
        Ok(())
    }

    /// Lets some outstanding operations happen while the wave waits.
    pub(crate) fn settle(&mut self) -> Result<(), Cause> {
        while self.random.once_in(4) && self.perform_next()? {}
        Ok(())
    }

    /// Cache maintenance: nothing to do for memory without caches.
    pub(crate) fn maintain(&mut self, _: &Step) {
        self.report.maintenance += 1;
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

    /// Records a finding.
    fn find(&mut self, kind: Kind, step: &Step, other: Option<u64>, detail: String) {
        self.report.find(Finding {
            kind,
            pc: step.at,
            text: text(step, self.wave.target),
            group: self.group.id,
            wave: self.wave.number,
            other,
            detail,
        });
    }
}

fn text(step: &Step, target: doorbell_isa::Target) -> String {
    step.inst.text(target).to_string()
}

/// The watched step.
impl Core<'_> {
    fn watched(&mut self, step: &Step) -> Result<Next, Cause> {
        if let Some(wait) = Wait::of(&step.inst, self.wave.target) {
            self.wait(wait)?;
            return self.execute(step);
        }
        while self.random.once_in(8) && self.perform_next()? {}
        self.check_outstanding(step);
        self.check_hazards(step);
        self.check_control(step);
        if step.row().has(Flags::MATRIX) {
            self.check_matrix(step);
        }
        let next = if self.is_tainted(step) { self.execute_tainted(step)? } else { self.execute_clean(step)? };
        if self.wave.activity == Activity::Ended {
            while self.perform_next()? {}
        }
        Ok(next)
    }

    /// Reads and overwrites of registers whose load is outstanding.
    fn check_outstanding(&mut self, step: &Step) {
        let Some(tracker) = &self.wave.tracker else { return };
        if tracker.pending.is_empty() {
            return;
        }
        let in_order = self.wave.target.generation() != Generation::Gfx12;
        let format = step.row().format;
        let mut found = None;
        for (direction, resource) in &step.effects {
            for register in registers(*resource) {
                let Some(pending) = tracker.outstanding(register) else { continue };
                let same_class = match pending.place {
                    Place::Lds | Place::Lanes => format == Format::Ds,
                    Place::Global | Place::Scratch => {
                        in_order && matches!(format, Format::Global | Format::Scratch | Format::Mubuf)
                    }
                    _ => false,
                };
                let half_load = step.row().has(Flags::READS_DST) && step.row().has(Flags::LOAD);
                let allowed = same_class && (*direction == Direction::Write || half_load);
                if !allowed {
                    found = Some((*direction, register, pending.pc));
                }
            }
        }
        if let Some((direction, register, pc)) = found {
            let kind = if direction == Direction::Read { Kind::ReadBeforeWait } else { Kind::WriteBeforeWait };
            self.find(kind, step, Some(pc), format!("{register:?} is still being loaded"));
        }
    }

    /// Branches and EXEC by undefined values.
    fn check_control(&mut self, step: &Step) {
        let Some(tracker) = &self.wave.tracker else { return };
        let row = step.row();
        if !row.has(Flags::BRANCHES) {
            return;
        }
        let by_scc = row.has(Flags::SCC_IN) && tracker.scc;
        let by_vcc = row.has(Flags::VCC_IN) && tracker.scalar[VCC];
        let by_exec = row.has(Flags::EXEC_IN) && tracker.scalar[EXEC];
        let by_register = step.effects.iter().any(|(direction, resource)| {
            *direction == Direction::Read
                && registers(*resource).any(|register| tracker.is_undefined(register, u32::MAX))
        });
        if by_scc || by_vcc || by_exec || by_register {
            self.find(Kind::UndefinedControl, step, None, "the condition was never written".into());
        }
    }

    fn check_matrix(&mut self, step: &Step) {
        if self.wave.exec() != u32::MAX {
            let detail = format!("EXEC is {:#010x}", self.wave.exec());
            self.find(Kind::MatrixExec, step, None, detail);
        }
        if self.wave.is_gfx12() {
            return;
        }
        for index in 0..2 {
            let (Some(first), Some(kind)) = (step.vsrc(index), step.row().src.get(index)) else { continue };
            for register in first..first + usize::from(kind.ty.dwords()) {
                let value = &self.wave.vgpr[register];
                if value[..16] != value[16..] {
                    let detail = format!("lanes 0 to 15 and 16 to 31 of v{register} differ");
                    self.find(Kind::MatrixCopies, step, None, detail);
                    return;
                }
            }
        }
    }

    fn check_hazards(&mut self, step: &Step) {
        let row = step.row();
        let target = self.wave.target;
        let Some(tracker) = &mut self.wave.tracker else { return };
        let reads = |wanted: usize| {
            step.effects.iter().any(|(direction, resource)| {
                *direction == Direction::Read
                    && registers(*resource).any(|register| register == Register::Vector(wanted))
            })
        };
        let mut found: Vec<(Kind, u64, String)> = Vec::new();
        if matches!(row.format, Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf) {
            tracker.trans.clear();
        }
        if row.name == "s_waitcnt_depctr" && step.inst.src().first().is_some_and(is_vdst_wait) {
            tracker.trans.clear();
        }
        if row.is_vector() {
            let early = tracker.trans.iter().find(|age| reads(age.register));
            if let Some(age) = early.filter(|_| target.generation() == Generation::Gfx11) {
                found.push((Kind::TransHazard, age.pc, format!("v{} is a transcendental result", age.register)));
            }
            if row.has(Flags::MATRIX)
                && let Some((first, count, pc)) = tracker.matrix
            {
                let overlaps = (0..2).filter_map(|index| step.vsrc(index).zip(row.src.get(index))).any(
                    |(start, kind)| start < first + count && first < start + usize::from(kind.ty.dwords()),
                );
                if overlaps {
                    found.push((Kind::MatrixHazard, pc, "input is the result just computed".into()));
                }
            }
            if let Some(pc) = tracker.compared.filter(|_| row.name.starts_with("v_permlane")) {
                found.push((Kind::PermlaneHazard, pc, "EXEC was just written".into()));
            }
            tracker.matrix = None;
            tracker.compared = (row.has(Flags::EXEC_OUT)).then_some(step.at);
            let is_trans = row.timing == Timing::Trans;
            tracker.age(is_trans);
            if let Dest::Vgpr(first) = step.dst[0] {
                let register = usize::from(first);
                if is_trans {
                    tracker.trans.push(Age { register, vector: 0, trans: 0, pc: step.at });
                } else {
                    tracker.trans.retain(|age| age.register != register);
                }
                if row.has(Flags::MATRIX) {
                    tracker.matrix = Some((register, usize::from(row.dst[0].ty.dwords()), step.at));
                }
            }
        }
        let released = self.wave.released
            && step.effects.iter().any(|(_, resource)| matches!(resource, Resource::Vgpr(_)));
        if released {
            found.push((Kind::AfterRelease, step.at, "vector registers were given back".into()));
        }
        for (kind, other, detail) in found {
            self.find(kind, step, Some(other), detail);
        }
    }
}

/// `s_waitcnt_depctr` with va_vdst = 0.
fn is_vdst_wait(operand: &doorbell_isa::Operand) -> bool {
    matches!(operand, doorbell_isa::Operand::Immediate(value) if value >> 12 & 15 == 0)
}

/// Undefined values.
impl Core<'_> {
    /// Whether any source has no value.
    fn is_tainted(&self, step: &Step) -> bool {
        let Some(tracker) = &self.wave.tracker else { return false };
        if step.is_memory() {
            return false;
        }
        let row = step.row();
        (row.has(Flags::SCC_IN) && tracker.scc)
            || step.effects.iter().any(|(direction, resource)| {
                *direction == Direction::Read
                    && match resource {
                        Resource::Scc => tracker.scc,
                        _ => registers(*resource).any(|register| tracker.is_undefined(register, u32::MAX)),
                    }
            })
    }

    /// Executes an instruction without undefined sources: what it writes has a value.
    fn execute_clean(&mut self, step: &Step) -> Result<Next, Cause> {
        let exec = self.wave.exec();
        let next = self.execute(step)?;
        if step.is_memory() {
            return Ok(next);
        }
        let row = step.row();
        let whole = row.has(Flags::MATRIX);
        let lane = written_lane(step, self.wave);
        let Some(tracker) = &mut self.wave.tracker else { return Ok(next) };
        for (direction, resource) in &step.effects {
            if *direction != Direction::Write {
                continue;
            }
            if *resource == Resource::Scc {
                tracker.scc = false;
            }
            for register in registers(*resource) {
                match register {
                    Register::Vector(number) => {
                        let lanes = if whole { u32::MAX } else { lane.unwrap_or(exec) };
                        let halves = step.written_halves();
                        if let Some(slot) = tracker.vector.get_mut(number) {
                            for (half, written) in slot.iter_mut().zip(halves) {
                                *half &= if written { !lanes } else { u32::MAX };
                            }
                        }
                    }
                    Register::Scalar(number) => tracker.scalar[number & 127] = false,
                }
            }
        }
        Ok(next)
    }

    /// Executes an instruction with undefined sources: what changes with them is undefined as well.
    fn execute_tainted(&mut self, step: &Step) -> Result<Next, Cause> {
        let saved = Saved::of(self.wave, step);
        let mut variants: Vec<Saved> = Vec::new();
        let tracker = self.wave.tracker.take();
        for _ in 0..2 {
            if let Some(tracker) = &tracker {
                scramble(self.wave, step, tracker, self.random);
            }
            // Only arithmetic is repeated; control flow reports its undefined condition elsewhere.
            let repeated = !matches!(step.run, Run::Special(_)) || step.row().is_vector();
            let outcome = if repeated { self.execute(step) } else { Ok(Next::Following) };
            variants.push(Saved::of(self.wave, step));
            saved.restore(self.wave);
            outcome?;
        }
        let clean = self.execute(step);
        self.wave.tracker = tracker;
        let exec = saved.sgpr[EXEC];
        let now = Saved::of(self.wave, step);
        let lane = written_lane(step, self.wave).unwrap_or(exec);
        let lanes = if step.row().has(Flags::MATRIX) { u32::MAX } else { lane };
        let Some(tracker) = &mut self.wave.tracker else { return clean };
        mark(tracker, step, &now, &variants, lanes);
        if tracker.scalar[EXEC] {
            tracker.scalar[EXEC] = false;
            self.find(Kind::UndefinedControl, step, None, "EXEC is made of a value never written".into());
        }
        clean
    }

    /// Undefined addresses and data; notes which data have no value.
    fn check_memory(&mut self, step: &Step, request: &mut Request) {
        let exec = request.exec;
        let Some(tracker) = &self.wave.tracker else { return };
        let row = step.row();
        let mut undefined_address = None;
        let mut poison = Vec::new();
        for (index, kind) in row.src.iter().enumerate() {
            let is_data = kind.class == doorbell_isa::kind::Class::Data;
            let operand = step.inst.src().get(index).copied();
            let registers: Vec<Register> = match operand {
                Some(doorbell_isa::Operand::Vgpr(reg)) => registers(Resource::Vgpr(reg)).collect(),
                Some(doorbell_isa::Operand::Scalar(reg)) => registers(Resource::Scalar(reg)).collect(),
                _ => continue,
            };
            let is_swizzle = request.place == Place::Lanes;
            for register in registers {
                if is_data || is_swizzle {
                    if let Register::Vector(number) = register {
                        let [low, high] = tracker.halves(number);
                        let small = request.transfer.bytes() < 4;
                        poison.push(if small { low } else { low | high });
                    }
                } else if tracker.is_undefined(register, exec) {
                    undefined_address = Some(register);
                }
            }
        }
        request.poison = poison;
        if let Some(register) = undefined_address {
            let detail = format!("{register:?} was never written");
            self.find(Kind::UndefinedAddress, step, None, detail);
        }
        let stores_global = request.transfer.writes() && matches!(request.place, Place::Global | Place::Flat);
        let undefined = request.poison.iter().any(|lanes| lanes & exec != 0);
        if stores_global && undefined && (0..32).any(|lane| request.global_piece(lane).is_some()) {
            self.find(Kind::UndefinedStore, step, None, "a lane's value was never written".into());
        }
    }

    /// After an operation was performed: which registers and bytes have a value now.
    fn define(&mut self, request: &Request) {
        let Self { wave, group, space, .. } = self;
        let Some(mut tracker) = wave.tracker.take() else { return };
        let bytes = request.transfer.bytes();
        let mut undefined: Lanes = [0; 32];
        for lane in (0..32).filter(|lane| request.exec >> lane & 1 != 0) {
            let poisoned = request.poison.iter().any(|lanes| lanes >> lane & 1 != 0);
            if request.place == Place::Lanes {
                continue;
            }
            let shadow = group.shadow.as_mut();
            let pieces = request.lds_pieces(lane);
            if request.transfer.writes() {
                if let Some(shadow) = shadow {
                    for (start, len) in pieces.into_iter().flatten() {
                        shadow.define(start, len, !poisoned);
                    }
                }
                if let Some((start, len)) = request.scratch_piece(wave, lane) {
                    tracker.scratch.set(start, len, !poisoned);
                }
                if let Some((start, len)) = request.global_piece(lane).filter(|_| poisoned) {
                    space.undefine(start, len);
                }
                continue;
            }
            let count = bytes.div_ceil(4);
            for word in 0..count {
                let (skip, len) = (4 * word, (bytes - 4 * word).min(4));
                let in_lds = |piece: Option<(usize, usize)>| {
                    piece.is_none_or(|(start, _)| {
                        group.shadow.as_ref().is_none_or(|shadow| shadow.is_defined(start + skip, len))
                    })
                };
                let in_scratch = request
                    .scratch_piece(wave, lane)
                    .is_none_or(|(start, _)| tracker.scratch.all(start + skip, len));
                let in_space = request
                    .global_piece(lane)
                    .is_none_or(|(start, _)| space.is_defined(start + skip as u64, len));
                let first = in_lds(pieces[0]) && in_scratch && in_space;
                undefined[lane] |= u32::from(!first) << word;
                if request.second != 0 {
                    undefined[lane] |= u32::from(!in_lds(pieces[1])) << (count + word);
                }
            }
        }
        set_loaded(&mut tracker, request, &undefined);
        wave.tracker = Some(tracker);
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
            self.report.find(Finding {
                kind: Kind::LdsRace,
                pc,
                text: String::new(),
                group: self.group.id,
                wave,
                other: Some(other),
                detail: format!("LDS byte {start:#x}"),
            });
        }
    }
}

/// The only lane that `v_writelane_b32` writes.
fn written_lane(step: &Step, wave: &Wave) -> Option<u32> {
    (step.row().name == "v_writelane_b32").then(|| 1 << (scalar::operand(wave, step, 1) & 31))
}

fn set_loaded(tracker: &mut Tracker, request: &Request, undefined: &Lanes) {
    match request.destination {
        Destination::Vector(first, count) => {
            let half = match request.transfer {
                super::memory_ops::Transfer::LoadHalf { high, .. } => [!high, high],
                _ => [true, true],
            };
            for index in 0..count {
                let bits = if request.place == Place::Lanes { 0 } else { index };
                let lanes = (0..32).fold(0, |mask, lane| mask | (undefined[lane] >> bits & 1) << lane);
                let Some(slot) = tracker.vector.get_mut(first + index) else { continue };
                for (slot, written) in slot.iter_mut().zip(half) {
                    if written {
                        *slot = *slot & !request.exec | lanes & request.exec;
                    }
                }
            }
        }
        Destination::Scalar(first, count) => {
            for index in 0..count {
                tracker.scalar[(first + index) & 127] = undefined[0] >> index & 1 != 0;
            }
        }
        Destination::Nothing => {}
    }
}

/// The state that an instruction may change.
struct Saved {
    vectors: Vec<(usize, Lanes)>,
    sgpr: [u32; 128],
    scc: bool,
    mode: super::mode::Mode,
}

impl Saved {
    fn of(wave: &Wave, step: &Step) -> Self {
        let mut vectors = Vec::new();
        for (_, resource) in &step.effects {
            for register in registers(*resource) {
                if let Register::Vector(number) = register {
                    vectors.push((number, wave.vgpr[number]));
                }
            }
        }
        Self { vectors, sgpr: wave.sgpr, scc: wave.scc, mode: wave.mode }
    }

    fn restore(&self, wave: &mut Wave) {
        for (number, value) in &self.vectors {
            wave.vgpr[*number] = *value;
        }
        wave.sgpr = self.sgpr;
        wave.scc = self.scc;
        wave.mode = self.mode;
    }

    fn vector(&self, number: usize) -> Option<&Lanes> {
        self.vectors.iter().find(|(found, _)| *found == number).map(|(_, value)| value)
    }
}

/// Replaces undefined source values by random ones.
fn scramble(wave: &mut Wave, step: &Step, tracker: &Tracker, random: &mut Random) {
    for (direction, resource) in &step.effects {
        if *direction != Direction::Read {
            continue;
        }
        if *resource == Resource::Scc && tracker.scc {
            wave.scc = random.once_in(2);
        }
        for register in registers(*resource) {
            match register {
                Register::Vector(number) => {
                    let [low, high] = tracker.halves(number);
                    for (lane, value) in wave.vgpr[number].iter_mut().enumerate() {
                        let noise = random.next() as u32;
                        let mask = if low >> lane & 1 != 0 { 0xffff } else { 0 }
                            | if high >> lane & 1 != 0 { 0xffff_0000 } else { 0 };
                        *value = *value & !mask | noise & mask;
                    }
                }
                Register::Scalar(number) if tracker.scalar[number & 127] => {
                    wave.set_scalar(number, random.next() as u32);
                }
                Register::Scalar(_) => {}
            }
        }
    }
}

/// Marks as undefined what differs between the variants.
fn mark(tracker: &mut Tracker, step: &Step, now: &Saved, variants: &[Saved], lanes: u32) {
    for (direction, resource) in &step.effects {
        if *direction != Direction::Write {
            continue;
        }
        if *resource == Resource::Scc {
            tracker.scc = variants.iter().any(|variant| variant.scc != now.scc);
        }
        for register in registers(*resource) {
            match register {
                Register::Vector(number) => {
                    let Some(value) = now.vector(number) else { continue };
                    let mut differ = [0; 2];
                    for other in variants.iter().filter_map(|variant| variant.vector(number)) {
                        for lane in 0..32 {
                            let change = value[lane] ^ other[lane];
                            differ[0] |= u32::from(change & 0xffff != 0) << lane;
                            differ[1] |= u32::from(change >> 16 != 0) << lane;
                        }
                    }
                    let halves = step.written_halves();
                    if let Some(slot) = tracker.vector.get_mut(number) {
                        for ((slot, differ), written) in slot.iter_mut().zip(differ).zip(halves) {
                            if written {
                                *slot = *slot & !lanes | differ & lanes;
                            }
                        }
                    }
                }
                Register::Scalar(number) => {
                    let number = number & 127;
                    tracker.scalar[number] =
                        variants.iter().any(|variant| variant.sgpr[number] != now.sgpr[number]);
                }
            }
        }
    }
}

/// What an instruction reads and writes, as a list.
pub(crate) fn effects_of(inst: &doorbell_isa::Inst) -> Vec<(Direction, Resource)> {
    Effects::of(inst).iter().collect()
}
