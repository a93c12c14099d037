//! State of the engine's thread that other threads can read.

use super::load::Load;
use super::slots::ConversationSlots;
use super::sync::Arc;
use super::sync::atomic::Ordering;

/// State that other threads can read.
#[derive(Clone)]
pub(super) struct SharedState {
    pub(super) load: Arc<Load>,
    pub(super) slots: Arc<ConversationSlots>,
}

impl SharedState {
    /// The state of a thread with this number of conversation slots.
    pub(super) fn new(slots: u32) -> Self {
        Self { load: Arc::new(Load::default()), slots: Arc::new(ConversationSlots::new(slots)) }
    }
}

/// Marks the thread as ended when it is dropped, also by a panic.
pub(super) struct EndedOnDrop(pub(super) Arc<Load>);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}
