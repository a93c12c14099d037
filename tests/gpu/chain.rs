//! Greedy requests run several steps at a time without the host between them, and give the tokens that they give alone.

use crate::bench::{CHIPS, FIRST, HEAP, goldens, open, prompt, soft, with_model};
use alloc::rc::Rc;
use core::cell::RefCell;
use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::engine::{
    Config, Engine, Event, FinishReason, GenerationParams, Nanos, Progress, Request, RequestId,
};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, GroupId, HeadResult, Op, Plan, Shape, StateId};
use doorbell_core::reference::{Products, Reference};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::TokenId;
use doorbell_gpu::{GpuBackend, GpuError, Settings};
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

/// A backend that notes how long its chains are; without chains if it may not.
struct Noting<'k, 'm, 'a> {
    inner: GpuBackend<'k, 'm, 'a>,
    may: bool,
    chains: Rc<RefCell<Vec<u32>>>,
}

impl Backend for Noting<'_, '_, '_> {
    type Error = GpuError;

    fn supports(&self, op: &Op) -> bool {
        self.inner.supports(op)
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), GpuError> {
        self.inner.reserve(plan)
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), GpuError> {
        self.inner.reserve_states(count)
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        self.inner.copy_state(from, to);
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), GpuError> {
        self.inner.submit(plan, batch)
    }

    fn supports_multi_step(&self) -> bool {
        self.may
    }

    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        self.inner.max_steps(plan)
    }

    fn submit_multi_step(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, steps: u32) -> Result<(), GpuError> {
        self.chains.borrow_mut().push(steps);
        self.inner.submit_multi_step(plan, batch, steps)
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, GpuError> {
        self.inner.poll()
    }
}

/// The outcome of a request.
type Outcome = (Vec<TokenId>, Option<FinishReason>);

/// Runs each wave of requests to its end before the next; prompts, and tokens wanted.
fn outcomes<B: Backend<Error: core::fmt::Debug>>(
    engine: &mut Engine<'_, '_, B>,
    waves: &[Vec<(Vec<TokenId>, u32)>],
    params: &SamplerParams,
) -> Vec<Outcome> {
    let (mut outcomes, mut time): (Vec<Outcome>, u64) = (Vec::new(), 0);
    for wave in waves {
        for (prompt, max_tokens) in wave {
            let id = RequestId(outcomes.len() as u64);
            outcomes.push((Vec::new(), None));
            let request = Request {
                id,
                prompt,
                params: GenerationParams {
                    max_tokens: *max_tokens,
                    sampler: params.clone(),
                    ..GenerationParams::default()
                },
            };
            engine.submit(&request, Nanos(time)).unwrap();
        }
        loop {
            time += 1;
            let progress = engine.poll(Nanos(time), &mut |event| match event {
                Event::Token { request, token, .. } => outcomes[request.0 as usize].0.push(token),
                Event::Finished { request, reason, usage } => {
                    let outcome = &mut outcomes[request.0 as usize];
                    assert_eq!(usage.generated_tokens as usize, outcome.0.len());
                    assert_eq!(outcome.1.replace(reason), None, "ended twice");
                }
                _ => {}
            });
            if progress.unwrap() == Progress::Idle {
                break;
            }
        }
    }
    assert_eq!(engine.kv().available(), engine.config().pages, "leaked pages");
    outcomes
}

/// The outcomes with and without chains, and the lengths of the chains.
fn both(
    model: &Model<'_>,
    (name, level): (&str, Level),
    waves: &[Vec<(Vec<TokenId>, u32)>],
    end_tokens: &[TokenId],
    what: &str,
) -> ([Vec<Outcome>; 2], Vec<u32>) {
    // twice the context that is needed: models with windows keep fewer pages than that
    let config = Config::new(256, 2, 40);
    let settings = Settings::new(config.kv_pages(model), KvType::F16, config.largest_shape());
    let chains = Rc::new(RefCell::new(Vec::new()));
    let found = [true, false].map(|may| {
        let kernel = soft(name, level);
        let inner = open(&kernel, model, settings).unwrap();
        let gpu = inner.process().unwrap().device(FIRST).gpu_id();
        let backend = Noting { inner, may, chains: Rc::clone(&chains) };
        let mut engine = Engine::new(model, backend, config, end_tokens, HEAP).unwrap();
        let found = outcomes(&mut engine, waves, &SamplerParams::greedy());
        drop(engine);
        assert_eq!(kernel.held(), (0, 0, 0), "{what}");
        assert_eq!(kernel.report(gpu).unwrap().findings, [], "{what}");
        found
    });
    (found, chains.take())
}

