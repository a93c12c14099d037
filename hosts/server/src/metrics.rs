//! Metrics, under the names that dashboards of vLLM and llama-server use.

use crate::error::Failure;
use crate::generation::Outcome;
use crate::model_handle::ModelHandle;
use alloc::collections::BTreeSet;
use axum::http::StatusCode;
use core::fmt::{self, Write as _};
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use doorbell_runtime::serve::{LoadSnapshot, Service};
use doorbell_runtime::timings::seconds;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Mutex;

type FloatCounter = Counter<f64, AtomicU64>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    first_token: Histogram,
    per_token: Histogram,
    inter_token: Histogram,
    latency: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_lengths: Histogram,
    answer_lengths: Histogram,
    cached_share: Histogram,
    prompt_tokens: Counter,
    computed_tokens: Counter,
    decodes: Counter,
    none: Counter,
    longest: FloatGauge,
    busy: FloatGauge,
    generated_tokens: Counter,
    cached_tokens: Counter,
    prompt_seconds: FloatCounter,
    generated_seconds: FloatCounter,
    succeeded: Family<[(&'static str, &'static str); 1], Counter>,
    failures: Counter,
    refusals: Counter,
    preemptions: Counter,
    running: FloatGauge,
    waiting: FloatGauge,
    cache_usage: FloatGauge,
    up: FloatGauge,
    prompt_rate: FloatGauge,
    generated_rate: FloatGauge,
}

/// A gauge that llama-server declares as a counter.
const LONGEST: &str = "llamacpp:n_tokens_max";

/// `OpenMetrics` text in Prometheus's older format, in which descriptions name counters with `_total` and there is no
/// end mark.
pub(crate) fn plain(open_metrics: &str) -> String {
    let lines = || open_metrics.lines();
    let counters: BTreeSet<&str> =
        lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in lines().filter(|&line| line != "# EOF") {
        let comment = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
        let comment = comment.and_then(|(keyword, rest)| Some((keyword, rest.split_once(' ')?)));
        // writing to a string does not fail
        _ = match comment {
            Some((keyword, (name, rest))) if counters.contains(name) => {
                writeln!(text, "# {keyword} {name}_total {rest}")
            }
            Some(("TYPE", (LONGEST, _))) => writeln!(text, "# TYPE {LONGEST} counter"),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

/// A histogram with `count` buckets, the first up to `first`, each twice as wide as the one before.
fn doubling(first: f64, count: u16) -> Histogram {
    Histogram::new(exponential_buckets(first, 2.0, count))
}

/// Collects the histogram of batch sizes, which the engine's service counts.
struct BatchSizes(Service);

impl fmt::Debug for BatchSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchSizes").finish_non_exhaustive()
    }
}

impl Collector for BatchSizes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let load = self.0.load();
        let mut bound = 0.5;
        let mut classes = load.batches.map(|steps| {
            bound *= 2.0;
            (bound, steps)
        });
        if let Some((bound, _)) = classes.last_mut() {
            *bound = f64::INFINITY;
        }
        let help = "Requests that were computed in a step";
        let mut metric =
            encoder.encode_descriptor("doorbell_batch_size", help, None, MetricType::Histogram)?;
        // counted from the buckets, so that the sum fits them
        let steps = load.batches.iter().sum();
        metric.encode_histogram::<NoLabelSet>(load.busy as f64, steps, &classes, None)
    }
}

