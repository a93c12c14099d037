//! The scheduler under random scripts, with a fake model whose logits depend on nothing but the tokens that the KV
//! pages say came before: a page that is lost, reused too early or written by the wrong sequence changes the output.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use arbtest::arbitrary::{Result, Unstructured};
use doorbell_core::backend::{Backend, Output};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, Nanos, Progress, Reading, Request, RequestId, SubmitError, Usage,
    Wanted,
};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, BatchError, BatchLimits, GroupId, Op, PAGE_TOKENS, PageId, Plan};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::TokenId;
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use std::collections::HashMap;

const HEAP: Heap<'static> = &Global;
/// Few tokens, so that random prompts share prefixes and random outputs meet the end token.
const TOKENS: u32 = 3;
const END: TokenId = TokenId(7);

/// Keys and values that are hashes of all tokens up to a position.
struct Fake {
    cells: Vec<u64>,
    limits: BatchLimits,
    logits: Vec<f32>,
    rows: usize,
    /// Polls until the step in flight is done.
    delay: u32,
    in_flight: Option<u32>,
}

fn mix(hash: u64, value: u64) -> u64 {
    let x = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 31)
}

fn after(hash: u64, token: TokenId, position: u32) -> u64 {
    mix(mix(hash, u64::from(token.0) + 1), u64::from(position))
}

/// Mostly the few tokens, sometimes the end.
fn scores(hash: u64, out: &mut [f32]) {
    out.fill(-50.0);
    for token in 0..TOKENS {
        out[token as usize] = (mix(hash, u64::from(token)) % 1000) as f32 / 250.0;
    }
    out[END.0 as usize] = (mix(hash, 99) % 1000) as f32 / 300.0 - 1.0;
}

impl Backend for Fake {
    type Error = BatchError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> core::result::Result<(), BatchError> {
        assert!(self.in_flight.is_none(), "two steps in flight");
        batch.check(&BatchLimits { shape: plan.shape, ..self.limits })?;
        self.rows = self.rows.max(batch.rows());
        self.logits.clear();
        for row in 0..batch.rows() as u32 {
            let (sequence, position) = batch.place(row).unwrap();
            let pages = batch.tables.of(sequence, GroupId(0));
            let cell = |position: u32| {
                let position = position as usize;
                pages[position / PAGE_TOKENS].0 as usize * PAGE_TOKENS + position % PAGE_TOKENS
            };
            let before = if position == 0 { 0 } else { self.cells[cell(position - 1)] };
            let hash = after(before, batch.tokens[row as usize], position);
            self.cells[cell(position)] = hash;
            if batch.outputs.contains(&row) {
                let start = self.logits.len();
                self.logits.resize(start + self.limits.vocabulary as usize, 0.0);
                scores(hash, &mut self.logits[start..]);
            }
        }
        self.in_flight = Some(self.delay);
        Ok(())
    }