/// True if the device has kernels for all of a model; otherwise the host takes part in every step.
fn alone(model: &Model<'_>) -> bool {
    let plan = model.plan(Shape { rows: 2, outputs: 2 }, HeadResult::ArgMax, HEAP).unwrap();
    let kernel = soft(CHIPS[0], Level::Fast);
    let backend = open(&kernel, model, crate::bench::settings(2)).unwrap();
    plan.ops.iter().all(|op| backend.supports(op))
}

#[test]
fn chained_tokens_are_those_of_single_steps() {
    for (index, (name, bytes)) in goldens().into_iter().enumerate() {
        with_model(&bytes, |model| {
            let (first, second) = (prompt(model, 30), prompt(model, 7));
            // Two at a time, of which one ends first; then one whose beginning is in the cache.
            let waves = [vec![(first.clone(), 13), (second, 22)], vec![(first, 9)]];
            let watched = if index % 8 == 0 { Level::Strict } else { Level::Fast };
            let chip = (CHIPS[index % 2], watched);
            let ([chained, single], chains) = both(model, chip, &waves, &[], &name);
            assert_eq!(chained, single, "{name}");
            assert_eq!(chains.iter().any(|&steps| steps > 8), alone(model), "{name}: {chains:?}");
            // A token that comes in the middle of a chain ends its request there, and no other.
            let ends = [chained[1].0[15]];
            let ([chained, single], _) = both(model, chip, &waves[..1], &ends, &name);
            assert_eq!(chained, single, "{name}");
            assert!(matches!(chained[1].1, Some(FinishReason::EndOfGeneration(_))), "{name}: {chained:?}");
        });
    }
}

/// The outcomes on the reference, which keeps all pages.
fn expected(model: &Model<'_>, waves: &[Vec<(Vec<TokenId>, u32)>]) -> Vec<Outcome> {
    let config = Config::new(256, 2, 40);
    let all = Reference::new(model, config.full_pages(), KvType::F16, Products::Exact, HEAP).unwrap();
    let mut engine = Engine::new(model, all, config, &[], HEAP).unwrap();
    outcomes(&mut engine, waves, &SamplerParams::greedy())
}

/// A chunk in the middle of a prompt has no output rows, and no kernel runs for them.
#[test]
fn prompts_of_several_chunks_are_computed() {
    for family in [Family::Qwen3, Family::Qwen3Moe] {
        with_model(&tiny::f32_model(family, 1), |model| {
            let waves = [vec![(prompt(model, 100), 5)]];
            let expected = expected(model, &waves);
            let (found, _) = both(model, (CHIPS[0], Level::Fast), &waves, &[], family.name());
            assert_eq!(found, [expected.clone(), expected], "{}", family.name());
        });
    }
}

/// Prompts of several chunks and chains, longer than the pool of a window: its pages serve later rows.
#[test]
fn pages_behind_windows_serve_later_rows() {
    with_model(&tiny::f32_model(Family::Gemma3, 1), |model| {
        let waves = [vec![(prompt(model, 150), 40), (prompt(model, 60), 50)], vec![(prompt(model, 170), 9)]];
        let pages = Config::new(256, 2, 40).kv_pages(model);
        let windowed = (0..).map(GroupId).zip(&model.groups).filter(|(_, group)| group.window.is_some());
        assert!(windowed.map(|(id, _)| pages.of(id)).eq([8]), "two requests have ten pages");
        let expected = expected(model, &waves);
        for name in CHIPS {
            let (found, chains) = both(model, (name, Level::Fast), &waves, &[], name);
            assert_eq!(found, [expected.clone(), expected.clone()], "{name}");
            assert!(chains.iter().any(|&steps| steps > 8), "{name}: {chains:?}");
        }
    });
}

/// Whatever needs more than the largest logit goes step by step.
#[test]
fn requests_that_are_not_greedy_are_not_chained() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let config = Config::new(64, 1, 16);
        let settings = Settings::new(config.pages, KvType::F16, config.largest_shape());
        let greedy = SamplerParams::greedy();
        let cases = [
            SamplerParams { temperature: 0.7, ..SamplerParams::default() },
            SamplerParams { logprobs: Some(2), ..greedy.clone() },
            SamplerParams {
                penalties: doorbell_core::sample::PenaltyParams { repeat: 1.2, ..greedy.penalties },
                ..greedy.clone()
            },
        ];
        let kernel = soft(CHIPS[0], Level::Fast);
        let chains = Rc::new(RefCell::new(Vec::new()));
        let inner = open(&kernel, model, settings).unwrap();
        let backend = Noting { inner, may: true, chains: Rc::clone(&chains) };
        let mut engine = Engine::new(model, backend, config, &[], HEAP).unwrap();
        for params in &cases {
            outcomes(&mut engine, &[vec![(prompt(model, 5), 6)]], params);
        }
        assert_eq!(*chains.borrow(), []);
        outcomes(&mut engine, &[vec![(prompt(model, 5), 6)]], &greedy);
        assert_eq!(*chains.borrow(), [5], "the first token comes with the prompt");
    });
}

