//! Runs a queue: packet after packet, until it waits or stops.
//!
//! Not here: packets (`aql.rs`, `pm4.rs`, `sdma.rs`).

use alloc::vec::Vec;

use super::command_processor::{CommandProcessor, Notice, Outcome};
use super::queue::{Queue, QueueKind};
use super::{aql, pm4, sdma};
use crate::memory::{Access, Space};

impl CommandProcessor {
    /// Runs a queue as far as it goes; returns notices for the kernel.
    pub fn run(&mut self, queue: &mut Queue, space: &mut Space) -> Vec<Notice> {
        while queue.is_active && !queue.is_stopped {
            let outcome = match queue.kind {
                QueueKind::Aql => aql::step(self, queue, space),
                QueueKind::Pm4 => pm4::step(self, queue, space),
                QueueKind::Sdma => sdma::step(self, queue, space),
            };
            let outcome = outcome.unwrap_or_else(|fault| self.page_fault(&fault, Access::Read));
            match outcome {
                Outcome::Advanced => {}
                Outcome::Waits => break,
                Outcome::Stopped => queue.is_stopped = true,
            }
        }
        if !self.flush(queue, space) {
            queue.is_stopped = true;
        }
        core::mem::take(&mut self.notices)
    }
}
