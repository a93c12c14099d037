//! The scheduler under random scripts, with a fake model whose logits depend on nothing but the tokens that the KV
//! pages say came before: a page that is lost, reused too early or written by the wrong sequence changes the output.
//! `watch` looks after every poll at what the output does not tell.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

extern crate alloc;

mod fake;
mod watch;

use arbitrary::{Result, Unstructured};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, Nanos, Progress, Reading, Request, RequestId, SubmitError, Usage,
    Wanted,
};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{PAGE_TOKENS, PageId};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::TokenId;
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use fake::{END, Fake, Nature, TOKENS, after, scores};
use std::collections::HashMap;
use watch::Watch;

const HEAP: Heap<'static> = &Global;
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

fn engine<'m, 'a>(model: &'m Model<'a>, config: Config, nature: Nature) -> Engine<'m, 'a, Fake> {
    let fake = Fake::new(model, &config, nature);
    Engine::new(model, fake, config, &[END], HEAP).unwrap()
}

/// A job's output with nobody else around.
fn alone(model: &Model<'_>, context: u32, nan: bool, id: RequestId, job: &Job) -> Outcome {
    let mut engine = engine(model, Config::new(context, 1, 7), Nature { nan, ..Nature::default() });
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
    watch: Watch,
    /// Steps that failed.
    failures: usize,
}

