//! The scheduler under random scripts, with a fake model whose logits depend on nothing but the tokens that the KV
//! pages say came before: a page that is lost, reused too early or written by the wrong sequence changes the output.
//! `watch` checks after every poll what the output does not show.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod alone;
mod fake;
mod watch;

use alone::{OutputToken, alone, output_token};
use arbitrary::{Result, Unstructured};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, GenerationParams, KvPart, Nanos, PoolingOutput, PoolingRequest,
    Progress, Request, RequestId, SubmitError, Usage,
};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::{KvGroup, Model, StateShape};
use doorbell_core::plan::{DeltaShape, GroupId, HeadOrder, PAGE_TOKENS};
use doorbell_core::sample::{Generator, MirostatVersion, PenaltyParams, SamplerParams};
use doorbell_core::token::TokenId;
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use fake::{END, Fake, Grammars, Nature, TOKENS, after, scores};
use std::collections::HashMap;
use watch::Watch;

const HEAP: Heap<'static> = &Global;
#[derive(Clone, Debug)]
struct Job {
    prompt: Vec<TokenId>,
    max_tokens: u32,
    params: SamplerParams,
    ignore_end: bool,
    /// True if a grammar restricts it.
    grammar: bool,
    /// True if it takes nothing from the cache.
    skip_cache: bool,
}

/// A greedy job of exactly `max_tokens` tokens.
fn greedy(prompt: Vec<TokenId>, max_tokens: u32) -> Job {
    let params = SamplerParams::greedy();
    Job { prompt, max_tokens, params, ignore_end: true, grammar: false, skip_cache: false }
}

struct Outcome {
    tokens: Vec<OutputToken>,
    reason: FinishReason,
    usage: Usage,
}

