//! Undefined values: which bits have none, and where they must not go.
//!
//! An instruction with undefined sources is repeated with other values in their place; what differs in
//! its results is undefined as well. Not here: who calls (`watch.rs`, `unit.rs`).

use alloc::format;
use alloc::vec::Vec;

use doorbell_isa::operand_kind::Class;
use doorbell_isa::{Access as Direction, Flags, Operand, Resource};

use super::check::Kind;
use super::fault::Cause;
use super::memory_ops::{Destination, Place, Request, Transfer};
use super::mode::Mode;
use super::scalar;
use super::step::{Next, Run, Source, Step};
use super::tracker::{Register, Tracker, registers};
use super::unit::Core;
use super::wave::{EXEC, Lanes, Wave};
use crate::memory::Random;

impl Core<'_> {
    /// Whether any source has no value.
    pub(crate) fn is_tainted(&self, step: &Step) -> bool {
        let Some(tracker) = &self.wave.tracker else { return false };
        if step.is_memory() {
            return false;
        }
        (step.row().has(Flags::SCC_IN) && tracker.scc)
            || step.effects.iter().any(|(direction, resource)| {
                *direction == Direction::Read
                    && match resource {
                        Resource::Scc => tracker.scc,
                        _ => registers(*resource).any(|register| tracker.is_undefined(register, u32::MAX)),
                    }
            })
    }

    /// Executes an instruction without undefined sources: what it writes has a value.
    pub(crate) fn execute_clean(&mut self, step: &Step) -> Result<Next, Cause> {
        let exec = self.wave.exec();
        let next = self.execute(step)?;
        if step.is_memory() {
            return Ok(next);
        }
        let lanes = written_lanes(step, self.wave, exec);
        let bits = step.written;
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
                    Register::Vector(number) => tracker.clear_lanes(number, lanes, bits),
                    Register::Scalar(number) => tracker.scalar[number & 127] = 0,
                }
            }
        }
        Ok(next)
    }

    /// Executes an instruction with undefined sources.
    pub(crate) fn execute_tainted(&mut self, step: &Step) -> Result<Next, Cause> {
        let saved = Saved::of(self.wave, step);
        let mut variants: Vec<Saved> = Vec::new();
        let tracker = self.wave.tracker.take();
        // Only arithmetic is repeated; control flow reports its undefined condition elsewhere.
        let repeated = !matches!(step.run, Run::Special(_)) || step.row().is_vector();
        for fill in if repeated { &[Fill::Random, Fill::Complement, Fill::Other][..] } else { &[] } {
            if let Some(tracker) = &tracker {
                scramble(self.wave, step, tracker, *fill, self.random);
            }
            let outcome = self.execute(step);
            variants.push(Saved::of(self.wave, step));
            saved.restore(self.wave);
            outcome?;
        }
        let outcome = self.execute(step);
        self.wave.tracker = tracker;
        let now = Saved::of(self.wave, step);
        let lanes = written_lanes(step, self.wave, saved.sgpr[EXEC]);
        let Some(tracker) = &mut self.wave.tracker else { return outcome };
        mark(tracker, step, &now, &variants, lanes);
        if tracker.scalar[EXEC] != 0 {
            let bits = core::mem::take(&mut tracker.scalar[EXEC]);
            let detail = format!("lanes {bits:#010x} of EXEC come from a value never written");
            self.find(Kind::UndefinedControl, step, None, detail);
        }
        outcome
    }

    /// Undefined addresses and data at issue; notes which bits of the data have no value.
    pub(crate) fn check_memory(&mut self, step: &Step, request: &mut Request) {
        let exec = request.exec;
        let Some(tracker) = &self.wave.tracker else { return };
        let mut undefined_address = None;
        let (mut poison, mut any) = (Vec::new(), false);
        for (kind, operand) in step.row().src.iter().zip(step.inst.src()) {
            let resource = match operand {
                Operand::Vgpr(reg) => Resource::Vgpr(*reg),
                Operand::Scalar(reg) => Resource::Scalar(*reg),
                _ => continue,
            };
            for register in registers(resource) {
                match register {
                    Register::Vector(number) if kind.class == Class::Data => {
                        poison.push(tracker.lanes(number));
                        any |= tracker.is_undefined(register, exec);
                    }
                    _ if request.place == Place::Lanes => {}
                    _ if tracker.is_undefined(register, exec) => undefined_address = Some(register),
                    _ => {}
                }
            }
        }
        let stored = poison.iter().any(|lanes: &Lanes| {
            (0..32).any(|lane| exec >> lane & 1 != 0 && lanes[lane] & stored_bits(request.transfer) != 0)
        });
        request.poison = if any { poison } else { Vec::new() };
        if let Some(register) = undefined_address {
            let detail = format!("{register:?} was never written");
            self.find(Kind::UndefinedAddress, step, None, detail);
        }
        let stores_global = request.transfer.writes() && matches!(request.place, Place::Global | Place::Flat);
        if stores_global && stored && (0..32).any(|lane| request.global_piece(lane).is_some()) {
            self.find(Kind::UndefinedStore, step, None, "a lane's value was never written".into());
        }
    }

    /// After an operation was performed: which registers and bytes have a value now.
    pub(crate) fn define(&mut self, request: &Request) {
        if request.place == Place::Lanes {
            if let (Destination::Vector(first, _), Some(tracker)) =
                (request.destination, &mut self.wave.tracker)
            {
                tracker.clear_lanes(first, request.exec, u32::MAX);
            }
            return;
        }
        if self.is_defined(request) {
            return;
        }
        let Some(mut tracker) = self.wave.tracker.take() else { return };
        let words = request.transfer.bytes().div_ceil(4) * if request.second == 0 { 1 } else { 2 };
        let mut loaded: Vec<Lanes> = alloc::vec![[0; 32]; words];
        for lane in (0..32).filter(|lane| request.exec >> lane & 1 != 0 && request.outside >> lane & 1 == 0) {
            if request.transfer.writes() {
                self.define_stored(&mut tracker, request, lane);
            } else {
                self.undefined_loaded(&tracker, request, lane, &mut loaded);
            }
        }
        if !request.transfer.writes() {
            set_loaded(&mut tracker, request, &loaded);
        } else if let Destination::Vector(first, count) = request.destination {
            for number in first..first + count {
                tracker.clear_lanes(number, request.exec, u32::MAX);
            }
        }
        self.wave.tracker = Some(tracker);
    }

    /// Whether an operation moved only bytes that have a value, between registers and global memory; what it loaded
    /// has one then.
    fn is_defined(&mut self, request: &Request) -> bool {
        if request.place != Place::Global || !request.poison.is_empty() || self.space.is_tracked() {
            return false;
        }
        let bits = match request.transfer {
            Transfer::LoadHalf { high, .. } => {
                if high {
                    0xffff_0000
                } else {
                    0xffff
                }
            }
            _ => u32::MAX,
        };
        if let (Destination::Vector(first, count), Some(tracker)) =
            (request.destination, &mut self.wave.tracker)
        {
            (first..first + count).for_each(|number| tracker.clear_lanes(number, request.exec, bits));
        }
        true
    }

    /// Bytes that a lane has stored.
    fn define_stored(&mut self, tracker: &mut Tracker, request: &Request, lane: usize) {
        let shift = if matches!(request.transfer, Transfer::StoreSmall { high: true, .. }) { 2 } else { 0 };
        let per = request.transfer.bytes();
        let atomic = matches!(request.transfer, Transfer::Atomic { .. });
        let byte = |at: usize| {
            let at = at + shift;
            let bits = request.poison.get(at / 4).map_or(0, |lanes| lanes[lane]);
            if atomic { 0 } else { (bits >> (8 * (at % 4))) as u8 }
        };
        let scratch = request.scratch_piece(self.wave, lane);
        for (piece, range) in request.lds_pieces(lane).into_iter().enumerate() {
            let (Some((start, len)), Some(shadow)) = (range, &mut self.group.shadow) else { continue };
            if request.poison.is_empty() {
                shadow.define(start, len, true);
                continue;
            }
            for at in 0..len {
                shadow.define(start + at, 1, byte(piece * per + at) == 0);
            }
        }
        if let Some((start, len)) = scratch {
            for at in 0..len {
                if let Some(slot) = tracker.scratch.get_mut(start + at) {
                    *slot = byte(at);
                }
            }
        }
        if let Some((start, len)) = request.global_piece(lane) {
            for at in (0..len).filter(|at| byte(*at) != 0) {
                self.space.undefine(start + at as u64, 1);
            }
        }
    }

    /// Undefined bits of what a lane has loaded, word by word.
    fn undefined_loaded(&mut self, tracker: &Tracker, request: &Request, lane: usize, loaded: &mut [Lanes]) {
        let per = request.transfer.bytes();
        let mut set = |word: usize, at: usize, bits: u8| {
            if let Some(slot) = loaded.get_mut(word) {
                slot[lane] |= u32::from(bits) << (8 * at);
            }
        };
        for (piece, range) in request.lds_pieces(lane).into_iter().enumerate() {
            let (Some((start, len)), Some(shadow)) = (range, &self.group.shadow) else { continue };
            if shadow.is_defined(start, len) {
                continue;
            }
            for at in (0..len).filter(|at| !shadow.is_defined(start + at, 1)) {
                set((piece * per + at) / 4, at % 4, 0xff);
            }
        }
        if let Some((start, len)) = request.scratch_piece(self.wave, lane) {
            for at in 0..len {
                set(at / 4, at % 4, tracker.scratch.get(start + at).copied().unwrap_or(0));
            }
        }
        if let Some((start, len)) = request.global_piece(lane)
            && !self.space.is_defined(start, len)
        {
            for at in (0..len).filter(|at| !self.space.is_defined(start + *at as u64, 1)) {
                set(at / 4, at % 4, 0xff);
            }
        }
    }
}