/// Chains of the wrong form are refused before anything is written.
#[test]
fn chains_that_break_a_rule_are_refused() {
    use doorbell_core::plan::{BatchError, PageId, PageSpan, PageTables, RowRun};
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let kernel = soft(CHIPS[1], Level::Fast);
        let mut backend = open(&kernel, model, crate::bench::settings(4)).unwrap();
        let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::ArgMax, HEAP).unwrap();
        assert_eq!(backend.max_steps(&plan), 1, "not reserved");
        backend.reserve(&plan).unwrap();
        let most = backend.max_steps(&plan);
        assert!(most > 8, "{most}");
        let spans = vec![PageSpan { start: 0, len: 2 }; model.groups.len()];
        let pages = [PageId(0), PageId(1)];
        let tables = PageTables {
            pages: &pages,
            spans: &spans,
            groups: model.groups.len(),
            states: &crate::bench::STATES,
        };
        let runs = |position| [RowRun { sequence: 0, first_row: 0, rows: 1, position }];
        let mut chain = |position, outputs: &[u32], steps| {
            let batch = Batch { tokens: &[TokenId(1)], runs: &runs(position), outputs, tables };
            backend.submit_multi_step(&plan, &batch, steps)
        };
        let page = chain(60, &[0], 5).unwrap_err();
        assert_eq!(page, GpuError::Batch(BatchError::Page { sequence: 0, position: 64 }));
        assert!(matches!(chain(0, &[], 2), Err(GpuError::Batch(BatchError::Output { .. }))));
        assert_eq!(chain(0, &[0], most + 1), Err(GpuError::Chain(most + 1, most)));
        chain(0, &[0], 3).unwrap();
        for _ in 0..3 {
            assert!(matches!(backend.poll(), Ok(Some(Output::Tokens([_])))));
        }
        assert!(matches!(backend.poll(), Ok(None)));
    });
}

/// A token whose vector is no numbers comes in the middle of a chain: its request ends, and no other.
#[test]
fn logits_that_are_no_numbers_end_a_chained_request_alone() {
    let mut file = tiny::model(Family::Llama, tiny::Shape::NARROW, doorbell_core::quant::Type::F32, 1);
    let waves = |model: &Model<'_>| [vec![(prompt(model, 30), 20), (prompt(model, 7), 22)]];
    let chip = (CHIPS[0], Level::Strict);
    let sound = file.to_bytes();
    let mut poison = TokenId(0);
    with_model(&sound, |model| {
        let ([chained, _], _) = both(model, chip, &waves(model), &[], "sound");
        let [(first, _), (second, _)] = chained.as_slice() else { panic!("two requests") };
        let seen = |at: usize, token| first[..at].contains(&token) || prompt(model, 30).contains(&token);
        let fit = first.iter().enumerate().skip(3).take(15).find(|&(at, token)| {
            !seen(at, *token) && !second.contains(token) && !prompt(model, 7).contains(token)
        });
        poison = *fit.unwrap().1;
    });
    let (info, data) = file.tensors.iter_mut().find(|(info, _)| info.name == b"token_embd.weight").unwrap();
    let row = 4 * info.dims[0] as usize;
    data[poison.0 as usize * row..][..row].as_chunks_mut().0.fill(f32::NAN.to_le_bytes());
    with_model(&file.to_bytes(), |model| {
        let ([chained, single], chains) = both(model, chip, &waves(model), &[], "poisoned");
        assert!(chains.iter().any(|&steps| steps > 8), "{chains:?}");
        let tokens =
            |outcomes: &[Outcome]| outcomes.iter().map(|(tokens, _)| tokens.clone()).collect::<Vec<_>>();
        assert_eq!(tokens(&chained), tokens(&single));
        assert_eq!(chained[0].0.last(), Some(&poison));
        for outcomes in [&chained, &single] {
            assert!(matches!(outcomes[0].1, Some(FinishReason::Sampling(_))), "{outcomes:?}");
            assert_eq!(outcomes[1].1, Some(FinishReason::MaxTokens));
        }
    });
}