/// Runs a test on a model with one group that keeps all pages.
fn with_model(test: impl FnOnce(&Model<'_>)) {
    with_kinds(&[None], false, test);
}

/// Runs a test on a model whose KV groups have these windows, and which has a recurrent state or none.
fn with_kinds(windows: &[Option<u32>], state: bool, test: impl FnOnce(&Model<'_>)) {
    let bytes = tiny::f32_model(Family::Llama, 1);
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    let mut model = Model::new(&gguf, HEAP).unwrap();
    let group = model.groups[0];
    model.groups.clear();
    model.groups.extend(windows.iter().map(|&window| KvGroup { window, ..group }));
    // the device keeps a hash, whatever the shape
    let delta = DeltaShape {
        key_heads: 1,
        value_heads: 1,
        key_dim: 1,
        value_dim: 1,
        taps: 1,
        order: HeadOrder::Grouped,
    };
    model.state = state.then_some(StateShape { layers: 1, delta });
    test(&model);
}

fn engine<'m, 'a>(model: &'m Model<'a>, config: Config, nature: Nature) -> Engine<'m, 'a, Fake> {
    let fake = Fake::new(model, &config, nature);
    Engine::new(model, fake, config, &[END], HEAP).unwrap()
}

fn submit(
    engine: &mut Engine<'_, '_, Fake>,
    id: RequestId,
    job: &Job,
    now: u64,
) -> core::result::Result<(), SubmitError> {
    let Job { prompt, max_tokens, params, ignore_end, skip_cache, .. } = job;
    let request = Request {
        id,
        prompt,
        params: GenerationParams {
            max_tokens: *max_tokens,
            sampler: params.clone(),
            ignore_end: *ignore_end,
            skip_prefix_cache: *skip_cache,
            ..GenerationParams::default()
        },
    };
    engine.submit(&request, Nanos(now))
}

type Outcomes = HashMap<RequestId, Outcome>;

/// Output of live requests so far.
#[derive(Default)]
struct Streams {
    tokens: HashMap<RequestId, Vec<OutputToken>>,
    /// For each pooling request, the scores after every token.
    pooled: HashMap<RequestId, Vec<Vec<f32>>>,
    watch: Watch,
    grammars: Grammars,
    /// Steps that failed.
    failures: usize,
}

/// The scores after every token of a text.
fn scores_alone(text: &[TokenId], vocabulary: u32, nan: bool) -> Vec<Vec<f32>> {
    let mut hash = 0;
    let row = |(position, &token)| {
        hash = after(hash, token, position);
        let mut row = vec![0.0; vocabulary as usize];
        scores(hash, nan, &mut row);
        row
    };
    (0..).zip(text).map(row).collect()
}

fn poll(
    engine: &mut Engine<'_, '_, Fake>,
    now: u64,
    streams: &mut Streams,
    outcomes: &mut Outcomes,
    held: &[KvPart],
) -> Progress {
    let progress = engine.poll_constrained(Nanos(now), &mut streams.grammars, &mut |event| match event {
        Event::Token { request, token, logprobs } => {
            assert!(!outcomes.contains_key(&request), "a token after the end");
            streams.tokens.entry(request).or_default().push(output_token(token, logprobs));
            streams.watch.token(request);
        }
        Event::Pooled { request, position, row } => {
            let rows = streams.pooled.entry(request).or_default();
            assert_eq!(position as usize, rows.len(), "rows come in order, each once");
            rows.push(row.to_vec());
        }
        Event::Finished { request, reason, usage } => {
            let tokens = streams.tokens.remove(&request).unwrap_or_default();
            assert_eq!(usage.generated_tokens as usize, tokens.len());
            assert!(outcomes.insert(request, Outcome { tokens, reason, usage }).is_none(), "ended twice");
        }
        _ => {}
    });
    streams.watch.check(engine, held);
    let Ok(progress) = progress else {
        streams.failures += 1;
        return Progress::Waiting;
    };
    if progress == Progress::Idle {
        streams.watch.idle();
    }
    // requests that wait for pages held outside may make no progress
    assert!(
        progress != Progress::Idle || engine.live() == 0 || !held.is_empty(),
        "no request makes progress"
    );
    progress
}

fn drain(engine: &mut Engine<'_, '_, Fake>, mut now: u64, outcomes: &mut Outcomes) {
    let mut streams = Streams::default();
    while poll(engine, now, &mut streams, outcomes, &[]) != Progress::Idle {
        now += 1;
        assert!(now < 100_000, "requests make no progress");
    }
    assert_eq!(streams.failures, 0);
}

fn job(u: &mut Unstructured<'_>, context: u32) -> Result<Job> {
    let longest = if u.ratio(1, 3)? { context.min(2 * PAGE_TOKENS as u32) } else { context };
    let length = u.int_in_range(1..=longest - 1)?;
    // Prompts are runs of one token with a break: long shared prefixes, many page boundaries.
    let (first, second) = (u.int_in_range(0..=TOKENS - 1)?, u.int_in_range(0..=TOKENS - 1)?);
    let turn = u.int_in_range(0..=length)?;
    let prompt = (0..length).map(|i| TokenId(if i < turn { first } else { second })).collect();
    let params = params(u)?;
    let (max_tokens, ignore_end) = (u.int_in_range(1..=150)?, u.arbitrary()?);
    Ok(Job { prompt, max_tokens, params, ignore_end, grammar: u.ratio(1, 8)?, skip_cache: u.ratio(1, 10)? })
}

/// Random sampler parameters, some with a memory of earlier tokens.
fn params(u: &mut Unstructured<'_>) -> Result<SamplerParams> {
    let temperature = if u.arbitrary()? { 0.0 } else { 1.0 };
    let seed = u.int_in_range(0..=3)?;
    let mut params = SamplerParams { seed, temperature, ..SamplerParams::default() };
    match u.int_in_range(0..=15)? {
        0 => params.penalties = PenaltyParams { last_n: 16, repeat: 1.3, frequency: 0.1, presence: 0.1 },
        1 => params.dry.multiplier = 0.8,
        2 => params.mirostat.version = MirostatVersion::V2,
        3 => params.generator = Generator::Mt19937,
        4 => params.logprobs = Some(2),
        _ => {}
    }
    Ok(params)
}

/// Counts of the situations that scripts are meant to meet.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    preempted: usize,
    held: usize,
    imported: usize,
    cached: usize,
    cancelled: usize,
    pooled: usize,
    multi_step: usize,
    failed: usize,
    nan: usize,
}

const SCRIPTS: usize = 10_000;

/// Asserts that every pooling request got all its rows, or the first ones if it was cut off. Returns the number that
/// ended.
fn judge_pooling(
    model: &Model<'_>,
    pooled: &HashMap<RequestId, Job>,
    outcomes: &Outcomes,
    streams: &mut Streams,
    nan: bool,
) -> usize {
    let mut ended = 0;
    for (id, job) in pooled {
        let rows = streams.pooled.remove(id).unwrap_or_default();
        let expected = scores_alone(&job.prompt, model.vocabulary, nan);
        let bits = |rows: &[Vec<f32>]| rows.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let reason = outcomes[id].reason;
        if reason == FinishReason::Pooled {
            assert_eq!(bits(&rows), bits(&expected), "{id:?}");
            ended += 1;
        } else {
            assert!(cut(reason, streams.watch.is_cancelled(*id), streams.failures), "{id:?} {reason:?}");
            assert_eq!(bits(&rows), bits(&expected[..rows.len()]), "{id:?}");
        }
    }
    ended
}

/// True if a request was cancelled or failed with a step; asserts that this has happened.
fn cut(reason: FinishReason, cancelled: bool, failures: usize) -> bool {
    match reason {
        FinishReason::Cancelled => cancelled,
        FinishReason::DeviceFailed => failures > 0,
        _ => false,
    }
}

/// Asserts that a request's output in company is its output alone, or the beginning of it if it was cut off.
fn judge(together: &Outcome, alone: &(Vec<OutputToken>, FinishReason), is_cut: bool, label: &str) {
    let (tokens, reason) = (&alone.0, alone.1);
    if is_cut {
        assert_eq!(together.tokens, tokens[..together.tokens.len()], "{label}");
    } else {
        assert_eq!(together.tokens, *tokens, "{label}");
        // a device that picks tokens by itself does not report which logit was NaN
        let is_nan = |reason| matches!(reason, FinishReason::Sampling(_));
        let same = together.reason == reason || is_nan(together.reason) && is_nan(reason);
        assert!(same, "{:?} {reason:?} {label}", together.reason);
    }
    assert!(together.usage.cached_tokens < together.usage.prompt_tokens);
}

/// Prefixes that are held or exported outside the engine.
#[derive(Default)]
struct Outside {
    /// Parts that are held.
    held: Vec<KvPart>,
    /// An exported prefix and the contents of its parts.
    exported: Option<(Vec<TokenId>, Vec<Vec<u8>>)>,
    imported: usize,
}

impl Outside {
    /// Releases held parts, and exports, imports or drops a prefix of whole pages.
    fn change(
        &mut self,
        engine: &mut Engine<'_, '_, Fake>,
        prompt: &[TokenId],
        u: &mut Unstructured<'_>,
    ) -> Result<()> {
        engine.release_prefix(&core::mem::take(&mut self.held));
        if u.ratio(1, 6)? {
            let prefix = engine.acquire_prefix(prompt).unwrap();
            self.held = prefix.parts.to_vec();
            let tokens = &prompt[..prefix.pages as usize * PAGE_TOKENS];
            let contents: Vec<Vec<u8>> = self.held.iter().map(|&part| read(engine, part)).collect();
            let (count, bytes) = engine.prefix_bytes(prefix.pages).unwrap();
            let found = contents.iter().map(Vec::len).sum::<usize>();
            assert_eq!((count, bytes), (contents.len() as u64, found as u64), "sizes are known before");
            self.exported = (!tokens.is_empty()).then(|| (tokens.to_vec(), contents));
        }
        if u.ratio(1, 8)? {
            engine.evict_prefix(prompt);
            assert!(engine.acquire_prefix(prompt).unwrap().parts.is_empty(), "what was forgotten is found");
        }
        if u.ratio(1, 6)?
            && let Some((tokens, contents)) = &self.exported
            && let Ok(prefix) = engine.allocate_prefix((tokens.len() / PAGE_TOKENS) as u32)
        {
            assert_eq!(prefix.parts.len(), contents.len());
            for (&part, contents) in prefix.parts.iter().zip(contents) {
                engine.write_part(part, contents).unwrap();
            }
            engine.insert_prefix(tokens, &prefix.parts);
            self.imported += 1;
        }
        Ok(())
    }
}

/// The contents of a part.
fn read(engine: &mut Engine<'_, '_, Fake>, part: KvPart) -> Vec<u8> {
    let mut contents = vec![0; engine.part_bytes(part)];
    engine.read_part(part, &mut contents).unwrap();
    contents
}

/// A script that has ended.
struct Run<'r> {
    vocabulary: u32,
    config: &'r Config,
    nature: Nature,
    jobs: &'r HashMap<RequestId, Job>,
    outcomes: &'r Outcomes,
}

