//! Times and rates of an ended request, computed from the engine's usage.
//!
//! Not here: their names and units in protocols (`doorbell-server`).

use doorbell_core::engine::{Nanos, Usage};

/// Times of an ended request. A skipped phase has no time; a request that never started counts as prefill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimings {
    /// From the submission to the first step.
    pub queue: Nanos,
    /// From the first step to the first token.
    pub prefill: Nanos,
    /// From the first token to the end.
    pub decode: Nanos,
    /// From the submission to the end.
    pub total: Nanos,
    /// Prompt tokens that were computed, which excludes those found in the cache.
    pub computed_tokens: u32,
    /// Steps of the decode phase: one for each token but the first.
    pub decode_steps: u32,
}

impl RequestTimings {
    /// The times of a request.
    #[must_use]
    pub fn new(usage: &Usage) -> Self {
        let between = |from: Nanos, to: Nanos| Nanos(to.0.saturating_sub(from.0));
        let started = usage.started.max(usage.submitted);
        let first_token = if usage.first_token.0 == 0 { usage.finished } else { usage.first_token };
        Self {
            queue: between(usage.submitted, started),
            prefill: between(started, first_token),
            decode: between(first_token, usage.finished),
            total: between(usage.submitted, usage.finished),
            computed_tokens: usage.prompt_tokens.saturating_sub(usage.cached_tokens),
            decode_steps: usage.generated_tokens.saturating_sub(1),
        }
    }

    /// Computed prompt tokens per second; 0 if the prefill took no time.
    #[must_use]
    pub fn prefill_rate(&self) -> f64 {
        rate(self.computed_tokens, self.prefill)
    }

    /// Tokens after the first per second; 0 if there are none.
    #[must_use]
    pub fn decode_rate(&self) -> f64 {
        rate(self.decode_steps, self.decode)
    }
}

/// A time in seconds.
#[must_use]
pub fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// A time in milliseconds.
#[must_use]
pub fn milliseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

fn rate(tokens: u32, time: Nanos) -> f64 {
    if time.0 > 0 { f64::from(tokens) / seconds(time) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        prompt_tokens: 30,
        cached_tokens: 10,
        generated_tokens: 5,
        preemptions: 0,
        submitted: Nanos(1_000_000_000),
        started: Nanos(1_500_000_000),
        first_token: Nanos(2_500_000_000),
        finished: Nanos(4_500_000_000),
    };

    #[test]
    fn phases_follow_each_other() {
        let timings = RequestTimings::new(&USAGE);
        let phases = [timings.queue, timings.prefill, timings.decode, timings.total].map(seconds);
        assert_eq!(phases, [0.5, 1.0, 2.0, 3.5]);
        assert_eq!((timings.prefill_rate(), timings.decode_rate()), (20.0, 2.0));
    }

    #[test]
    fn a_skipped_phase_has_no_time() {
        let without_token = Usage { generated_tokens: 0, first_token: Nanos(0), ..USAGE };
        let timings = RequestTimings::new(&without_token);
        assert_eq!([timings.prefill, timings.decode].map(seconds), [3.0, 0.0]);
        assert_eq!(timings.decode_rate(), 0.0);
        let timings = RequestTimings::new(&Usage { started: Nanos(0), ..without_token });
        assert_eq!([timings.queue, timings.prefill, timings.decode].map(seconds), [0.0, 3.5, 0.0]);
    }
}