/// Bits of a data register that a store writes.
fn stored_bits(transfer: Transfer) -> u32 {
    match transfer {
        Transfer::StoreSmall { bytes, high } => {
            let mask = if bytes == 1 { 0xff } else { 0xffff };
            if high { mask << 16 } else { mask }
        }
        _ => u32::MAX,
    }
}

/// Lanes of a vector register that an instruction writes.
fn written_lanes(step: &Step, wave: &Wave, exec: u32) -> u32 {
    if step.row().name == "v_writelane_b32" {
        return 1 << (scalar::operand(wave, step, 1) & 31);
    }
    if step.row().has(Flags::MATRIX) { u32::MAX } else { exec }
}

/// Spreads the undefined bits of a byte or halfword over what it is extended to.
fn extended(bits: u32, bytes: u8, signed: bool) -> u32 {
    let top = 8 * u32::from(bytes) - 1;
    if signed && bits >> top & 1 != 0 { bits | u32::MAX << top } else { bits }
}

fn set_loaded(tracker: &mut Tracker, request: &Request, loaded: &[Lanes]) {
    match request.destination {
        Destination::Vector(first, count) => {
            for (index, lanes) in loaded.iter().enumerate().take(count) {
                let (value, bits) = match request.transfer {
                    Transfer::LoadSmall { bytes, signed } => {
                        (lanes.map(|bits| extended(bits, bytes, signed)), u32::MAX)
                    }
                    Transfer::LoadHalf { bytes, signed, high: false } => {
                        (lanes.map(|bits| extended(bits, bytes, signed)), 0xffff)
                    }
                    Transfer::LoadHalf { bytes, signed, high: true } => {
                        (lanes.map(|bits| extended(bits, bytes, signed) << 16), 0xffff_0000)
                    }
                    _ => (*lanes, u32::MAX),
                };
                tracker.set_lanes(first + index, &value, request.exec, bits);
            }
        }
        Destination::Scalar(first, count) => {
            for (index, lanes) in loaded.iter().enumerate().take(count) {
                tracker.scalar[(first + index) & 127] = lanes[0];
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
    mode: Mode,
}

impl Saved {
    fn of(wave: &Wave, step: &Step) -> Self {
        let all = step.effects.iter().flat_map(|(_, resource)| registers(*resource));
        let vectors = all.filter_map(|register| match register {
            Register::Vector(number) => wave.vgpr.get(number).map(|value| (number, *value)),
            Register::Scalar(_) => None,
        });
        Self { vectors: vectors.collect(), sgpr: wave.sgpr, scc: wave.scc, mode: wave.mode }
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

/// What takes the place of undefined bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Random bits.
    Random,
    /// The opposite of what is there.
    Complement,
    /// The bits of the other source, for comparisons.
    Other,
}

/// A source as one value per lane.
fn lanes_of(wave: &Wave, source: Source) -> Lanes {
    match source {
        Source::Vgpr(number) => wave.vgpr[usize::from(number)],
        Source::Scalar(number) | Source::Mask(number) => [wave.scalar(usize::from(number)); 32],
        Source::Const(value) => [value as u32; 32],
        Source::Scc => [u32::from(wave.scc); 32],
    }
}

/// Replaces undefined source bits.
fn scramble(wave: &mut Wave, step: &Step, tracker: &Tracker, fill: Fill, random: &mut Random) {
    if tracker.scc {
        wave.scc = match fill {
            Fill::Random => random.once_in(2),
            _ => !wave.scc,
        };
    }
    let sources = [lanes_of(wave, step.src[0]), lanes_of(wave, step.src[1])];
    let is_second = |found: bool, number: usize| match step.src[1] {
        Source::Vgpr(first) => found && usize::from(first) == number,
        Source::Scalar(first) => !found && usize::from(first) == number,
        _ => false,
    };
    let mut bits = |old: u32, mask: u32, other: u32| {
        let new = match fill {
            Fill::Random => random.bits() as u32,
            Fill::Complement => !old,
            Fill::Other => other,
        };
        old & !mask | new & mask
    };
    for (direction, resource) in &step.effects {
        if *direction != Direction::Read {
            continue;
        }
        for register in registers(*resource) {
            match register {
                Register::Vector(number) => {
                    let other = &sources[usize::from(!is_second(true, number))];
                    let masks = tracker.lanes(number);
                    let lanes = wave.vgpr[number].iter_mut().zip(masks).zip(other);
                    for ((value, mask), other) in lanes {
                        *value = bits(*value, mask, *other);
                    }
                }
                Register::Scalar(number) => {
                    let other = sources[usize::from(!is_second(false, number))][0];
                    let value = bits(wave.scalar(number), tracker.scalar[number & 127], other);
                    wave.set_scalar(number, value);
                }
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
                    let mut differ = [0; 32];
                    for other in variants.iter().filter_map(|variant| variant.vector(number)) {
                        for (lane, differ) in differ.iter_mut().enumerate() {
                            *differ |= value[lane] ^ other[lane];
                        }
                    }
                    tracker.set_lanes(number, &differ, lanes, step.written);
                }
                Register::Scalar(number) => {
                    let number = number & 127;
                    let differ = variants.iter().map(|variant| variant.sgpr[number] ^ now.sgpr[number]);
                    tracker.scalar[number] = differ.fold(0, |all, bits| all | bits);
                }
            }
        }
    }
}