/// Asserts that every request got its output alone, and counts the situations that the script met.
fn judge_all(run: &Run<'_>, streams: &Streams, seen: &mut Seen) {
    let Run { config, nature, .. } = *run;
    for (id, job) in run.jobs {
        let together = &run.outcomes[id];
        let alone = alone(run.vocabulary, config.context, nature.nan, job);
        let is_cut = cut(together.reason, streams.watch.is_cancelled(*id), streams.failures);
        assert!(
            !job.skip_cache || together.usage.cached_tokens == 0,
            "a request that skips the cache uses none of it"
        );
        judge(together, &alone, is_cut, &format!("{id:?} {job:?} {config:?} {nature:?}"));
        let usage = &together.usage;
        if let Some(admission) = streams.watch.admissions.get(id) {
            // each admission computes each position at most once
            let most =
                (1 + usage.preemptions) * (usage.prompt_tokens + usage.generated_tokens + nature.steps);
            assert!(admission.rows <= most, "{id:?}: {} rows of {most}", admission.rows);
            assert!(usage.preemptions <= usage.generated_tokens);
            let limit = config.context.min(job.prompt.len() as u32 + job.max_tokens);
            assert!(admission.next.is_none_or(|next| next <= limit), "{id:?}: positions within the limit");
            assert!(
                admission.first.is_none_or(|first| first == usage.cached_tokens),
                "the first written position follows the cached ones"
            );
        }
        seen.preempted += usize::from(usage.preemptions > 0);
        seen.cached += usize::from(usage.cached_tokens > 0);
        seen.cancelled += usize::from(together.reason == FinishReason::Cancelled);
        seen.failed += usize::from(together.reason == FinishReason::DeviceFailed);
        seen.nan += usize::from(matches!(together.reason, FinishReason::Sampling(_)));
    }
}

