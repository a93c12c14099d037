//! The watched step: outstanding registers, hazards, control flow.
//!
//! Not here: undefined values (`undefined.rs`), LDS (`check.rs`).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use doorbell_isa::{Access as Direction, Flags, Format, Generation, Operand, Resource, Timing};

use super::context::Context;
use super::fault::Cause;
use super::finding::FindingKind;
use super::handler::Instruction;
use super::registers::{EXEC, Register, VCC, registers};
use super::request::MemoryKind;
use super::step::{Dest, Next, Step};
use super::tracker::{Age, Tracker};
use super::wave::Activity;

impl Context<'_> {
    /// Executes one instruction under all sanitizers.
    pub(crate) fn watched(&mut self, instruction: &Instruction) -> Result<Next, Cause> {
        let step = &instruction.step;
        if let Some(wait) = step.wait {
            self.wait(wait)?;
            return self.execute(instruction);
        }
        while self.random.once_in(8) && self.perform_next()? {}
        self.check_outstanding(step);
        self.check_hazards(step);
        self.check_control(step);
        if step.row().has(Flags::MATRIX) {
            self.check_matrix(step);
        }
        let next = if self.is_tainted(step) {
            self.execute_tainted(instruction)?
        } else {
            self.execute_clean(instruction)?
        };
        if self.wave.activity == Activity::Ended {
            while self.perform_next()? {}
        }
        Ok(next)
    }

    /// Reads and overwrites of registers whose load is outstanding.
    fn check_outstanding(&mut self, step: &Step) {
        let Some(tracker) = &self.wave.tracker else { return };
        if tracker.results == 0 {
            return;
        }
        let in_order = self.wave.target.generation() != Generation::Gfx12;
        let format = step.row().format;
        let mut found = None;
        for (direction, resource) in &step.effects {
            for register in registers(*resource) {
                let Some(pending) = tracker.outstanding(register) else { continue };
                let same_class = match pending.memory {
                    MemoryKind::Lds | MemoryKind::Lanes => format == Format::Ds,
                    MemoryKind::Global | MemoryKind::Scratch => {
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
            let kind = if direction == Direction::Read {
                FindingKind::ReadBeforeWait
            } else {
                FindingKind::WriteBeforeWait
            };
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
        let by_vcc = row.has(Flags::VCC_IN) && tracker.scalar[VCC] != 0;
        let by_exec = row.has(Flags::EXEC_IN) && tracker.scalar[EXEC] != 0;
        let by_register = step.effects.iter().any(|(direction, resource)| {
            *direction == Direction::Read
                && registers(*resource).any(|register| tracker.is_undefined(register, u32::MAX))
        });
        if by_scc || by_vcc || by_exec || by_register {
            self.find(FindingKind::UndefinedControl, step, None, "the condition was never written".into());
        }
    }

    fn check_matrix(&mut self, step: &Step) {
        if self.wave.exec() != u32::MAX {
            let detail = format!("EXEC is {:#010x}", self.wave.exec());
            self.find(FindingKind::MatrixExec, step, None, detail);
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
                    self.find(FindingKind::MatrixCopies, step, None, detail);
                    return;
                }
            }
        }
    }

    fn check_hazards(&mut self, step: &Step) {
        let row = step.row();
        let target = self.wave.target;
        let Some(tracker) = &mut self.wave.tracker else { return };
        let leaves_vector = matches!(
            row.format,
            Format::Ds | Format::Global | Format::Flat | Format::Scratch | Format::Mubuf
        );
        let waits = row.name == "s_waitcnt_depctr" && step.inst.src().first().is_some_and(is_vdst_wait);
        if leaves_vector || waits {
            tracker.trans.clear();
        }
        let mut found = Vec::new();
        if row.is_vector() {
            found = hazards(tracker, step, target.generation());
            note_results(tracker, step);
        }
        let vector = |(_, resource): &(Direction, Resource)| matches!(resource, Resource::Vgpr(_));
        if let Some(pc) = self.wave.released.filter(|_| step.effects.iter().any(vector)) {
            found.push((FindingKind::AfterRelease, pc, "vector registers were given back".into()));
        }
        if let Some((register, pc)) = tracker.scalar_reads.as_mut().and_then(|reads| reads.note(step)) {
            let register = Register::Scalar(register);
            found.push((FindingKind::ScalarHazard, pc, format!("{register:?} may not be there yet")));
        }
        for (kind, other, detail) in found {
            self.find(kind, step, Some(other), detail);
        }
    }
}

/// Hazards that a vector instruction runs into.
fn hazards(tracker: &Tracker, step: &Step, generation: Generation) -> Vec<(FindingKind, u64, String)> {
    let row = step.row();
    let reads = |wanted: usize| {
        step.effects.iter().any(|(direction, resource)| {
            *direction == Direction::Read
                && registers(*resource).any(|register| register == Register::Vector(wanted))
        })
    };
    let mut found = Vec::new();
    let early = tracker.trans.iter().find(|age| reads(age.register));
    if let Some(age) = early.filter(|_| generation == Generation::Gfx11) {
        found.push((
            FindingKind::TransHazard,
            age.pc,
            format!("v{} is a transcendental result", age.register),
        ));
    }
    if row.has(Flags::MATRIX)
        && let Some((first, count, pc)) = tracker.matrix
    {
        let inputs = (0..2).filter_map(|index| step.vsrc(index).zip(row.src.get(index)));
        let overlaps = inputs
            .into_iter()
            .any(|(start, kind)| start < first + count && first < start + usize::from(kind.ty.dwords()));
        if overlaps {
            found.push((FindingKind::MatrixHazard, pc, "input is the result just computed".into()));
        }
    }
    if let Some(pc) = tracker.compared.filter(|_| row.name.starts_with("v_permlane")) {
        found.push((FindingKind::PermlaneHazard, pc, "EXEC was just written".into()));
    }
    found
}

/// Remembers what a vector instruction wrote that the next ones may not read yet.
fn note_results(tracker: &mut Tracker, step: &Step) {
    let row = step.row();
    tracker.matrix = None;
    tracker.compared = row.has(Flags::EXEC_OUT).then_some(step.at);
    let is_trans = row.timing == Timing::Trans;
    tracker.age(is_trans);
    let Dest::Vgpr(first) = step.dst[0] else { return };
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

/// `s_waitcnt_depctr` with va_vdst = 0.
fn is_vdst_wait(operand: &Operand) -> bool {
    matches!(operand, Operand::Immediate(value) if value >> 12 & 15 == 0)
}
