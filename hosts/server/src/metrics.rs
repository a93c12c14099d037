//! Numbers for dashboards, under the names that those of vLLM and llama-server look for.

use crate::app::App;
use crate::generate::Ending;
use alloc::collections::BTreeSet;
use core::fmt::Write as _;
use core::sync::atomic::AtomicU64;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Mutex;

type Fraction = Counter<f64, AtomicU64>;
type Level = Gauge<f64, AtomicU64>;

/// What is counted.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    first_token: Histogram,
    per_token: Histogram,
    latency: Histogram,
    queue: Histogram,
    prompt_tokens: Counter,
    computed_tokens: Counter,
    decodes: Counter,
    none: Counter,
    longest: Level,
    busy: Level,
    generated_tokens: Counter,
    cached_tokens: Counter,
    prompt_seconds: Fraction,
    generated_seconds: Fraction,
    succeeded: Counter,
    failures: Counter,
    refusals: Counter,
    preemptions: Counter,
    batch: Histogram,
    running: Level,
    waiting: Level,
    cache_usage: Level,
    up: Level,
    prompt_rate: Level,
    generated_rate: Level,
}

/// llama-server calls it a counter.
const LONGEST: &str = "llamacpp:n_tokens_max";

/// The same in the older text form, where counters have their whole names everywhere and there is no end mark.
pub(crate) fn plain(open_metrics: &str) -> String {
    let lines = || open_metrics.lines();
    let counters: BTreeSet<&str> =
        lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in lines().filter(|&line| line != "# EOF") {
        let told = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
        let named = told.and_then(|(what, rest)| Some((what, rest.split_once(' ')?)));
        // writing to a string does not fail
        _ = match named {
            Some((what, (name, rest))) if counters.contains(name) => {
                writeln!(text, "# {what} {name}_total {rest}")
            }
            Some(("TYPE", (LONGEST, _))) => writeln!(text, "# TYPE {LONGEST} counter"),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

fn seconds(first: f64, count: u16) -> Histogram {
    Histogram::new(exponential_buckets(first, 2.0, count))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::default()),
            first_token: seconds(0.001, 18),
            per_token: seconds(0.0005, 14),
            latency: seconds(0.01, 18),
            queue: seconds(0.0005, 18),
            prompt_tokens: Counter::default(),
            computed_tokens: Counter::default(),
            decodes: Counter::default(),
            none: Counter::default(),
            longest: Level::default(),
            busy: Level::default(),
            generated_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            prompt_seconds: Fraction::default(),
            generated_seconds: Fraction::default(),
            succeeded: Counter::default(),
            failures: Counter::default(),
            refusals: Counter::default(),
            preemptions: Counter::default(),
            batch: seconds(1.0, 9),
            running: Level::default(),
            waiting: Level::default(),
            cache_usage: Level::default(),
            up: Level::default(),
            prompt_rate: Level::default(),
            generated_rate: Level::default(),
        };
        if let Ok(mut registry) = metrics.registry.lock() {
            metrics.register(&mut registry);
        }
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        let histograms = [
            (
                "vllm:time_to_first_token_seconds",
                "Time from submission to the first token",
                &self.first_token,
            ),
            ("vllm:time_per_output_token_seconds", "Time per token after the first", &self.per_token),
            ("vllm:e2e_request_latency_seconds", "Time from submission to the end", &self.latency),
            ("vllm:request_queue_time_seconds", "Time from submission to the first step", &self.queue),
            ("doorbell_running_at_finish", "Requests running when one finished", &self.batch),
        ];
        for (name, help, histogram) in histograms {
            registry.register(name, help, histogram.clone());
        }
        let counters = [
            ("vllm:prompt_tokens", "Prompt tokens", &self.prompt_tokens),
            ("vllm:generation_tokens", "Generated tokens", &self.generated_tokens),
            ("vllm:prefix_cache_queries", "Prompt tokens looked up in the cache", &self.prompt_tokens),
            ("vllm:prefix_cache_hits", "Prompt tokens found in the cache", &self.cached_tokens),
            ("vllm:request_success", "Requests that ended well", &self.succeeded),
            ("vllm:num_preemptions", "Requests that gave way to others", &self.preemptions),
            ("llamacpp:prompt_tokens", "Prompt tokens that were computed", &self.computed_tokens),
            ("llamacpp:prompt_tokens_cached", "Prompt tokens found in the cache", &self.cached_tokens),
            ("llamacpp:n_decode", "Steps", &self.decodes),
            ("llamacpp:spec_decode_num_draft_tokens", "Drafted tokens; none are", &self.none),
            ("llamacpp:spec_decode_num_accepted_tokens", "Accepted drafts; none are made", &self.none),
            ("llamacpp:spec_decode_num_drafts", "Drafts; none are made", &self.none),
            ("llamacpp:tokens_predicted", "Generated tokens", &self.generated_tokens),
            ("doorbell_requests_failed", "Requests that ended badly", &self.failures),
            ("doorbell_requests_refused", "Requests that were not taken", &self.refusals),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register("llamacpp:prompt_seconds", "Time spent on prompts", self.prompt_seconds.clone());
        let help = "Time spent on generation";
        registry.register("llamacpp:tokens_predicted_seconds", help, self.generated_seconds.clone());
        let levels = [
            ("vllm:num_requests_running", "Requests being computed", &self.running),
            ("vllm:num_requests_waiting", "Requests in the queue", &self.waiting),
            ("vllm:kv_cache_usage_perc", "Share of KV pages held, 0 to 1", &self.cache_usage),
            ("llamacpp:requests_processing", "Requests being computed", &self.running),
            ("llamacpp:requests_deferred", "Requests in the queue", &self.waiting),
            ("llamacpp:prompt_tokens_seconds", "Prompt tokens a second, last request", &self.prompt_rate),
            ("llamacpp:predicted_tokens_seconds", "Tokens a second, last request", &self.generated_rate),
            (LONGEST, "Tokens of the longest sequence so far", &self.longest),
            ("llamacpp:n_busy_slots_per_decode", "Requests computed in a step, on average", &self.busy),
            ("doorbell_up", "1 while the device works", &self.up),
        ];
        for (name, help, level) in levels {
            registry.register(name, help, level.clone());
        }
    }

    /// Counts a text that was read.
    pub(crate) fn read(&self, tokens: usize) {
        self.prompt_tokens.inc_by(tokens as u64);
        self.computed_tokens.inc_by(tokens as u64);
    }

    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    /// Counts a request that ended well.
    pub(crate) fn finished(&self, ending: &Ending) {
        let (usage, times) = (&ending.usage, ending.times());
        self.succeeded.inc();
        self.prompt_tokens.inc_by(usage.prompt_tokens.into());
        self.cached_tokens.inc_by(usage.cached_tokens.into());
        self.computed_tokens.inc_by(usage.prompt_tokens.saturating_sub(usage.cached_tokens).into());
        let length = f64::from(usage.prompt_tokens) + f64::from(usage.generated_tokens);
        self.longest.set(self.longest.get().max(length));
        self.generated_tokens.inc_by(usage.generated_tokens.into());
        self.preemptions.inc_by(usage.preemptions.into());
        self.prompt_seconds.inc_by(times.prompt / 1e3);
        self.generated_seconds.inc_by(times.predicted / 1e3);
        self.queue.observe(times.queue / 1e3);
        self.first_token.observe((times.queue + times.prompt) / 1e3);
        self.latency.observe(times.total / 1e3);
        if times.prompt > 0.0 {
            self.prompt_rate.set(f64::from(usage.prompt_tokens) * 1e3 / times.prompt);
        }
        if usage.generated_tokens > 1 && times.predicted > 0.0 {
            let per_token = times.predicted / 1e3 / f64::from(usage.generated_tokens - 1);
            self.per_token.observe(per_token);
            self.generated_rate.set(1.0 / per_token);
        }
        self.batch.observe(self.running.get());
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, app: &App) -> String {
        let load = app.served.service.load();
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