/// Random limits.
fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let context = u.int_in_range(33..=200)?;
    let mut config = Config::new(context, u.int_in_range(1..=5)?, u.int_in_range(1..=64)?);
    config.waiting = u.int_in_range(0..=4)?;
    let least = context.div_ceil(PAGE_TOKENS as u32);
    // often so few that sequences are preempted
    let most = if u.arbitrary()? { config.full_pages() } else { config.full_pages().min(least + 2) };
    config.pages = u.int_in_range(least..=most)?;
    config.step_target = u.int_in_range(1..=1000)?;
    config.pooling_rows = u.int_in_range(1..=40)?;
    config.checkpoints = u.int_in_range(0..=3)?;
    Ok(config)
}

fn nature(u: &mut Unstructured<'_>) -> Result<Nature> {
    let steps = if u.ratio(1, 3)? { u.int_in_range(2..=9)? } else { 0 };
    let fails = if u.ratio(1, 8)? { Some((u.int_in_range(0..=60)?, u.arbitrary()?)) } else { None };
    Ok(Nature { delay: u.int_in_range(0..=2)?, steps, fails, nan: u.ratio(1, 4)? })
}

/// Submits a job, or its prompt as a pooling request.
fn enter(
    engine: &mut Engine<'_, '_, Fake>,
    streams: &mut Streams,
    id: RequestId,
    job: &Job,
    pools: bool,
    now: u64,
) -> core::result::Result<(), SubmitError> {
    if pools {
        engine.submit_pooling(
            &PoolingRequest { id, tokens: &job.prompt, output: PoolingOutput::Logits },
            Nanos(now),
        )?;
        streams.watch.pools(id);
        return Ok(());
    }
    submit(engine, id, job, now)?;
    if job.grammar {
        streams.grammars.add(id);
    }
    if !job.skip_cache {
        streams.watch.begins(id, &job.prompt);
    }
    Ok(())
}

