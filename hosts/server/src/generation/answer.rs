//! One answer while it is generated: its parser, its counts and its times.

use super::event::{Event, PromptProgress};
use super::outcome::Outcome;
use super::timings::Timings;
use core::time::Duration;
use doorbell_core::engine::Nanos;
use doorbell_runtime::answer::{AnswerParser, Delta};
use doorbell_runtime::serve::{Finish, JobHandle, Piece};
use doorbell_runtime::timings::RequestTimings;
use std::time::Instant;

/// One answer while it is generated.
pub(super) struct Answer {
    /// Parses the text; without one it is plain.
    parser: Option<AnswerParser>,
    /// Cancels the answer when dropped.
    job: Option<JobHandle>,
    /// True if the answer ends with its first call.
    one_call: bool,
    progress: Option<PromptProgress>,
    /// Time of the first token.
    first_token: Option<Instant>,
    /// Time of the last output.
    last_output: Option<Instant>,
    /// Tokens so far.
    tokens: u32,
    reasoning_tokens: u32,
    called_tools: bool,
    /// True if the answer was cut after its first call; later text is dropped.
    cut: bool,
    over: bool,
}

impl Answer {
    pub(super) fn new(parser: Option<AnswerParser>, job: JobHandle, one_call: bool) -> Self {
        Self {
            parser,
            job: Some(job),
            one_call,
            progress: None,
            first_token: None,
            last_output: None,
            tokens: 0,
            reasoning_tokens: 0,
            called_tools: false,
            cut: false,
            over: false,
        }
    }

    /// True when no more events come.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the answer; cancels it if it is still generated.
    pub(super) fn close(&mut self) {
        self.over = true;
        self.job = None;
    }

    pub(super) fn called_tools(&self) -> bool {
        self.called_tools
    }

    /// Counts prompt tokens.
    pub(super) fn prompt(&mut self, done: u32, total: u32) -> PromptProgress {
        let now = Instant::now();
        let first = PromptProgress { cached: done, done, total, started: now, updated: now };
        let progress = self.progress.get_or_insert(first);
        (progress.done, progress.updated) = (done, now);
        *progress
    }

    /// True if the engine has worked on it.
    pub(super) fn has_begun(&self) -> bool {
        self.progress.is_some() || self.first_token.is_some()
    }

    /// The time since the last output, if this is not the first.
    pub(super) fn gap(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.last_output.replace(now).map(|last| now.duration_since(last))
    }

    /// Counts and parses more output; `None` if it is dropped.
    pub(super) fn output(&mut self, piece: Piece) -> Option<Event> {
        let Piece { text, tokens } = piece;
        let count = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        self.first_token.get_or_insert_with(Instant::now);
        self.tokens = self.tokens.saturating_add(count);
        if self.cut {
            return None;
        }
        let mut deltas = Vec::new();
        match &mut self.parser {
            Some(parser) => {
                let reasons = parser.reasons();
                parser.push(&text, &mut deltas);
                // tokens of the marks are not counted
                if reasons && parser.reasons() {
                    self.reasoning_tokens += count;
                }
            }
            None if text.is_empty() => {}
            None => deltas.push(Delta::Text(text.clone())),
        }
        self.cut_after_first_call(&mut deltas);
        Some(Event::Output { deltas, text, tokens })
    }

    /// The deltas that the parser held back until the end.
    pub(super) fn held_back(&mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        if let Some(mut parser) = self.parser.take() {
            if !self.cut {
                parser.finish(&mut deltas);
                self.cut_after_first_call(&mut deltas);
            }
            self.called_tools = parser.calls() > 0;
        }
        deltas
    }

    pub(super) fn outcome(&self, finish: Finish) -> Outcome {
        Outcome {
            reason: finish.reason,
            stop_text: finish.stop_text,
            called_tools: self.called_tools,
            usage: finish.usage,
            reasoning_tokens: self.reasoning_tokens,
        }
    }

    /// Timings of an answer that is not over.
    pub(super) fn timings(&self) -> Timings {
        let Some(progress) = self.progress else { return Timings::default() };
        let between = |from: Instant, to: Instant| {
            Nanos(u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(u64::MAX))
        };
        let times = RequestTimings {
            prefill: between(progress.started, self.first_token.unwrap_or(progress.updated)),
            decode: self.first_token.map_or(Nanos(0), |first| between(first, Instant::now())),
            computed_tokens: progress.done.saturating_sub(progress.cached),
            decode_steps: self.tokens.saturating_sub(1),
            ..RequestTimings::default()
        };
        Timings { cached: progress.cached, generated: self.tokens, times }
    }

    /// Cuts the answer before its second call, if it may have only one.
    fn cut_after_first_call(&mut self, deltas: &mut Vec<Delta>) {
        let second = |delta: &Delta| match delta {
            Delta::Call { index, .. } | Delta::Arguments { index, .. } => *index > 0,
            _ => false,
        };
        if self.one_call
            && let Some(at) = deltas.iter().position(second)
        {
            deltas.truncate(at);
            self.cut = true;
            self.job = None;
        }
    }
}