    fn poll(&mut self) -> core::result::Result<Option<Output<'_>>, BatchError> {
        match self.in_flight.as_mut() {
            Some(0) => {
                self.in_flight = None;
                Ok(Some(Output::Logits(&self.logits)))
            }
            Some(left) => {
                *left -= 1;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

#[derive(Clone, Debug)]
struct Job {
    prompt: Vec<TokenId>,
    max_tokens: u32,
    params: SamplerParams,
    ignore_end: bool,
}

struct Outcome {
    tokens: Vec<TokenId>,
    reason: FinishReason,
    usage: Usage,
}

fn with_model(test: impl FnOnce(&Model<'_>)) {
    let bytes = tiny::f32_model(Family::Llama, 1);
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    test(&Model::new(&gguf, HEAP).unwrap());
}

fn engine<'m, 'a>(model: &'m Model<'a>, config: Config, delay: u32) -> Engine<'m, 'a, Fake> {
    let limits = BatchLimits {
        shape: config.largest_shape(),
        vocabulary: model.vocabulary,
        groups: model.groups.len(),
        pages: config.pages,
    };
    let cells = vec![0; config.pages as usize * PAGE_TOKENS];
    let fake = Fake { cells, limits, logits: Vec::new(), rows: 0, delay, in_flight: None };
    Engine::new(model, fake, config, &[END], HEAP).unwrap()
}

/// A job's output with nobody else around.
fn alone(model: &Model<'_>, context: u32, id: RequestId, job: &Job) -> Outcome {
    let mut engine = engine(model, Config::new(context, 1, 7), 0);
    let mut outcomes = HashMap::new();
    submit(&mut engine, id, job, 0).unwrap();
    drain(&mut engine, 1, &mut outcomes);
    outcomes.remove(&id).unwrap()
}

fn submit(
    engine: &mut Engine<'_, '_, Fake>,
    id: RequestId,
    job: &Job,
    now: u64,
) -> core::result::Result<(), SubmitError> {
    let Job { prompt, max_tokens, params, ignore_end } = job;
    let request = Request {
        id,
        prompt,
        max_tokens: *max_tokens,
        sampler: params,
        bias: &[],
        breakers: None,
        ignore_end: *ignore_end,
    };
    engine.submit(&request, Nanos(now))
}

type Outcomes = HashMap<RequestId, Outcome>;

/// What live requests and readings have given so far.
#[derive(Default)]
struct Streams {
    tokens: HashMap<RequestId, Vec<TokenId>>,
    /// Of each reading the scores behind every token.
    reads: HashMap<RequestId, Vec<Vec<f32>>>,
}

/// The scores behind every token of a text.
fn read_alone(text: &[TokenId], vocabulary: u32) -> Vec<Vec<f32>> {
    let mut hash = 0;
    let row = |(position, &token)| {
        hash = after(hash, token, position);
        let mut row = vec![0.0; vocabulary as usize];
        scores(hash, &mut row);
        row
    };
    (0..).zip(text).map(row).collect()
}

fn poll(
    engine: &mut Engine<'_, '_, Fake>,
    now: u64,
    streams: &mut Streams,
    outcomes: &mut Outcomes,
) -> Progress {
    let progress = engine.poll(Nanos(now), &mut |event| match event {
        Event::Token { request, token, .. } => {
            assert!(!outcomes.contains_key(&request), "a token after the end");
            streams.tokens.entry(request).or_default().push(token);
        }
        Event::Read { request, position, row } => {
            let rows = streams.reads.entry(request).or_default();
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
    progress.unwrap()
}

fn drain(engine: &mut Engine<'_, '_, Fake>, mut now: u64, outcomes: &mut Outcomes) {
    let mut streams = Streams::default();
    while poll(engine, now, &mut streams, outcomes) != Progress::Idle {
        now += 1;
        assert!(now < 100_000, "requests starve");
    }
}

fn job(u: &mut Unstructured<'_>, context: u32) -> Result<Job> {
    let length = u.int_in_range(1..=context - 1)?;
    // Prompts are runs of one token with a break: long shared prefixes, many page boundaries.
    let (first, second) = (u.int_in_range(0..=TOKENS - 1)?, u.int_in_range(0..=TOKENS - 1)?);
    let turn = u.int_in_range(0..=length)?;
    let prompt = (0..length).map(|i| TokenId(if i < turn { first } else { second })).collect();
    let temperature = if u.arbitrary()? { 0.0 } else { 1.0 };
    let params = SamplerParams { seed: u.int_in_range(0..=3)?, temperature, ..SamplerParams::default() };
    Ok(Job { prompt, max_tokens: u.int_in_range(1..=90)?, params, ignore_end: u.ratio(1, 4)? })
}

/// Requests that met what the scripts are for.
#[derive(Debug, Default)]
struct Seen {
    preempted: usize,
    held: usize,
    cached: usize,
    cancelled: usize,
    read: usize,
}

const SCRIPTS: usize = 10_000;

/// Requires of every reading all its rows, or of a cancelled one its first; answers how many ended.
fn judge_readings(
    model: &Model<'_>,
    readings: &HashMap<RequestId, Vec<TokenId>>,
    outcomes: &Outcomes,
    streams: &mut Streams,
    cancelled: &[RequestId],
) -> usize {
    let mut read = 0;
    for (id, text) in readings {
        let rows = streams.reads.remove(id).unwrap_or_default();
        let expected = read_alone(text, model.vocabulary);
        let reason = outcomes[id].reason;
        if reason == FinishReason::Read {
            assert_eq!(rows, expected, "{id:?}");
            read += 1;
        } else {
            assert!(reason == FinishReason::Cancelled && cancelled.contains(id));
            assert_eq!(rows, expected[..rows.len()], "{id:?}");
        }
    }
    read
}

/// Requires what a request got beside others to be what it gets alone, or its beginning if it was cancelled.
fn judge(together: &Outcome, alone: &Outcome, cancelled: bool, what: &str) {
    if together.reason == FinishReason::Cancelled {
        assert!(cancelled);
        assert_eq!(together.tokens, alone.tokens[..together.tokens.len()]);
    } else {
        assert_eq!(together.tokens, alone.tokens, "{what}");
        assert_eq!(together.reason, alone.reason);
    }
    assert!(together.usage.cached_tokens < together.usage.prompt_tokens);
}

/// Prefixes are carried away, brought back and forgotten meanwhile; returns the pages carried away.
fn carry(
    engine: &mut Engine<'_, '_, Fake>,
    prompt: &[TokenId],
    u: &mut Unstructured<'_>,
) -> Result<Vec<PageId>> {
    let mut held = Vec::new();
    if u.ratio(1, 6)? {
        held = engine.hold_prefix(prompt).unwrap().to_vec();
        assert!(held.len() <= prompt.len() / PAGE_TOKENS);
    }
    if u.ratio(1, 8)? {
        engine.forget_prefix(prompt);
        let again = engine.hold_prefix(prompt).unwrap().to_vec();
        assert!(again.is_empty(), "what was forgotten is found");
    }
    Ok(held)
}

/// Requires every request to have got what it gets alone, and counts what the script exercised.
fn judge_all(
    model: &Model<'_>,
    config: &Config,
    (jobs, outcomes): (&HashMap<RequestId, Job>, &HashMap<RequestId, Outcome>),
    cancelled: &[RequestId],
    seen: &mut Seen,
) {
    for (id, job) in jobs {
        let (together, alone) = (&outcomes[id], alone(model, config.context, *id, job));
        judge(together, &alone, cancelled.contains(id), &format!("{id:?} {job:?} {config:?}"));
        seen.preempted += usize::from(together.usage.preemptions > 0);
        seen.cached += usize::from(together.usage.cached_tokens > 0);
        seen.cancelled += usize::from(together.reason == FinishReason::Cancelled);
    }
}

/// Random arrivals, cancellations, chunk sizes, page budgets and device delays.
fn script(model: &Model<'_>, u: &mut Unstructured<'_>, seen: &mut Seen) -> Result<()> {
    let context = u.int_in_range(33..=200)?;
    let sequences = u.int_in_range(1..=5)?;
    let mut config = Config::new(context, sequences, u.int_in_range(1..=64)?);
    config.waiting = u.int_in_range(0..=4)?;
    let least = context.div_ceil(PAGE_TOKENS as u32);
    config.pages = u.int_in_range(least..=config.full_pages())?;
    config.step_target = u.int_in_range(1..=1000)?;
    config.reading_rows = u.int_in_range(1..=40)?;
    let mut engine = engine(model, config, u.int_in_range(0..=2)?);
    let (mut outcomes, mut jobs, mut cancelled) = (HashMap::new(), HashMap::new(), Vec::new());
    let (mut streams, mut readings) = (Streams::default(), HashMap::new());
    let mut now = 0;
    let (mut held, mut anews) = (Vec::new(), Vec::new());
    for number in 0..u.int_in_range(1..=12)? {
        let (id, job) = (RequestId(number), job(u, context)?);
        engine.give_pages(&core::mem::take(&mut held));
        held = carry(&mut engine, &job.prompt, u)?;
        seen.held += usize::from(!held.is_empty());
        let reads = u.ratio(1, 5)?;
        let anew = u.ratio(1, 10)?;
        let submitted = if reads {
            let reading = Reading { id, tokens: &job.prompt, wanted: Wanted::Logits };
            engine.submit_reading(&reading, Nanos(now))
        } else {
            submit(&mut engine, id, &job, now)
        };
        match submitted {
            Ok(()) if reads => assert!(readings.insert(id, job.prompt).is_none()),
            Ok(()) => {
                if anew {
                    engine.compute_anew(id);
                    anews.push(id);
                }
                assert!(jobs.insert(id, job).is_none());
            }
            Err(SubmitError::Busy) => assert_eq!(engine.live() as u32, sequences + config.waiting),
            Err(error) => panic!("{error}"),
        }
        for _ in 0..u.int_in_range(0..=30)? {
            now += u.int_in_range(1..=40)?;
            poll(&mut engine, now, &mut streams, &mut outcomes);
        }
        if u.ratio(1, 6)? {
            let victim = RequestId(u.int_in_range(0..=number)?);
            engine.cancel(victim);
            cancelled.push(victim);
        }
    }
    engine.give_pages(&held);
    while poll(&mut engine, now, &mut streams, &mut outcomes) != Progress::Idle {
        now += 1;
        assert!(now < 1_000_000, "requests starve");
    }
    assert_eq!(engine.pool().available(), config.pages, "leaked pages");
    let cached = |id: &RequestId| outcomes.get(id).map_or(0, |outcome| outcome.usage.cached_tokens);
    assert!(anews.iter().all(|id| cached(id) == 0), "what is computed anew is not from the cache");
    assert_eq!(outcomes.len(), jobs.len() + readings.len(), "every request ends once");
    seen.read += judge_readings(model, &readings, &outcomes, &mut streams, &cancelled);
    judge_all(model, &config, (&jobs, &outcomes), &cancelled, seen);
    Ok(())
}

#[test]
fn random_scripts_end_as_if_each_request_were_alone() {
    with_model(|model| {
        let mut random = Random::new(20);
        let mut bytes = [0; 1024];
        let mut seen = Seen::default();
        for _ in 0..SCRIPTS {
            random.fill(&mut bytes);
            script(model, &mut Unstructured::new(&bytes), &mut seen).unwrap();
        }
        // Scripts that exercise nothing would prove nothing.
        assert!(
            seen.preempted > SCRIPTS / 20
                && seen.held > SCRIPTS / 20
                && seen.cached > SCRIPTS / 4
                && seen.cancelled > SCRIPTS / 4
                && seen.read > SCRIPTS / 4,
            "{seen:?}"
        );
    });
}

#[test]
fn a_shared_prefix_is_computed_once() {
    with_model(|model| {
        let mut engine = engine(model, Config::new(256, 2, 64), 0);
        let mut outcomes = HashMap::new();
        let prompt: Vec<_> = (0..150).map(|i| TokenId(i % TOKENS)).collect();
        let job = Job { prompt, max_tokens: 1, params: SamplerParams::greedy(), ignore_end: true };
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
fn sequences_give_way_when_pages_run_out_and_still_finish() {
    with_model(|model| {
        let mut config = Config::new(200, 4, 64);
        config.pages = 9;
        let mut engine = engine(model, config, 0);
        let mut outcomes = HashMap::new();
        for number in 0..4u32 {
            let prompt = vec![TokenId(number % TOKENS); 20 + number as usize];
            let job = Job { prompt, max_tokens: 150, params: SamplerParams::greedy(), ignore_end: true };
            submit(&mut engine, RequestId(number.into()), &job, 0).unwrap();
        }
        drain(&mut engine, 1, &mut outcomes);
        assert_eq!(outcomes.len(), 4);
        assert!(outcomes.values().all(|outcome| outcome.tokens.len() == 150));
        // Each ends with six pages.
        assert!(outcomes.values().any(|outcome| outcome.usage.preemptions > 0));
    });
}

#[test]
fn what_never_fits_is_refused_at_once() {
    with_model(|model| {
        let mut config = Config::new(200, 1, 64);
        config.pages = 3;
        let mut engine = engine(model, config, 0);
        let job = Job {
            prompt: vec![TokenId(1); 90],
            max_tokens: 7,
            params: SamplerParams::greedy(),
            ignore_end: true,
        };
        assert_eq!(
            submit(&mut engine, RequestId(0), &job, 0),
            Err(SubmitError::NeverFits { needed: 4, total: 3 })
        );
        let job = Job { max_tokens: 6, ..job };
        assert_eq!(submit(&mut engine, RequestId(0), &job, 0), Ok(()));
    });
}
