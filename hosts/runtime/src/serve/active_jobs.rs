//! The jobs in the engine: they turn the engine's events into updates.
//!
//! Not here: commands and polling (`worker`).

use super::constraints::JobConstraints;
use super::job::{Finish, Job, Piece, TokenReport, Update};
use super::pooling::PoolingRun;
use super::slots::ConversationSlots;
use super::stop_texts::StopTexts;
use super::sync::Arc;
use super::text_stream::TextStream;
use alloc::collections::BTreeMap;
use doorbell_core::engine::{Event, FinishReason, RequestId, Usage};
use doorbell_core::sample::LogProbs;
use doorbell_core::token::{TokenId, Tokenizer};

/// The jobs in the engine.
pub(super) struct ActiveJobs {
    pub(super) tokenizer: &'static Tokenizer<'static>,
    pub(super) slots: Arc<ConversationSlots>,
    pub(super) jobs: BTreeMap<RequestId, RunningJob>,
    pub(super) pooling_runs: BTreeMap<RequestId, PoolingRun>,
    pub(super) constraints: JobConstraints,
    /// Jobs to end after this poll, for reasons that were found here.
    pub(super) to_finish: Vec<(RequestId, FinishReason)>,
    /// Ended jobs, reported once the counters are up to date.
    pub(super) ended: Vec<(RunningJob, Finish)>,
    pub(super) tokens: u64,
    pub(super) events: u64,
}

/// A generation job in the engine.
pub(super) struct RunningJob {
    stream: TextStream,
    stops: Arc<StopTexts>,
    pub(super) on_update: Box<dyn FnMut(Update) + Send>,
    /// Reason of the end if it was found here; no text is reported after it.
    end: Option<FinishReason>,
    grammar_error: Option<String>,
    pub(super) started: bool,
    prompt: Arc<[TokenId]>,
    /// Tokens of the answer.
    tokens: Vec<TokenId>,
    limit: u32,
    wanted: Option<u32>,
    slot: Option<u32>,
}

impl ActiveJobs {
    /// No jobs yet.
    pub(super) fn new(tokenizer: &'static Tokenizer<'static>, slots: Arc<ConversationSlots>) -> Self {
        Self {
            tokenizer,
            slots,
            jobs: BTreeMap::new(),
            pooling_runs: BTreeMap::new(),
            constraints: JobConstraints::default(),
            to_finish: Vec::new(),
            ended: Vec::new(),
            tokens: 0,
            events: 0,
        }
    }

    /// True if there are no jobs.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.pooling_runs.is_empty()
    }

    /// Takes an event of the engine.
    pub(super) fn take(&mut self, event: Event<'_>) {
        self.events += 1;
        match event {
            Event::Prefill { request, done, total } => {
                if let Some(job) = self.jobs.get_mut(&request) {
                    job.start(&self.slots);
                    (job.on_update)(Update::Prefill { done, total });
                }
            }
            Event::Token { request, token, logprobs } => self.token(request, token, logprobs),
            Event::Pooled { request, position, row } => {
                if let Some(run) = self.pooling_runs.get_mut(&request) {
                    run.take(position, row);
                }
            }
            Event::Finished { request, reason, usage } => self.finish(request, &reason, usage),
            _ => {}
        }
    }

    fn token(&mut self, request: RequestId, token: TokenId, log_probs: Option<&LogProbs>) {
        self.tokens += 1;
        let Some(job) = self.jobs.get_mut(&request) else { return };
        job.start(&self.slots);
        job.tokens.push(token);
        if let Some(slot) = job.slot {
            self.slots.decoded(slot);
        }
        if job.end.is_some() {
            return;
        }
        let Ok(text) = job.stream.push(self.tokenizer, token).map(ToOwned::to_owned) else {
            job.end = Some(FinishReason::OutOfMemory);
            self.to_finish.push((request, FinishReason::OutOfMemory));
            return;
        };
        (job.on_update)(Update::Piece(Piece { text, tokens: vec![TokenReport::new(token, log_probs)] }));
        job.stop(request, &mut self.to_finish);
    }

    fn finish(&mut self, request: RequestId, reason: &FinishReason, usage: Usage) {
        if let Some(run) = self.pooling_runs.remove(&request) {
            return run.end(reason);
        }
        let Some(mut job) = self.jobs.remove(&request) else { return };
        if let Some(slot) = job.slot {
            self.slots.release(slot, [&job.prompt, &job.tokens[..]].concat());
        }
        if job.end.is_none() {
            job.flush();
            job.stop(request, &mut Vec::new());
        }
        let reason = job.end.take().unwrap_or(*reason);
        let stop_text = match reason {
            FinishReason::StopString(stop) => job.stops.texts().get(stop as usize).cloned(),
            _ => None,
        };
        let grammar_error = job.grammar_error.take();
        let finish = Finish { reason, stop_text, grammar_error, usage };
        self.ended.push((job, finish));
    }

    /// Ends the jobs whose grammar has failed or allows no further token.
    pub(super) fn end_grammars(&mut self) {
        for (id, grammar) in self.constraints.grammars() {
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.end.is_none()) else { continue };
            job.grammar_error = grammar.failure().map(str::to_owned);
            job.end = match job.grammar_error {
                Some(_) => Some(FinishReason::GrammarFailed),
                None => grammar.complete().then_some(FinishReason::GrammarComplete),
            };
            if let Some(reason) = job.end {
                job.flush();
                self.to_finish.push((id, reason));
            }
        }
    }
}

impl RunningJob {
    /// A job that the engine has accepted.
    pub(super) fn new(job: Job) -> Self {
        Self {
            stream: TextStream::new(Arc::clone(&job.stops), job.special),
            stops: job.stops,
            on_update: job.on_update,
            end: None,
            grammar_error: None,
            started: false,
            prompt: job.prompt,
            tokens: Vec::new(),
            limit: job.params.max_tokens,
            wanted: job.slot,
            slot: None,
        }
    }

    /// Reports the text that was held back.
    fn flush(&mut self) {
        let text = self.stream.finish().map(ToOwned::to_owned).unwrap_or_default();
        if !text.is_empty() {
            (self.on_update)(Update::Piece(Piece { text, tokens: Vec::new() }));
        }
    }

    /// Marks the job as started and assigns its slot.
    fn start(&mut self, slots: &ConversationSlots) {
        if !core::mem::replace(&mut self.started, true) {
            self.slot = slots.assign(self.wanted, &self.prompt, self.limit);
        }
    }

    /// Ends the job if a stop text has been generated.
    fn stop(&mut self, request: RequestId, to_finish: &mut Vec<(RequestId, FinishReason)>) {
        if let Some(stop) = self.stream.stop() {
            let reason = FinishReason::StopString(u32::try_from(stop).unwrap_or(u32::MAX));
            self.end = Some(reason);
            to_finish.push((request, reason));
        }
    }
}
