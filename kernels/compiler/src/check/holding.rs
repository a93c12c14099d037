//! What every place holds, on all paths to a point of the program.
//!
//! Places are numbers: physical registers, or registers and memory slots of a program that was split. Not here: which
//! steps there are (`allocation`, `split`).

use crate::machine::Reg;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// A dword of a virtual register.
pub(super) type Dword = (Reg, u8);

/// Contents of all places.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    places: Vec<Option<Dword>>,
    /// Dwords that hold nothing in particular yet: reading them is reading anything.
    undefined: BTreeSet<Dword>,
}

impl State {
    /// So many places that hold nothing.
    pub(super) fn new(places: usize) -> Self {
        Self { places: vec![None; places], undefined: BTreeSet::new() }
    }

    /// Merges the state of another path; whether that changed anything.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.places.iter_mut().zip(&other.places) {
            *mine = match (*mine, *theirs) {
                (a, b) if a == b => a,
                // What is undefined on the other path may be taken from here.
                (Some(a), _) if other.undefined.contains(&a) => Some(a),
                (_, Some(b)) if before.undefined.contains(&b) => Some(b),
                _ => None,
            };
        }
        self.undefined = before.undefined.intersection(&other.undefined).copied().collect();
        *self != before
    }

    /// A dword gets a new value, in one place only.
    pub(super) fn write(&mut self, place: usize, dword: Dword) {
        for held in &mut self.places {
            if *held == Some(dword) {
                *held = None;
            }
        }
        self.undefined.remove(&dword);
        self.put(place, Some(dword));
    }

    /// A place gets what some dword has.
    pub(super) fn put(&mut self, place: usize, dword: Option<Dword>) {
        if let Some(held) = self.places.get_mut(place) {
            *held = dword;
        }
    }

    /// What a place holds.
    pub(super) fn get(&self, place: usize) -> Option<Dword> {
        self.places.get(place).copied().flatten()
    }

    /// Whether a place holds a dword, or the dword is nothing in particular.
    pub(super) fn holds(&self, place: usize, dword: Dword) -> bool {
        self.get(place) == Some(dword) || self.undefined.contains(&dword)
    }

    /// All dwords of a register are nothing in particular from here on.
    pub(super) fn forget(&mut self, reg: Reg, dwords: u8) {
        self.undefined.extend((0..dwords).map(|dword| (reg, dword)));
    }
}