/// Random arrivals, cancellations, chunk sizes, page budgets, hashes, device delays and failures.
fn script(model: &Model<'_>, u: &mut Unstructured<'_>, seen: &mut Seen) -> Result<()> {
    let (config, nature) = (config(u)?, nature(u)?);
    let mut engine = engine(model, config, nature);
    if u.ratio(1, 4)? {
        // every page collides with every other
        engine.set_page_hash(|_, _| 0);
    }
    let (mut outcomes, mut streams) = (HashMap::new(), Streams::default());
    let (mut jobs, mut pooled, mut outside) = (HashMap::new(), HashMap::new(), Outside::default());
    let mut now = 0;
    for number in 0..u.int_in_range(1..=12)? {
        let (id, job) = (RequestId(number), job(u, config.context)?);
        outside.change(&mut engine, &job.prompt, u)?;
        seen.held += usize::from(!outside.held.is_empty());
        let pools = u.ratio(1, 5)?;
        let most = config.sequences + config.waiting;
        match enter(&mut engine, &mut streams, id, &job, pools, now) {
            Ok(()) => {
                assert!(engine.live() as u32 <= most);
                assert!(if pools { &mut pooled } else { &mut jobs }.insert(id, job).is_none());
            }
            Err(SubmitError::Busy) => assert_eq!(engine.live() as u32, most),
            Err(error) => panic!("{error}"),
        }
        for _ in 0..u.int_in_range(0..=30)? {
            now += u.int_in_range(1..=40)?;
            poll(&mut engine, now, &mut streams, &mut outcomes, &outside.held);
        }
        if u.ratio(1, 6)? {
            let victim = RequestId(u.int_in_range(0..=number)?);
            engine.cancel(victim);
            streams.watch.cancels(victim);
        }
    }
    engine.release_prefix(&outside.held);
    while poll(&mut engine, now, &mut streams, &mut outcomes, &[]) != Progress::Idle {
        now += 1;
        assert!(now < 1_000_000, "requests make no progress");
    }
    assert_eq!(engine.kv().available(), config.pages, "leaked pages");
    for group in (0..).map(GroupId).take(model.groups.len()) {
        let pool = engine.kv().pool(group);
        assert_eq!(pool.available(), pool.total(), "leaked pages of group {}", group.0);
    }
    assert_eq!(streams.failures, usize::from(engine.backend().failed), "no other step fails");
    assert_eq!(outcomes.len(), jobs.len() + pooled.len(), "every request ends once");
    seen.imported += outside.imported;
    seen.multi_step += engine.backend().multi_step as usize;
    seen.pooled += judge_pooling(model, &pooled, &outcomes, &mut streams, nature.nan);
    let vocabulary = model.vocabulary;
    let run = Run { vocabulary, config: &config, nature, jobs: &jobs, outcomes: &outcomes };
    judge_all(&run, &streams, seen);
    Ok(())
}

/// Runs random scripts and returns what they met.
fn run_scripts(model: &Model<'_>, seed: u64, scripts: usize) -> Seen {
    let mut random = Random::new(seed);
    let mut bytes = [0; 1024];
    let mut seen = Seen::default();
    for _ in 0..scripts {
        random.fill(&mut bytes);
        script(model, &mut Unstructured::new(&bytes), &mut seen).unwrap();
    }
    println!("{scripts} scripts: {seen:?}");
    seen
}

/// Scripts that exercise nothing would prove nothing: each situation is met once in so many scripts, prefixes of models
/// with a state more seldom by the factor `seldom`.
fn check_seen(seen: &Seen, scripts: usize, seldom: usize) {
    let Seen { preempted, held, imported, cached, cancelled, pooled, multi_step, failed, nan } = *seen;
    for (count, least) in [
        (preempted, 20),
        (held, 20 * seldom),
        (imported, 50 * seldom),
        (cached, 5 * seldom),
        (cancelled, 4),
        (pooled, 4),
        (multi_step, 1),
        (failed, 20),
        (nan, 50),
    ] {
        assert!(count > scripts / least, "{seen:?}");
    }
}

#[test]
fn random_scripts_end_as_if_each_request_were_alone() {
    with_model(|model| check_seen(&run_scripts(model, 20, SCRIPTS), SCRIPTS, 1));
}

/// A window that ends within pages, one of a whole page, and one that sees a position alone.
#[test]
fn random_scripts_with_windows_end_as_if_each_request_were_alone() {
    let scripts = SCRIPTS / 4;
    with_kinds(&[Some(45), None], false, |model| check_seen(&run_scripts(model, 21, scripts), scripts, 1));
    with_kinds(&[None, Some(32), Some(1)], false, |model| {
        check_seen(&run_scripts(model, 22, scripts), scripts, 1)
    });
    with_kinds(&[Some(70), Some(20)], false, |model| {
        check_seen(&run_scripts(model, 23, scripts), scripts, 1)
    });
}

#[test]
fn random_scripts_with_recurrent_states_end_as_if_each_request_were_alone() {
    let scripts = SCRIPTS / 4;
    with_kinds(&[None], true, |model| check_seen(&run_scripts(model, 24, scripts), scripts, 4));
    with_kinds(&[None, Some(45)], true, |model| check_seen(&run_scripts(model, 25, scripts), scripts, 4));
    with_kinds(&[Some(33)], true, |model| check_seen(&run_scripts(model, 26, scripts), scripts, 4));
}

