//! The scheduler without a backend: steps are taken as done the moment they are scheduled.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod admission;
mod groups;
mod multi_step;
mod preemption;
mod random;
mod rows;
mod states;
mod windows;

use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::kv::{KvManager, KvPools};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::scheduler::{Config, NewSequence, RequestId, Scheduler, StepKind};
use doorbell_core::token::TokenId;

const HEAP: Heap<'static> = &Global;
const PAGE: u32 = PAGE_TOKENS as u32;

/// A scheduler, and the calls of an engine that takes every step as done at once.
struct Harness {
    scheduler: Scheduler<'static>,
}

/// A scheduled step, as numbers.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// Requests in order of their runs, with their rows.
    rows: Vec<(u64, u32)>,
    /// Requests that run for the first time.
    admitted: Vec<u64>,
    pooling: bool,
    steps: u32,
}

impl Step {
    fn of(rows: &[(u64, u32)]) -> Self {
        Self { rows: rows.to_vec(), admitted: Vec::new(), pooling: false, steps: 1 }
    }
}

/// `len` tokens that are those of no other `number`.
fn text(number: u64, len: u32) -> Vec<TokenId> {
    (0..len).map(|position| TokenId(number as u32 * 100_000 + position)).collect()
}

impl Harness {
    fn new(config: Config) -> Self {
        let kv = KvManager::new(KvPools::shared(1, config.pages), HEAP).unwrap();
        Self { scheduler: Scheduler::new(config, 1, kv, HEAP).unwrap() }
    }

    fn submit(&mut self, id: u64, prompt: &[TokenId], output: u32) {
        self.submit_as(id, prompt, output, false);
    }

    fn submit_as(&mut self, id: u64, prompt: &[TokenId], output: u32, pooling: bool) {
        let limit = prompt.len() as u32 + output;
        let mut tokens = heap::with_capacity(HEAP, limit as usize).unwrap();
        tokens.extend_from_slice(prompt);
        let new = NewSequence { id: RequestId(id), tokens, limit, pooling, skip_cache: pooling, state: () };
        self.scheduler.submit(new).unwrap();
    }

    /// Schedules a step of at most one row of steps, and completes it.
    fn step(&mut self) -> Step {
        self.step_of(1)
    }

    /// Schedules up to `max_steps` steps at once and completes them: every output row gets a token, sequences at their
    /// limit are removed.
    fn step_of(&mut self, max_steps: u32) -> Step {
        let batch = self.scheduler.schedule(max_steps, &|_| true);
        let rows = batch.requests.iter().zip(batch.input.runs).map(|(id, run)| (id.0, run.rows)).collect();
        let admitted = batch.admitted.iter().map(|id| id.0).collect();
        let (steps, pooling) = (batch.steps, batch.kind == StepKind::Pooling);
        let owners = batch.owners.to_vec();
        let pooled: Vec<RequestId> = batch.requests.iter().copied().filter(|_| pooling).collect();
        for step in 0..steps {
            self.scheduler.register_computed();
            for &owner in &owners {
                let sequence = self.scheduler.get_mut(owner).unwrap();
                // no token is that of a prompt
                let token = TokenId(u32::MAX - sequence.len() - owner.0 as u32 * 1000);
                sequence.append(token);
                if step + 1 < steps {
                    sequence.advance();
                }
            }
        }
        let ended = |index: &usize| {
            let sequence = &self.scheduler.sequences()[*index];
            let done = if sequence.is_pooling() {
                sequence.pending() == 0
            } else {
                sequence.len() == sequence.limit()
            };
            done && (owners.contains(&sequence.id()) || pooled.contains(&sequence.id()))
        };
        let ended: Vec<usize> = (0..self.scheduler.sequences().len()).filter(ended).collect();
        ended.into_iter().rev().for_each(|index| _ = self.scheduler.remove(index));
        Step { rows, admitted, pooling, steps }
    }

    /// Numbers of pages of the live sequences, in order of arrival.
    fn pages(&self) -> Vec<u32> {
        self.scheduler.sequences().iter().map(|sequence| sequence.pages().len()).collect()
    }

    fn available(&self) -> u32 {
        self.scheduler.kv().available()
    }
}
