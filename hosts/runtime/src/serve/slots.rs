//! Numbered conversation slots, as in llama-server: each remembers the tokens of its last request.
//!
//! A slot is only a name for a prefix: KV pages belong to no slot, and every request finds them by its tokens.

use super::sync::Mutex;
use core::cmp::Reverse;
use doorbell_core::token::TokenId;
use std::sync::PoisonError;

/// State of one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationSlot {
    /// Requests that run in it.
    pub busy: u32,
    /// Tokens of the last ended request, or of the restored prefix.
    pub tokens: Vec<TokenId>,
    /// Prompt tokens of the running request.
    pub prompt: u32,
    /// Tokens generated for it so far.
    pub decoded: u32,
    /// Limit of tokens to generate.
    pub limit: u32,
    /// Number of the last use: larger is later.
    pub used: u64,
}

/// All slots.
#[derive(Debug)]
pub struct ConversationSlots(Mutex<Vec<ConversationSlot>>);

impl ConversationSlots {
    pub(super) fn new(count: u32) -> Self {
        Self(Mutex::new((0..count).map(|_| ConversationSlot::default()).collect()))
    }

    /// A poisoned lock is used: every change leaves the list valid.
    fn with<T>(&self, act: impl FnOnce(&mut Vec<ConversationSlot>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current slots, without their tokens.
    pub fn list(&self) -> Vec<ConversationSlot> {
        self.with(|slots| slots.iter().map(|slot| ConversationSlot { tokens: Vec::new(), ..*slot }).collect())
    }

    /// Number of slots.
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

    /// Assigns a request to a slot: the wanted one, or else the free slot with the longest common prefix of tokens; among
    /// equals the least recently used. Returns its number.
    pub(super) fn assign(&self, wanted: Option<u32>, prompt: &[TokenId], limit: u32) -> Option<u32> {
        self.with(|slots| {
            let next = slots.iter().map(|slot| slot.used).max().unwrap_or(0) + 1;
            let common =
                |slot: &ConversationSlot| slot.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
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

    /// Counts a generated token of a slot's request.
    pub(super) fn decoded(&self, slot: u32) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(slot as usize) {
                slot.decoded = slot.decoded.saturating_add(1);
            }
        });
    }

    /// Ends a request in its slot, which keeps the request's tokens.
    pub(super) fn release(&self, slot: u32, tokens: Vec<TokenId>) {
        self.with(|slots| {
            if let Some(slot) = slots.get_mut(slot as usize) {
                slot.busy = slot.busy.saturating_sub(1);
                slot.tokens = tokens;
            }
        });
    }
}