#[test]
fn a_shared_prefix_is_computed_once() {
    with_model(|model| {
        let mut engine = engine(model, Config::new(256, 2, 64), Nature::default());
        let mut outcomes = HashMap::new();
        let prompt: Vec<_> = (0..150).map(|i| TokenId(i % TOKENS)).collect();
        let job = greedy(prompt, 1);
        for (number, cached) in [(0, 0), (1, 128), (2, 128)] {
            submit(&mut engine, RequestId(number), &job, 0).unwrap();
            drain(&mut engine, 1, &mut outcomes);
            assert_eq!(outcomes[&RequestId(number)].usage.cached_tokens, cached);
        }
        let mut longer = job.clone();
        longer.prompt.truncate(96);
        submit(&mut engine, RequestId(3), &longer, 0).unwrap();
        drain(&mut engine, 1, &mut outcomes);
        assert_eq!(outcomes[&RequestId(3)].usage.cached_tokens, 64, "the last token is always computed");
    });
}

#[test]
fn a_prefix_of_simultaneous_requests_is_computed_once() {
    with_model(|model| {
        let mut engine = engine(model, Config::new(256, 5, 64), Nature::default());
        let (mut streams, mut outcomes) = (Streams::default(), HashMap::new());
        let prompt: Vec<_> = (0..200).map(|i| TokenId(i % TOKENS)).collect();
        let job = greedy(prompt, 1);
        for number in 0..4 {
            enter(&mut engine, &mut streams, RequestId(number), &job, false, 0).unwrap();
        }
        submit_long(&mut engine, 4, 20, 1, 0);
        let mut ends = Vec::new();
        while poll(&mut engine, 1, &mut streams, &mut outcomes, &[]) != Progress::Idle {
            ends.push(outcomes.len());
        }
        assert!(ends.contains(&1), "who begins otherwise does not wait");
        assert_eq!([0, 1, 2, 3].map(|id| outcomes[&RequestId(id)].usage.cached_tokens), [0, 192, 192, 192]);
        let rows = [0, 1].map(|id| streams.watch.admissions[&RequestId(id)].rows);
        assert_eq!(rows, [200, 8]);
    });
}

#[test]
fn the_least_recently_used_prefix_is_evicted_first_from_its_end() {
    with_model(|model| {
        let mut config = Config::new(512, 1, 64);
        config.pages = 16;
        let mut engine = engine(model, config, Nature::default());
        let mut outcomes = HashMap::new();
        let mut found = |engine: &mut Engine<'_, '_, Fake>, number: u64, length: usize| {
            submit_long(engine, number, length, 1, 0);
            drain(engine, 1, &mut outcomes);
            outcomes.remove(&RequestId(number)).unwrap().usage.cached_tokens
        };
        // four whole pages each; the first prefix is used again
        assert_eq!([1, 2, 1].map(|number| found(&mut engine, number, 129)), [0, 0, 128]);
        // eight pages are free, eleven are needed
        assert_eq!(found(&mut engine, 3, 351), 0);
        assert_eq!([1, 2].map(|number| found(&mut engine, number, 129)), [128, 32]);
    });
}

#[test]
fn sequences_are_preempted_when_pages_run_out_and_still_finish() {
    with_model(|model| {
        let mut config = Config::new(200, 4, 64);
        config.pages = 9;
        let mut engine = engine(model, config, Nature::default());
        let mut outcomes = HashMap::new();
        for number in 0..4u32 {
            let prompt = vec![TokenId(number % TOKENS); 20 + number as usize];
            let job = greedy(prompt, 150);
            submit(&mut engine, RequestId(number.into()), &job, 0).unwrap();
        }
        drain(&mut engine, 1, &mut outcomes);
        assert_eq!(outcomes.len(), 4);
        assert!(outcomes.values().all(|outcome| outcome.tokens.len() == 150));
        // Each ends with six pages.
        assert!(outcomes.values().any(|outcome| outcome.usage.preemptions > 0));
    });
}

/// The first comes to need three of the five pages, the second needs three at once.
#[test]
fn pages_of_a_growing_sequence_admit_no_other() {
    with_model(|model| {
        let mut config = Config::new(128, 2, 64);
        config.pages = 5;
        config.waiting = 1;
        let mut engine = engine(model, config, Nature::default());
        let mut outcomes = HashMap::new();
        submit_long(&mut engine, 0, 60, 30, 0);
        submit_long(&mut engine, 1, 65, 20, 0);
        drain(&mut engine, 1, &mut outcomes);
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.values().all(|outcome| outcome.usage.preemptions == 0));
    });
}