impl Metrics {
    pub(crate) fn new(model: &ModelHandle) -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::default()),
            first_token: doubling(0.001, 18),
            per_token: doubling(0.0005, 14),
            inter_token: doubling(0.0005, 14),
            latency: doubling(0.01, 18),
            queue: doubling(0.0005, 18),
            prefill: doubling(0.001, 18),
            decode: doubling(0.01, 18),
            prompt_lengths: doubling(1.0, 21),
            answer_lengths: doubling(1.0, 21),
            cached_share: Histogram::new([0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]),
            prompt_tokens: Counter::default(),
            computed_tokens: Counter::default(),
            decodes: Counter::default(),
            none: Counter::default(),
            longest: FloatGauge::default(),
            busy: FloatGauge::default(),
            generated_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            prompt_seconds: FloatCounter::default(),
            generated_seconds: FloatCounter::default(),
            succeeded: Family::default(),
            failures: Counter::default(),
            refusals: Counter::default(),
            preemptions: Counter::default(),
            running: FloatGauge::default(),
            waiting: FloatGauge::default(),
            cache_usage: FloatGauge::default(),
            up: FloatGauge::default(),
            prompt_rate: FloatGauge::default(),
            generated_rate: FloatGauge::default(),
        };
        if let Ok(mut registry) = metrics.registry.lock() {
            // dashboards of vLLM select by this label
            let label = ("model_name".into(), model.name.clone().into());
            metrics.register_vllm(registry.sub_registry_with_label(label));
            metrics.register_llamacpp(&mut registry);
            metrics.register_own(&mut registry);
            registry.register_collector(Box::new(BatchSizes(model.service.clone())));
        }
        metrics
    }

    fn register_vllm(&self, registry: &mut Registry) {
        let per_token = "Time per token after the first, of a request";
        let histograms = [
            ("time_to_first_token_seconds", "Time from submission to the first token", &self.first_token),
            ("time_per_output_token_seconds", per_token, &self.per_token),
            ("request_time_per_output_token_seconds", per_token, &self.per_token),
            ("inter_token_latency_seconds", "Time between outputs of a request", &self.inter_token),
            ("e2e_request_latency_seconds", "Time from submission to the end", &self.latency),
            ("request_queue_time_seconds", "Time from submission to the first step", &self.queue),
            ("request_prefill_time_seconds", "Time from the first step to the first token", &self.prefill),
            ("request_decode_time_seconds", "Time from the first token to the end", &self.decode),
            ("request_prompt_tokens", "Tokens of a prompt", &self.prompt_lengths),
            ("request_generation_tokens", "Tokens of an answer", &self.answer_lengths),
        ];
        for (name, help, histogram) in histograms {
            registry.register(format!("vllm:{name}"), help, histogram.clone());
        }
        let counters = [
            ("prompt_tokens", "Prompt tokens", &self.prompt_tokens),
            ("generation_tokens", "Generated tokens", &self.generated_tokens),
            ("prefix_cache_queries", "Prompt tokens looked up in the cache", &self.prompt_tokens),
            ("prefix_cache_hits", "Prompt tokens found in the cache", &self.cached_tokens),
            ("num_preemptions", "Requests that gave way to others", &self.preemptions),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("vllm:{name}"), help, counter.clone());
        }
        registry.register("vllm:request_success", "Requests that ended well", self.succeeded.clone());
        let levels = [
            ("num_requests_running", "Requests being computed", &self.running),
            ("num_requests_waiting", "Requests in the queue", &self.waiting),
            ("kv_cache_usage_perc", "Share of KV pages held, 0 to 1", &self.cache_usage),
        ];
        for (name, help, level) in levels {
            registry.register(format!("vllm:{name}"), help, level.clone());
        }
    }

    fn register_llamacpp(&self, registry: &mut Registry) {
        let counters = [
            ("prompt_tokens", "Prompt tokens that were computed", &self.computed_tokens),
            ("prompt_tokens_cached", "Prompt tokens found in the cache", &self.cached_tokens),
            ("n_decode", "Steps", &self.decodes),
            ("spec_decode_num_draft_tokens", "Drafted tokens; none are", &self.none),
            ("spec_decode_num_accepted_tokens", "Accepted drafts; none are made", &self.none),
            ("spec_decode_num_drafts", "Drafts; none are made", &self.none),
            ("tokens_predicted", "Generated tokens", &self.generated_tokens),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("llamacpp:{name}"), help, counter.clone());
        }
        registry.register("llamacpp:prompt_seconds", "Time spent on prompts", self.prompt_seconds.clone());
        let help = "Time spent on generation";
        registry.register("llamacpp:tokens_predicted_seconds", help, self.generated_seconds.clone());
        let levels = [
            ("llamacpp:requests_processing", "Requests being computed", &self.running),
            ("llamacpp:requests_deferred", "Requests in the queue", &self.waiting),
            ("llamacpp:prompt_tokens_seconds", "Prompt tokens a second, last request", &self.prompt_rate),
            ("llamacpp:predicted_tokens_seconds", "Tokens a second, last request", &self.generated_rate),
            (LONGEST, "Tokens of the longest sequence so far", &self.longest),
            ("llamacpp:n_busy_slots_per_decode", "Requests computed in a step, on average", &self.busy),
        ];
        for (name, help, level) in levels {
            registry.register(name, help, level.clone());
        }
    }

    fn register_own(&self, registry: &mut Registry) {
        let help = "Share of a prompt that was found in the cache, 0 to 1";
        registry.register("doorbell_cached_share", help, self.cached_share.clone());
        let help = "Requests that ended badly";
        registry.register("doorbell_requests_failed", help, self.failures.clone());
        let help = "Requests that were not taken";
        registry.register("doorbell_requests_refused", help, self.refusals.clone());
        registry.register("doorbell_up", "1 while the device works", self.up.clone());
    }

    /// Counts a text that was pooled.
    pub(crate) fn pooled(&self, tokens: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
        self.computed_tokens.inc_by(tokens as u64);
    }

    /// Counts a request that was not taken for a reason that lies in the request, or because there are too many.
    pub(crate) fn not_taken(&self, failure: &Failure) {
        let status = failure.status();
        if status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED {
            self.refusals.inc();
        }
    }

    /// Counts a request that the engine did not accept for a reason of its own; [`Self::not_taken`] counts the others.
    pub(crate) fn refused(&self, failure: &Failure) {
        if failure.status() == StatusCode::SERVICE_UNAVAILABLE {
            self.refusals.inc();
        }
    }

    /// Counts the time between two outputs of an answer.
    pub(crate) fn gap(&self, gap: Duration) {
        self.inter_token.observe(gap.as_secs_f64());
    }

    /// Counts an answer that failed.
    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    /// Counts an answer that did not fail.
    pub(crate) fn finished(&self, outcome: &Outcome) {
        let (usage, times) = (&outcome.usage, outcome.timings().times);
        let reason = if outcome.hit_limit() { "length" } else { "stop" };
        self.succeeded.get_or_create(&[("finished_reason", reason)]).inc();
        self.prompt_tokens.inc_by(usage.prompt_tokens.into());
        self.cached_tokens.inc_by(usage.cached_tokens.into());
        self.computed_tokens.inc_by(times.computed_tokens.into());
        let length = f64::from(usage.prompt_tokens) + f64::from(usage.generated_tokens);
        self.longest.set(self.longest.get().max(length));
        self.generated_tokens.inc_by(usage.generated_tokens.into());
        self.preemptions.inc_by(usage.preemptions.into());
        self.prompt_seconds.inc_by(seconds(times.prefill));
        self.generated_seconds.inc_by(seconds(times.decode));
        self.queue.observe(seconds(times.queue));
        self.first_token.observe(seconds(times.queue) + seconds(times.prefill));
        self.latency.observe(seconds(times.total));
        self.prefill.observe(seconds(times.prefill));
        self.decode.observe(seconds(times.decode));
        self.prompt_lengths.observe(usage.prompt_tokens.into());
        self.answer_lengths.observe(usage.generated_tokens.into());
        self.cached_share.observe(f64::from(usage.cached_tokens) / f64::from(usage.prompt_tokens.max(1)));
        if times.prefill.0 > 0 {
            self.prompt_rate.set(times.prefill_rate());
        }
        if usage.generated_tokens > 1 && times.decode.0 > 0 {
            self.per_token.observe(seconds(times.decode) / f64::from(times.decode_steps));
            self.generated_rate.set(times.decode_rate());
        }
    }

    /// All metrics in `OpenMetrics` text; `load` is that of the engine's service.
    pub(crate) fn text(&self, load: &LoadSnapshot) -> String {
        self.running.set(load.running as f64);
        self.waiting.set(load.live.saturating_sub(load.running) as f64);
        let held = load.pages.saturating_sub(load.pages_free) as f64;
        self.cache_usage.set(if load.pages > 0 { held / load.pages as f64 } else { 0.0 });
        self.decodes.inc_by(load.steps.saturating_sub(self.decodes.get()));
        self.busy.set(if load.steps > 0 { load.busy as f64 / load.steps as f64 } else { 0.0 });
        self.up.set(f64::from(u8::from(!load.device_lost && !load.ended)));
        let mut text = String::new();
        if let Ok(registry) = self.registry.lock() {
            // writing to a string does not fail
            _ = encode(&mut text, &registry);
        }
        text
    }
}