/// The scores behind every token of a text.
fn read_alone(text: &[TokenId], vocabulary: u32, nan: bool) -> Vec<Vec<f32>> {
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
    held: &[PageId],
) -> Progress {
    let progress = engine.poll(Nanos(now), &mut |event| match event {
        Event::Token { request, token, .. } => {
            assert!(!outcomes.contains_key(&request), "a token after the end");
            streams.tokens.entry(request).or_default().push(token);
            streams.watch.token(request);
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
    streams.watch.look(engine, held);
    let Ok(progress) = progress else {
        streams.failures += 1;
        return Progress::Waiting;
    };
    // whoever waits for pages that are held outside may stand still
    assert!(progress != Progress::Idle || engine.live() == 0 || !held.is_empty(), "nobody goes on");
    progress
}

fn drain(engine: &mut Engine<'_, '_, Fake>, mut now: u64, outcomes: &mut Outcomes) {
    let mut streams = Streams::default();
    while poll(engine, now, &mut streams, outcomes, &[]) != Progress::Idle {
        now += 1;
        assert!(now < 100_000, "requests starve");
    }
    assert_eq!(streams.failures, 0);
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

/// How often scripts met what they are for.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    preempted: usize,
    held: usize,
    brought: usize,
    cached: usize,
    cancelled: usize,
    read: usize,
    chained: usize,
    failed: usize,
    unnumbered: usize,
}

const SCRIPTS: usize = 10_000;

/// Requires of every reading all its rows, or its first if it was cut off; answers how many ended.
fn judge_readings(
    model: &Model<'_>,
    readings: &HashMap<RequestId, Vec<TokenId>>,
    outcomes: &Outcomes,
    streams: &mut Streams,
    (cancelled, nan): (&[RequestId], bool),
) -> usize {
    let mut read = 0;
    for (id, text) in readings {
        let rows = streams.reads.remove(id).unwrap_or_default();
        let expected = read_alone(text, model.vocabulary, nan);
        let bits = |rows: &[Vec<f32>]| rows.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let reason = outcomes[id].reason;
        if reason == FinishReason::Read {
            assert_eq!(bits(&rows), bits(&expected), "{id:?}");
            read += 1;
        } else {
            assert!(cut(reason, cancelled.contains(id), streams.failures), "{id:?} {reason:?}");
            assert_eq!(bits(&rows), bits(&expected[..rows.len()]), "{id:?}");
        }
    }
    read
}

/// Whether it ended for a reason that is not its own, and that reason was there.
fn cut(reason: FinishReason, cancelled: bool, failures: usize) -> bool {
    match reason {
        FinishReason::Cancelled => cancelled,
        FinishReason::DeviceFailed => failures > 0,
        _ => false,
    }
}

/// Requires what a request got beside others to be what it gets alone, or its beginning if it was cut off.
fn judge(together: &Outcome, alone: &Outcome, is_cut: bool, what: &str) {
    if is_cut {
        assert_eq!(together.tokens, alone.tokens[..together.tokens.len()], "{what}");
    } else {
        assert_eq!(together.tokens, alone.tokens, "{what}");
        // a device that picks by itself does not tell which logit was none
        let unnumbered = |reason| matches!(reason, FinishReason::Sampling(_));
        let same = together.reason == alone.reason || unnumbered(together.reason) && unnumbered(alone.reason);
        assert!(same, "{:?} {:?} {what}", together.reason, alone.reason);
    }
    assert!(together.usage.cached_tokens < together.usage.prompt_tokens);
}

/// Prefixes that somebody outside has to do with.
#[derive(Default)]
struct Outside {
    /// Pages that are held.
    held: Vec<PageId>,
    /// A prefix that was carried away, and its cells.
    away: Option<(Vec<TokenId>, Vec<u64>)>,
    brought: usize,
}

impl Outside {
    /// Gives back what was held, and carries away, brings back or forgets a prefix of whole pages.
    fn carry(
        &mut self,
        engine: &mut Engine<'_, '_, Fake>,
        prompt: &[TokenId],
        u: &mut Unstructured<'_>,
    ) -> Result<()> {
        engine.give_pages(&core::mem::take(&mut self.held));
        let cells = |page: &PageId| page.0 as usize * PAGE_TOKENS..(page.0 as usize + 1) * PAGE_TOKENS;
        if u.ratio(1, 6)? {
            self.held = engine.hold_prefix(prompt).unwrap().to_vec();
            let tokens = &prompt[..self.held.len() * PAGE_TOKENS];
            let fake = engine.backend();
            let away = self.held.iter().flat_map(|page| fake.cells[cells(page)].to_vec()).collect();
            self.away = (!tokens.is_empty()).then(|| (tokens.to_vec(), away));
        }
        if u.ratio(1, 8)? {
            engine.forget_prefix(prompt);
            assert!(engine.hold_prefix(prompt).unwrap().is_empty(), "what was forgotten is found");
        }
        if u.ratio(1, 6)?
            && let Some((tokens, away)) = &self.away
            && let Ok(pages) = engine.take_pages((tokens.len() / PAGE_TOKENS) as u32)
        {
            for (page, away) in pages.iter().zip(away.chunks(PAGE_TOKENS)) {
                engine.backend().cells[cells(page)].copy_from_slice(away);
            }
            engine.adopt_prefix(tokens, &pages);
            self.brought += 1;
        }
        Ok(())
    }
}

/// Requires every request to have got what it gets alone, and counts what the script exercised.
fn judge_all(
    model: &Model<'_>,
    (config, nature): (&Config, Nature),
    (jobs, outcomes): (&HashMap<RequestId, Job>, &HashMap<RequestId, Outcome>),
    (streams, cancelled): (&Streams, &[RequestId]),
    seen: &mut Seen,
) {
    for (id, job) in jobs {
        let (together, alone) = (&outcomes[id], alone(model, config.context, nature.nan, *id, job));
        let is_cut = cut(together.reason, cancelled.contains(id), streams.failures);
        judge(together, &alone, is_cut, &format!("{id:?} {job:?} {config:?} {nature:?}"));
        let usage = &together.usage;
        if let Some(seat) = streams.watch.seats.get(id) {
            // no more work than the request is worth, each time that it has a place
            let most =
                (1 + usage.preemptions) * (usage.prompt_tokens + usage.generated_tokens + nature.chain);
            assert!(seat.rows <= most, "{id:?}: {} rows of {most}", seat.rows);
            assert!(usage.preemptions <= usage.generated_tokens);
            assert!(
                seat.first.is_none_or(|first| first == usage.cached_tokens),
                "what was found is computed"
            );
        }
        seen.preempted += usize::from(usage.preemptions > 0);
        seen.cached += usize::from(usage.cached_tokens > 0);
        seen.cancelled += usize::from(together.reason == FinishReason::Cancelled);
        seen.failed += usize::from(together.reason == FinishReason::DeviceFailed);
        seen.unnumbered += usize::from(matches!(together.reason, FinishReason::Sampling(_)));
    }
}

/// Random limits.
fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let context = u.int_in_range(33..=200)?;
    let mut config = Config::new(context, u.int_in_range(1..=5)?, u.int_in_range(1..=64)?);
    config.waiting = u.int_in_range(0..=4)?;
    let least = context.div_ceil(PAGE_TOKENS as u32);
    config.pages = u.int_in_range(least..=config.full_pages())?;
    config.step_target = u.int_in_range(1..=1000)?;
    config.reading_rows = u.int_in_range(1..=40)?;
    Ok(config)
}

fn nature(u: &mut Unstructured<'_>) -> Result<Nature> {
    let chain = if u.ratio(1, 3)? { u.int_in_range(2..=9)? } else { 0 };
    let fails = if u.ratio(1, 8)? { Some((u.int_in_range(0..=60)?, u.arbitrary()?)) } else { None };
    Ok(Nature { delay: u.int_in_range(0..=2)?, chain, fails, nan: u.ratio(1, 4)? })
}

/// Random arrivals, cancellations, chunk sizes, page budgets, hashes, device delays and failures.
fn script(model: &Model<'_>, u: &mut Unstructured<'_>, seen: &mut Seen) -> Result<()> {
    let (config, nature) = (config(u)?, nature(u)?);
    let mut engine = engine(model, config, nature);
    if u.ratio(1, 4)? {
        // every page collides with every other
        engine.hash_pages_by(|_, _| 0);
    }
    let (mut outcomes, mut jobs, mut cancelled) = (HashMap::new(), HashMap::new(), Vec::new());
    let (mut streams, mut readings) = (Streams::default(), HashMap::new());
    let mut now = 0;
    let (mut outside, mut anews) = (Outside::default(), Vec::new());
    for number in 0..u.int_in_range(1..=12)? {
        let (id, job) = (RequestId(number), job(u, config.context)?);
        outside.carry(&mut engine, &job.prompt, u)?;
        seen.held += usize::from(!outside.held.is_empty());
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
            Err(SubmitError::Busy) => assert_eq!(engine.live() as u32, config.sequences + config.waiting),
            Err(error) => panic!("{error}"),
        }
        for _ in 0..u.int_in_range(0..=30)? {
            now += u.int_in_range(1..=40)?;
            poll(&mut engine, now, &mut streams, &mut outcomes, &outside.held);
        }
        if u.ratio(1, 6)? {
            let victim = RequestId(u.int_in_range(0..=number)?);
            engine.cancel(victim);
            cancelled.push(victim);
        }
    }
    engine.give_pages(&outside.held);
    while poll(&mut engine, now, &mut streams, &mut outcomes, &[]) != Progress::Idle {
        now += 1;
        assert!(now < 1_000_000, "requests starve");
    }
    assert_eq!(engine.pool().available(), config.pages, "leaked pages");
    let cached = |id: &RequestId| outcomes.get(id).map_or(0, |outcome| outcome.usage.cached_tokens);
    assert!(anews.iter().all(|id| cached(id) == 0), "what is computed anew is not from the cache");
    assert_eq!(outcomes.len(), jobs.len() + readings.len(), "every request ends once");
    seen.brought += outside.brought;
    seen.chained += engine.backend().chained as usize;
    seen.read += judge_readings(model, &readings, &outcomes, &mut streams, (&cancelled, nature.nan));
    judge_all(model, (&config, nature), (&jobs, &outcomes), (&streams, &cancelled), seen);
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
        println!("{SCRIPTS} scripts: {seen:?}");
        // Scripts that exercise nothing would prove nothing.
        let Seen { preempted, held, brought, cached, cancelled, read, chained, failed, unnumbered } = seen;
        for (count, least) in [
            (preempted, 20),
            (held, 20),
            (brought, 50),
            (cached, 4),
            (cancelled, 4),
            (read, 4),
            (chained, 1),
            (failed, 20),
            (unnumbered, 50),
        ] {
            assert!(count > SCRIPTS / least, "{seen:?}");
        }
    });
}

#[test]
fn a_shared_prefix_is_computed_once() {
    with_model(|model| {
        let mut engine = engine(model, Config::new(256, 2, 64), Nature::default());
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
        let mut engine = engine(model, config, Nature::default());
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
        let mut engine = engine(model, config, Nature::default());
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