#[test]
fn a_request_that_never_fits_is_refused_at_once() {
    with_model(|model| {
        let mut config = Config::new(200, 1, 64);
        config.pages = 3;
        let mut engine = engine(model, config, Nature::default());
        let job = greedy(vec![TokenId(1); 90], 7);
        assert_eq!(
            submit(&mut engine, RequestId(0), &job, 0),
            Err(SubmitError::NeverFits { needed: 4, total: 3 })
        );
        let job = Job { max_tokens: 6, ..job };
        assert_eq!(submit(&mut engine, RequestId(0), &job, 0), Ok(()));
    });
}

/// Submits a prompt of `length` tokens that shares no prefix with those of other numbers.
fn submit_long(engine: &mut Engine<'_, '_, Fake>, number: u64, length: usize, max_tokens: u32, now: u64) {
    let prompt = (0..length).map(|i| TokenId((number as usize * 3 + i) as u32 % 500)).collect();
    let job = greedy(prompt, max_tokens);
    submit(engine, RequestId(number), &job, now).unwrap();
}

/// A step is collected and the next one formed with each poll.
#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    with_model(|model| {
        let mut engine = engine(model, Config::new(8500, 2, 512), Nature::default());
        let (mut streams, mut outcomes) = (Streams::default(), HashMap::new());
        submit_long(&mut engine, 0, 8192, 1, 0);
        let mut step = |engine: &mut Engine<'_, '_, Fake>| {
            poll(engine, 1, &mut streams, &mut outcomes, &[]);
            (outcomes.contains_key(&RequestId(0)), outcomes.contains_key(&RequestId(1)))
        };
        assert_eq!(step(&mut engine), (false, false));
        submit_long(&mut engine, 1, 200, 1, 0);
        // the step in flight, its own step, and the end
        assert_eq!([(); 2].map(|()| step(&mut engine)), [(false, false), (false, true)]);
    });
}

#[test]
fn a_long_prompt_does_not_wait_for_short_ones() {
    with_model(|model| {
        let mut config = Config::new(8500, 4, 512);
        config.waiting = 4;
        let mut engine = engine(model, config, Nature::default());
        let (mut streams, mut outcomes) = (Streams::default(), HashMap::new());
        submit_long(&mut engine, 0, 8192, 1, 0);
        let (mut next, mut steps) = (1, 0);
        while !outcomes.contains_key(&RequestId(0)) {
            while engine.live() < 8 {
                submit_long(&mut engine, next, 300, 1, 0);
                next += 1;
            }
            poll(&mut engine, 1, &mut streams, &mut outcomes, &[]);
            steps += 1;
        }
        // half of the rows of each step belong to it
        assert!((32..=34).contains(&steps), "{steps} steps");
        assert!(outcomes.len() > 20, "{}", outcomes.len());
    });
}

/// With 10 ns a row, a target of 1,000 ns is 100 rows.
#[test]
fn prompts_keep_to_the_target_while_a_request_streams() {
    with_model(|model| {
        let mut config = Config::new(4096, 2, 512);
        config.step_target = 1000;
        let mut engine = engine(model, config, Nature::default());
        let (mut streams, mut outcomes, mut now) = (Streams::default(), HashMap::new(), 0);
        let mut rows = Vec::new();
        submit_long(&mut engine, 0, 2000, 50, 0);
        for step in 0..24 {
            if step == 12 {
                submit_long(&mut engine, 1, 2000, 50, now);
            }
            let admissions = &streams.watch.admissions;
            let before: u32 = admissions.values().map(|admission| admission.rows).sum();
            poll(&mut engine, now, &mut streams, &mut outcomes, &[]);
            let admissions = &streams.watch.admissions;
            rows.push(admissions.values().map(|admission| admission.rows).sum::<u32>() - before);
            now += 10 * u64::from(rows[step]);
        }
        // the first runs alone, then it streams while the second one comes; only steps with streaming rows count
        assert_eq!(rows[..4], [512, 512, 512, 464]);
        assert_eq!(rows[4..12], [1; 8]);
        assert_eq!(rows[12..], [101; 12]);
    });
}
