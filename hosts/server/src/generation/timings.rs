//! llama-server's `timings`: token counts, times and rates of an answer.

use doorbell_runtime::timings::{RequestTimings, milliseconds};
use serde_json::{Value, json};

/// Token counts and times of an answer, finished or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timings {
    /// Prompt tokens found in the cache.
    pub(crate) cached: u32,
    /// Tokens of the answer.
    pub(crate) generated: u32,
    /// Times and rates.
    pub(crate) times: RequestTimings,
}

/// Milliseconds per token.
fn per_token(milliseconds: f64, count: u32) -> f64 {
    if count > 0 { milliseconds / f64::from(count) } else { 0.0 }
}

impl Timings {
    pub(crate) fn document(&self) -> Value {
        let times = &self.times;
        let [queue, prefill, decode] = [times.queue, times.prefill, times.decode].map(milliseconds);
        json!({
            "cache_n": self.cached,
            "prompt_n": times.computed_tokens,
            "prompt_ms": prefill,
            "prompt_per_token_ms": per_token(prefill, times.computed_tokens),
            "prompt_per_second": times.prefill_rate(),
            "predicted_n": self.generated,
            "predicted_ms": decode,
            "predicted_per_token_ms": per_token(decode, times.decode_steps),
            "predicted_per_second": times.decode_rate(),
            "queue_ms": queue,
        })
    }
}
