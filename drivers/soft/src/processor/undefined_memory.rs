//! Undefined values in memory operations: addresses, stored data, loaded data.
//!
//! Not here: undefined values in arithmetic (`undefined.rs`).

use alloc::format;
use alloc::vec::Vec;

use doorbell_isa::operand_kind::Class;
use doorbell_isa::{Operand, Resource};

use super::context::Context;
use super::finding::FindingKind;
use super::registers::{Lanes, Register, registers};
use super::request::{Destination, MemoryKind, Request};
use super::step::Step;
use super::tracker::Tracker;
use super::transfer::Transfer;

impl Context<'_> {
    /// Finds undefined addresses and data at issue, and records the undefined bits of the data.
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
                    _ if request.memory == MemoryKind::Lanes => {}
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
            self.find(FindingKind::UndefinedAddress, step, None, detail);
        }
        let stores_global =
            request.transfer.writes() && matches!(request.memory, MemoryKind::Global | MemoryKind::Flat);
        if stores_global && stored && (0..32).any(|lane| request.global_piece(lane).is_some()) {
            self.find(FindingKind::UndefinedStore, step, None, "a lane's value was never written".into());
        }
    }

    /// Updates the registers and bytes with a value after an operation was performed.
    pub(crate) fn define(&mut self, request: &Request) {
        if request.memory == MemoryKind::Lanes {
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

    /// True if an operation moved only bytes that have a value, between registers and global memory; what it loaded
    /// has one then.
    fn is_defined(&mut self, request: &Request) -> bool {
        if request.memory != MemoryKind::Global || !request.poison.is_empty() || self.space.is_tracked() {
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

    /// Marks bytes that a lane has stored.
    fn define_stored(&mut self, tracker: &mut Tracker, request: &Request, lane: usize) {
        let shift = if matches!(request.transfer, Transfer::StoreSmall { high: true, .. }) { 2 } else { 0 };
        let per = request.transfer.bytes();
        let atomic = matches!(request.transfer, Transfer::Atomic { .. });
        let byte = |at: usize| {
            let at = at + shift;
            let bits = request.poison.get(at / 4).map_or(0, |lanes| lanes[lane]);
            if atomic { 0 } else { (bits >> (8 * (at % 4))) as u8 }
        };
        let scratch = request.scratch_piece(self.wave.scratch_lane, lane);
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
        if let Some((start, len)) = request.scratch_piece(self.wave.scratch_lane, lane) {
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
