//! The engine on the reference backend: results depend on the request alone, pages are released, ends are reported.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, GenerationParams, Nanos, Progress, Request, RequestId, ScoreError,
    SubmitError, score,
};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, BatchError, GroupId, Op, PAGE_TOKENS, Plan};
use doorbell_core::reference::{Products, Reference};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use doorbell_tests::tiny::{self, Family};

const HEAP: Heap<'static> = &Global;

fn prompt(seed: u32, len: u32) -> Vec<TokenId> {
    (0..len).map(|i| TokenId((seed * 7919 + i * i * 31 + i) % 500)).collect()
}

struct Outcome {
    tokens: Vec<TokenId>,
    reason: FinishReason,
}

/// Runs requests to their end, each submitted as soon as the queue accepts it.
fn run(model: &Model<'_>, config: Config, prompts: &[Vec<TokenId>], params: &SamplerParams) -> Vec<Outcome> {
    let pages = config.kv_pages(model);
    let backend = Reference::new(model, pages, KvType::F16, Products::Exact, HEAP).unwrap();
    run_on(backend, model, config, prompts, params)
}

fn run_on<B: Backend<Error: core::fmt::Debug>>(
    backend: B,
    model: &Model<'_>,
    config: Config,
    prompts: &[Vec<TokenId>],
    params: &SamplerParams,
) -> Vec<Outcome> {
    let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
    let mut outcomes: Vec<_> = prompts.iter().map(|_| (Vec::new(), None)).collect();
    let mut next = 0;
    for time in 0..10_000 {
        while let Some(prompt) = prompts.get(next) {
            let request = Request {
                id: RequestId(next as u64),
                prompt,
                params: GenerationParams {
                    max_tokens: 12,
                    sampler: params.clone(),
                    ..GenerationParams::default()
                },
            };
            match engine.submit(&request, Nanos(time)) {
                Ok(()) => next += 1,
                Err(SubmitError::Busy) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let progress = engine.poll(Nanos(time), &mut |event| match event {
            Event::Token { request, token, .. } => outcomes[request.0 as usize].0.push(token),
            Event::Finished { request, reason, usage } => {
                let outcome = &mut outcomes[request.0 as usize];
                assert_eq!(usage.generated_tokens as usize, outcome.0.len());
                assert!(outcome.1.replace(reason).is_none(), "ended twice");
            }
            _ => {}
        });
        if progress.unwrap() == Progress::Idle && next == prompts.len() {
            assert_eq!(engine.kv().available(), config.pages, "leaked pages");
            for group in (0..).map(GroupId).take(model.groups.len()) {
                let pool = engine.kv().pool(group);
                assert_eq!(pool.available(), pool.total(), "leaked pages of group {}", group.0);
            }
            let ended = |(tokens, reason): (Vec<_>, Option<_>)| Outcome { tokens, reason: reason.unwrap() };
            return outcomes.into_iter().map(ended).collect();
        }
    }
    panic!("requests do not end")
}

fn with_model(family: Family, test: impl FnOnce(&Model<'_>)) {
    let bytes = tiny::f32_model(family, 11);
    let gguf = Gguf::parse(&bytes, HEAP).unwrap();
    test(&Model::new(&gguf, HEAP).unwrap());
}

#[test]
fn tokens_do_not_depend_on_chunks_or_batch() {
    let params = SamplerParams { seed: 5, temperature: 0.9, ..SamplerParams::default() };
    for family in Family::ALL {
        with_model(family, |model| {
            let prompts: Vec<_> =
                [1, 40, 33, 7, 64].iter().zip(1..).map(|(&len, seed)| prompt(seed, len)).collect();
            let alone = run(model, Config::new(128, 1, 512), &prompts, &params);
            for (sequences, batch_rows) in [(1, 1), (1, 16), (3, 5), (5, 64)] {
                let config = Config::new(128, sequences, batch_rows);
                let together = run(model, config, &prompts, &params);
                for (a, b) in alone.iter().zip(&together) {
                    assert_eq!(a.tokens, b.tokens, "{family:?} {config:?}");
                    assert_eq!(a.tokens.len(), 12);
                    assert_eq!(a.reason, FinishReason::MaxTokens);
                }
            }
        });
    }
}

/// The best token behind every token of a text, by a device that keeps all pages of all layers.
fn best_tokens(model: &Model<'_>, tokens: &[TokenId]) -> Vec<TokenId> {
    let pages = tokens.len().div_ceil(PAGE_TOKENS) as u32;
    let mut backend = Reference::new(model, pages, KvType::F16, Products::Exact, HEAP).unwrap();
    backend.reserve_states(1).unwrap();
    let mut picks = Vec::new();
    score(model, &mut backend, tokens, HEAP, &mut || (), &mut |_, logits| {
        let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        picks.push(TokenId(best as u32));
    })
    .unwrap();
    picks
}

#[test]
fn greedy_tokens_follow_the_scores() {
    for family in [Family::Qwen3Moe, Family::Gemma3, Family::Qwen3Next] {
        with_model(family, |model| {
            let prompts = [prompt(3, 40), prompt(4, 200)];
            for batch_rows in [1, 16, 40] {
                let config = Config { checkpoints: 1, ..Config::new(256, 2, batch_rows) };
                let outcomes = run(model, config, &prompts, &SamplerParams::greedy());
                for (prompt, outcome) in prompts.iter().zip(&outcomes) {
                    let text = [&prompt[..], &outcome.tokens].concat();
                    let picks = best_tokens(model, &text);
                    assert_eq!(picks[prompt.len() - 1..text.len() - 1], outcome.tokens, "{family:?}");
                }
            }
        });
    }
}

/// More threads than rows, so that each takes a chunk of positions: most chunks of the long sequence lie beyond the pages
/// of the short one, or before the window of a layer.
#[test]
fn a_short_sequence_is_computed_beside_a_long_one() {
    let params = SamplerParams::greedy();
    for family in [Family::Qwen3, Family::Gemma3] {
        with_model(family, |model| {
            let prompts = [prompt(3, 700), prompt(4, 10)];
            let config = Config::new(800, 2, 64);
            let backend = CpuBackend::new(model, config.kv_pages(model), KvType::F32, 8, HEAP).unwrap();
            let together = run_on(backend, model, config, &prompts, &params);
            for (prompt, outcome) in prompts.iter().zip(&together) {
                let alone = run(model, Config::new(800, 1, 64), core::slice::from_ref(prompt), &params);
                assert_eq!(outcome.tokens, alone[0].tokens, "{family:?} {}", prompt.len());
            }
        });
    }
}

/// Turns of a conversation, of which each begins with the one before it, and a change in the middle.
#[test]
fn turns_go_on_behind_windows_and_states() {
    let params = SamplerParams::greedy();
    for family in [Family::Gemma3, Family::Qwen3Next, Family::Qwen35Moe] {
        with_model(family, |model| {
            let mut turns = vec![prompt(3, 70), prompt(3, 150), prompt(3, 230), prompt(3, 230)];
            turns[3][100] = TokenId(7);
            let config = Config { checkpoints: 3, ..Config::new(256, 1, 16) };
            let pages = config.kv_pages(model);
            let reference = Reference::new(model, pages, KvType::F32, Products::Exact, HEAP).unwrap();
            let cpu = CpuBackend::new(model, pages, KvType::F32, 2, HEAP).unwrap();
            for outcomes in [
                run_on(reference, model, config, &turns, &params),
                run_on(cpu, model, config, &turns, &params),
            ] {
                for (turn, outcome) in turns.iter().zip(&outcomes) {
                    let alone = run(model, Config::new(256, 1, 512), core::slice::from_ref(turn), &params);
                    assert_eq!(outcome.tokens, alone[0].tokens, "{family:?} {}", turn.len());
                }
            }
        });
    }
}

/// A device with the same output for every step.
struct Odd(Output<'static>);

impl Backend for Odd {
    type Error = BatchError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn submit(&mut self, _plan: &Plan<'_>, _batch: &Batch<'_>) -> Result<(), BatchError> {
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, BatchError> {
        Ok(Some(self.0))
    }

    fn suspend(&mut self) -> Result<(), BatchError> {
        Ok(())
    }
}

#[test]
fn a_device_without_scores_is_an_error() {
    with_model(Family::Qwen3, |model| {
        let vocabulary = model.vocabulary as usize;
        let logits: &'static [f32] = vec![0.0; 33 * vocabulary].leak();
        let tokens = prompt(1, 40);
        let outcome = |output| {
            let mut positions = 0;
            let result =
                score(model, &mut Odd(output), &tokens, HEAP, &mut || (), &mut |_, _| positions += 1);
            (result.unwrap_err(), positions)
        };
        let error = |position, rows: usize, found| ScoreError::Output {
            position,
            expected: rows * vocabulary,
            found,
        };
        for output in [Output::Tokens(&[]), Output::Hidden(logits)] {
            assert_eq!(outcome(output), (error(0, 32, 0), 0));
        }
        let short = &logits[..31 * vocabulary];
        assert_eq!(outcome(Output::Logits(short)), (error(0, 32, short.len()), 0));
        // the last step has eight rows
        let whole = &logits[..32 * vocabulary];
        assert_eq!(outcome(Output::Logits(whole)), (error(32, 8, whole.len()), 32));
    });
}

/// The reference, whose first step gives NaN.
struct FaultOnce<'m, 'a>(Reference<'m, 'a>, Option<Vec<f32>>);

impl Backend for FaultOnce<'_, '_> {
    type Error = <Reference<'static, 'static> as Backend>::Error;

    fn supports(&self, op: &Op) -> bool {
        self.0.supports(op)
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), Self::Error> {
        self.0.reserve(plan)
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), Self::Error> {
        self.0.submit(plan, batch)
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, Self::Error> {
        let output = self.0.poll()?;
        let (Some(Output::Logits(logits)), None) = (output, &self.1) else { return Ok(output) };
        Ok(Some(Output::Logits(self.1.insert(vec![f32::NAN; logits.len()]))))
    }

    fn suspend(&mut self) -> Result<(), Self::Error> {
        self.0.suspend()
    }
}

/// A transient fault must not go on in the prefix cache, where every request with the same system text gets it.
#[test]
fn pages_of_a_sequence_with_nan_are_not_cached() {
    with_model(Family::Qwen3, |model| {
        let config = Config::new(256, 1, 256);
        let reference =
            || Reference::new(model, config.kv_pages(model), KvType::F16, Products::Exact, HEAP).unwrap();
        let backend = FaultOnce(reference(), None);
        let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
        let text = prompt(1, 4 * PAGE_TOKENS as u32 + 3);
        let mut ask = || {
            let params = GenerationParams {
                max_tokens: 4,
                sampler: SamplerParams::greedy(),
                ..GenerationParams::default()
            };
            engine.submit(&Request { id: RequestId(0), prompt: &text, params }, Nanos(0)).unwrap();
            let (mut tokens, mut end) = (Vec::new(), None);
            let mut sink = |event: Event<'_>| match event {
                Event::Token { token, .. } => tokens.push(token),
                Event::Finished { reason, usage, .. } => end = Some((reason, usage.cached_tokens)),
                _ => {}
            };
            while engine.poll(Nanos(0), &mut sink).unwrap() != Progress::Idle {}
            let (reason, cached) = end.unwrap();
            (tokens, reason, cached)
        };
        let (tokens, reason, _) = ask();
        assert!(tokens.is_empty() && matches!(reason, FinishReason::Sampling(_)), "{reason:?}");
        let (tokens, reason, cached) = ask();
        assert_eq!((tokens.len(), reason, cached), (4, FinishReason::MaxTokens, 0));
        // pages without a fault are cached
        let (again, _, cached) = ask();
        assert_eq!((again, cached), (tokens, 4 * PAGE_TOKENS as u32));
    });
}

#[test]
fn a_device_without_logits_ends_the_request() {
    with_model(Family::Qwen3, |model| {
        let logits: &'static [f32] = vec![0.0; model.vocabulary as usize].leak();
        for output in [Output::Tokens(&[]), Output::Hidden(logits), Output::Logits(&logits[1..])] {
            let (config, prompts) = (Config::new(128, 1, 64), [prompt(1, 40)]);
            let outcome = run_on(Odd(output), model, config, &prompts, &SamplerParams::default()).remove(0);
            assert_eq!((outcome.tokens.len(), outcome.reason), (0, FinishReason::DeviceFailed));
        }
    });
}

#[test]
fn a_full_context_ends_the_request_and_releases_its_pages() {
    with_model(Family::Llama, |model| {
        let config = Config::new(40, 1, 64);
        let prompts = [prompt(1, 35), prompt(2, 39), prompt(3, 30)];
        let outcomes = run(model, config, &prompts, &SamplerParams::greedy());
        let lengths: Vec<_> = outcomes.iter().map(|outcome| outcome.tokens.len()).collect();
        assert_eq!(lengths, [5, 1, 10]);
        assert!(outcomes.iter().all(|outcome| outcome.reason == FinishReason::ContextFull));
    });
}

#[test]
fn bad_requests_are_refused_by_name() {
    with_model(Family::Qwen2, |model| {
        let config = Config::new(40, 1, 64);
        let backend = Reference::new(model, config.pages, KvType::F16, Products::Exact, HEAP).unwrap();
        let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
        let params = SamplerParams::greedy();
        let mut submit = |prompt: &[TokenId]| {
            let id = RequestId(0);
            engine.submit(
                &Request {
                    id,
                    prompt,
                    params: GenerationParams {
                        max_tokens: 4,
                        sampler: params.clone(),
                        ignore_end: true,
                        ..GenerationParams::default()
                    },
                },
                Nanos(0),
            )
        };
        assert_eq!(submit(&[]), Err(SubmitError::EmptyPrompt));
        assert_eq!(submit(&prompt(1, 40)), Err(SubmitError::PromptTooLong { tokens: 40, context: 40 }));
        let token = TokenId(model.vocabulary);
        assert_eq!(submit(&[token]), Err(SubmitError::Token { token, vocabulary: model.vocabulary }));
        assert_eq!(submit(&prompt(1, 3)), Ok(()));
        assert_eq!(submit(&prompt(1, 3)), Err(SubmitError::Busy));
    });
}

#[test]
fn a_cancelled_request_ends_within_one_step() {
    with_model(Family::Qwen3, |model| {
        let config = Config::new(64, 2, 8);
        let backend = Reference::new(model, config.pages, KvType::F16, Products::Exact, HEAP).unwrap();
        let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
        let params = SamplerParams::greedy();
        let prompt = prompt(1, 30);
        for id in [RequestId(1), RequestId(2)] {
            let request = Request {
                id,
                prompt: &prompt,
                params: GenerationParams {
                    max_tokens: 4,
                    sampler: params.clone(),
                    ignore_end: true,
                    ..GenerationParams::default()
                },
            };
            engine.submit(&request, Nanos(0)).unwrap();
        }
        engine.poll(Nanos(1), &mut |_| ()).unwrap();
        engine.cancel(RequestId(1));
        let mut ends = Vec::new();
        while engine
            .poll(Nanos(2), &mut |event| {
                if let Event::Finished { request, reason, .. } = event {
                    ends.push((request, reason));
                }
            })
            .unwrap()
            != Progress::Idle
        {}
        assert_eq!(ends, [(RequestId(1), FinishReason::Cancelled), (RequestId(2), FinishReason::MaxTokens)]);
    });
}

#[test]
fn steps_without_prompts_do_not_shrink_prompt_chunks() {
    with_model(Family::Llama, |model| {
        let config = Config::new(128, 17, 64);
        let backend = Reference::new(model, config.pages, KvType::F16, Products::Exact, HEAP).unwrap();
        let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
        let (mut now, mut first_chunk) = (Nanos(0), None);
        // prompt rows take almost no time; a step without prompt rows takes twice the target
        for (requests, len, polls, step) in
            [(0..16, 2, 3, 1000), (0..0, 0, 6, 2 * config.step_target), (16..17, 60, 3, 1000)]
        {
            for id in requests {
                let prompt = &prompt(id, len);
                let sampler = SamplerParams::greedy();
                let id = RequestId(id.into());
                let request = Request {
                    id,
                    prompt,
                    params: GenerationParams {
                        max_tokens: 64,
                        sampler: sampler.clone(),
                        ignore_end: true,
                        ..GenerationParams::default()
                    },
                };
                engine.submit(&request, now).unwrap();
            }
            for _ in 0..polls {
                now = Nanos(now.0 + step);
                let progress = engine.poll(now, &mut |event| match event {
                    Event::Prefill { request: RequestId(16), done, .. } if done > 0 => {
                        first_chunk = first_chunk.or(Some(done));
                    }
                    _ => {}
                });
                assert_eq!(progress.unwrap(), Progress::Waiting);
            }
        }
        assert_eq!(first_chunk, Some(64 - 16), "all that the streams leave");
    });
}
