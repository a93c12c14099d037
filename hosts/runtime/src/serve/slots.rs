//! Numbered places for conversations, as llama-server has them: which tokens the last request of each had.
//!
//! Only names for prefixes: pages belong to no slot, and any request finds them by its tokens.

use core::cmp::Reverse;
use doorbell_core::token::TokenId;
use std::sync::{Mutex, PoisonError};

/// What is known of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Requests that are being computed in it.
    pub busy: u32,
    /// Tokens of the last request that ended, or of what was restored.
    pub tokens: Vec<TokenId>,
    /// Prompt tokens of the request that runs.
    pub prompt: u32,
    /// Tokens generated for it so far.
    pub decoded: u32,
    /// Tokens it may still generate at most.
    pub limit: u32,
    /// A number that grows with every use.
    pub used: u64,
}

/// All slots.
#[derive(Debug)]
pub struct Slots(Mutex<Vec<Slot>>);

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        Self(Mutex::new((0..count).map(|_| Slot::default()).collect()))
    }

    /// What somebody who panicked left is still a list of slots.
    fn with<T>(&self, act: impl FnOnce(&mut Vec<Slot>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All slots as they are now, without their tokens.
    pub fn list(&self) -> Vec<Slot> {
        self.with(|slots| slots.iter().map(|slot| Slot { tokens: Vec::new(), ..*slot }).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.with(|slots| slots.len())
    }

    /// The tokens of a slot; `None` if there is no such slot.
    pub fn tokens(&self, slot: u32) -> Option<Vec<TokenId>> {
        self.with(|slots| slots.get(slot as usize).map(|slot| slot.tokens.clone()))
    }

    /// Replaces the tokens of a slot.
    pub fn set(&self, slot: u32, tokens: Vec<TokenId>) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(slot as usize) {
                slot.tokens = tokens;
            }
        });
    }

    /// Seats a request: in the slot that it wants, or among the free ones in that whose tokens begin likest, else in
    /// the one used least lately.
    pub(super) fn seat(&self, wanted: Option<u32>, prompt: &[TokenId], limit: u32) -> Option<u32> {
        self.with(|slots| {
            let next = slots.iter().map(|slot| slot.used).max().unwrap_or(0) + 1;
            let common = |slot: &Slot| slot.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            let free = slots.iter().enumerate().max_by_key(|&(index, slot)| {
                (Reverse(slot.busy), common(slot), Reverse(slot.used), Reverse(index))
            });
            let index = wanted.map(|slot| slot as usize).or(free.map(|(index, _)| index))?;
            let slot = slots.get_mut(index)?;
            slot.busy += 1;
            slot.used = next;
            slot.prompt = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
            (slot.decoded, slot.limit) = (0, limit);
            u32::try_from(index).ok()
        })
    }

    /// Notes a token of the request in a slot.
    pub(super) fn decoded(&self, slot: u32) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(slot as usize) {
                slot.decoded = slot.decoded.saturating_add(1);
            }
        });
    }

    /// A request leaves its slot, and its tokens stay.
    pub(super) fn leave(&self, slot: u32, tokens: Vec<TokenId>) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(slot as usize) {
                slot.busy = slot.busy.saturating_sub(1);
                slot.tokens = tokens;
            }
        });
    }
}
