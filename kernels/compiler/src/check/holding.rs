//! Contents of every register and memory slot, on all paths to a point of the program.
//!
//! Locations are numbers: physical registers, or registers and memory slots of a program that was split. So are the dwords
//! of virtual registers. Not here: which steps there are (`allocation`, `split`).

use crate::machine::{Machine, Reg};
use alloc::vec;
use alloc::vec::Vec;

/// A dword of a virtual register.
pub(super) type Dword = (Reg, u8);

/// Nothing known.
const NOTHING: u32 = u32::MAX;

/// Contents of all locations.
#[derive(Clone)]
pub(super) struct State<'a> {
    dwords: &'a Dwords,
    locations: Vec<u32>,
    /// Dwords that hold nothing in particular yet: reading them is reading anything.
    undefined: Vec<bool>,
}

/// Numbers of the dwords of a program's registers.
pub(super) struct Dwords {
    first: Vec<u32>,
}

impl Dwords {
    /// Numbers them.
    pub(super) fn of(machine: &Machine) -> Self {
        let mut next = 0;
        let mut first = vec![0];
        for info in &machine.regs {
            next += u32::from(info.dwords);
            first.push(next);
        }
        Self { first }
    }

    /// The number of the first dword of a register; of all dwords for the one behind the last.
    pub(super) fn first(&self, reg: Reg) -> usize {
        self.first[reg.index()] as usize
    }

    /// Their number.
    pub(super) fn count(&self) -> usize {
        self.first.last().map_or(0, |count| *count as usize)
    }

    fn number(&self, (reg, dword): Dword) -> u32 {
        self.first[reg.index()] + u32::from(dword)
    }
}

impl<'a> State<'a> {
    /// So many locations that hold nothing, of a program with these dwords.
    pub(super) fn new(locations: usize, dwords: &'a Dwords) -> Self {
        Self { dwords, locations: vec![NOTHING; locations], undefined: vec![false; dwords.count()] }
    }

    /// Merges the state of another path; whether that changed anything.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        let is_undefined = |state: &Self, dword: u32| state.undefined.get(dword as usize) == Some(&true);
        for location in 0..self.locations.len() {
            let (mine, theirs) = (self.locations[location], other.locations[location]);
            if mine == theirs {
                continue;
            }
            // What is undefined on the other path may be taken from here.
            let merged = if is_undefined(other, mine) {
                mine
            } else if is_undefined(self, theirs) {
                theirs
            } else {
                NOTHING
            };
            changed |= merged != mine;
            self.locations[location] = merged;
        }
        for (mine, theirs) in self.undefined.iter_mut().zip(&other.undefined) {
            changed |= *mine && !theirs;
            *mine &= theirs;
        }
        changed
    }

    /// A dword gets a new value, in one location only.
    pub(super) fn write(&mut self, location: usize, dword: Dword) {
        let number = self.dwords.number(dword);
        for held in &mut self.locations {
            *held = if *held == number { NOTHING } else { *held };
        }
        self.undefined[number as usize] = false;
        if let Some(held) = self.locations.get_mut(location) {
            *held = number;
        }
    }

    /// A location gets what another has.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let content = self.locations.get(from).copied().unwrap_or(NOTHING);
        if let Some(held) = self.locations.get_mut(to) {
            *held = content;
        }
    }

    /// A location gets what a dword has; the dword stays where else it is.
    pub(super) fn put(&mut self, location: usize, dword: Dword) {
        if let Some(held) = self.locations.get_mut(location) {
            *held = self.dwords.number(dword);
        }
    }

    /// A location holds nothing known.
    pub(super) fn clear(&mut self, location: usize) {
        if let Some(held) = self.locations.get_mut(location) {
            *held = NOTHING;
        }
    }

    /// True if a register or slot holds a dword, or the dword is undefined.
    pub(super) fn holds(&self, location: usize, dword: Dword) -> bool {
        let number = self.dwords.number(dword);
        self.locations.get(location) == Some(&number) || self.undefined[number as usize]
    }

    /// All dwords of a register are nothing in particular from here on.
    pub(super) fn forget(&mut self, reg: Reg) {
        let all = self.dwords.first(reg)..self.dwords.first(Reg(reg.0 + 1));
        self.undefined[all].fill(true);
    }
}
