//! A whole run on one heap, from the bytes of a file to the tokens of an answer. The assertions are in the tests.

use doorbell_core::backend::{Backend, KvType};
use doorbell_core::engine::{
    Config, Engine, EngineError, Event, GenerationParams, Memory, Nanos, Progress, Request, RequestId,
    SubmitError,
};
use doorbell_core::gguf::{Fault, Gguf, GgufError};
use doorbell_core::heap::{self, Heap};
use doorbell_core::model::{Model, ModelError};
use doorbell_core::plan::{HeadResult, PlanError};
use doorbell_core::reference::{Products, Reference, ReferenceError};
use doorbell_core::sample::{SamplerError, SamplerParams};
use doorbell_core::token::{Detokenizer, EncodeError, EncodeOptions, TokenId, Tokenizer, TokenizerError};
use doorbell_cpu::backend::{CpuBackend, CpuError};

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service<'s> {
    pub(crate) config: Config,
    pub(crate) kv: KvType,
    pub(crate) backend: BackendKind,
    pub(crate) text: &'s str,
    /// Tokens that each of the sequences generates at most.
    pub(crate) tokens: u32,
}

/// The backend of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackendKind {
    Reference(Products),
    /// With this number of threads.
    Cpu(usize),
}

/// The step that failed, for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Parse,
    Tokenizer,
    Encode,
    Model,
    Backend,
    Engine,
    Submit,
    Poll,
    Detokenize,
}

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) predicted: Memory,
    /// Number of allocations: after the requests are submitted, after the first step, at the end.
    pub(crate) allocations: [usize; 3],
}

fn refused(step: Step, memory: bool, error: &dyn core::error::Error) -> Step {
    assert!(memory, "{step:?} failed for another reason: {error}");
    assert!(error.to_string().contains("out of memory"), "{error}");
    step
}

/// Runs on `heap`; `allocations` returns its number of allocations.
pub(crate) fn run<'h>(
    file: &'h [u8],
    service: &Service<'_>,
    heap: Heap<'h>,
    allocations: &dyn Fn() -> usize,
) -> Result<Report, Step> {
    let gguf = Gguf::parse(file, heap)
        .map_err(|error: GgufError| refused(Step::Parse, matches!(error.fault, Fault::Memory(_)), &error))?;
    let tokenizer = Tokenizer::new(&gguf, heap)
        .map_err(|error| refused(Step::Tokenizer, matches!(error, TokenizerError::OutOfMemory(_)), &error))?;
    let model = Model::new(&gguf, heap)
        .map_err(|error| refused(Step::Model, matches!(error, ModelError::Memory(_)), &error))?;
    serve(&gguf, &tokenizer, &model, service, heap, allocations)
}

fn serve<'m, 'a>(
    gguf: &Gguf<'a>,
    tokenizer: &Tokenizer<'a>,
    model: &'m Model<'a>,
    service: &Service<'_>,
    heap: Heap<'m>,
    allocations: &dyn Fn() -> usize,
) -> Result<Report, Step> {
    let Service { config, kv, backend, .. } = *service;
    let unplanned = |error: PlanError| refused(Step::Engine, matches!(error, PlanError::Memory(_)), &error);
    let memory = config.memory(model, kv, heap).map_err(unplanned)?;
    let mut prompt = heap::Vec::new_in(heap);
    tokenizer
        .encode(service.text, EncodeOptions::default(), &mut prompt)
        .map_err(|error| refused(Step::Encode, matches!(error, EncodeError::OutOfMemory(_)), &error))?;
    let no_backend =
        |error: ReferenceError| refused(Step::Backend, matches!(error, ReferenceError::Memory(_)), &error);
    let (scratch, generated, allocations) = match backend {
        BackendKind::Reference(products) => {
            let backend =
                Reference::new(model, config.kv_pages(model), kv, products, heap).map_err(no_backend)?;
            let scratch = Reference::scratch_bytes(model, config.kv_pages(model));
            let (tokens, counts) = generate(model, backend, &prompt, service, heap, allocations)?;
            (scratch, tokens, counts)
        }
        BackendKind::Cpu(threads) => {
            let plan = model.plan(config.largest_shape(), HeadResult::Logits, heap).map_err(unplanned)?;
            let scratch = CpuBackend::scratch_bytes(model, config.kv_pages(model), kv, threads, &plan, heap)
                .map_err(|error| refused(Step::Backend, true, &error))?;
            drop(plan);
            let backend = CpuBackend::new(model, config.kv_pages(model), kv, threads, heap)
                .map_err(|error| refused(Step::Backend, matches!(error, CpuError::Memory(_)), &error))?;
            let (tokens, counts) = generate(model, backend, &prompt, service, heap, allocations)?;
            (scratch, tokens, counts)
        }
    };
    let predicted = Memory {
        file: gguf.heap_bytes() as u64,
        tokenizer: tokenizer.heap_bytes() as u64,
        scratch: scratch as u64,
        ..memory
    };
    Ok(Report { text: decode(tokenizer, &generated, heap)?, predicted, allocations })
}

/// The tokens of the first request, and the counts of [`Report::allocations`].
fn generate<'m, B: Backend>(
    model: &'m Model<'_>,
    backend: B,
    prompt: &[TokenId],
    service: &Service<'_>,
    heap: Heap<'m>,
    allocations: &dyn Fn() -> usize,
) -> Result<(Vec<TokenId>, [usize; 3]), Step> {
    let config = service.config;
    let unusable = |step: Step, error: EngineError<B::Error>| {
        let of_backend = matches!(error, EngineError::Backend(_));
        let memory = matches!(error, EngineError::Memory(_) | EngineError::Plan(PlanError::Memory(_)));
        refused(step, memory || of_backend, &error)
    };
    let mut engine =
        Engine::new(model, backend, config, &[], heap).map_err(|error| unusable(Step::Engine, error))?;
    let params = SamplerParams::greedy();
    for id in 0..config.sequences {
        let request = Request {
            id: RequestId(id.into()),
            prompt,
            params: GenerationParams {
                max_tokens: service.tokens,
                sampler: params.clone(),
                ignore_end: true,
                ..GenerationParams::default()
            },
        };
        engine.submit(&request, Nanos(0)).map_err(|error| {
            let memory =
                matches!(error, SubmitError::Memory(_) | SubmitError::Sampler(SamplerError::Memory(_)));
            refused(Step::Submit, memory, &error)
        })?;
    }
    let before = allocations();
    let mut first = None;
    let mut generated = Vec::new();
    for time in 1.. {
        let progress = engine.poll(Nanos(time), &mut |event| {
            if let Event::Token { request: RequestId(0), token, .. } = event {
                generated.push(token);
            }
        });
        first.get_or_insert_with(allocations);
        match progress {
            Ok(Progress::Idle) => break,
            Ok(_) => {}
            Err(error) => return Err(unusable(Step::Poll, error)),
        }
    }
    Ok((generated, [before, first.unwrap(), allocations()]))
}

fn decode(tokenizer: &Tokenizer<'_>, tokens: &[TokenId], heap: Heap<'_>) -> Result<String, Step> {
    let mut text = heap::Vec::new_in(heap);
    let mut detokenizer = Detokenizer::new(true);
    let mut done = Ok(());
    for &token in tokens {
        done = done.and_then(|()| detokenizer.push(tokenizer, token, &mut text));
    }
    done.and_then(|()| detokenizer.finish(&mut text))
        .map_err(|error| refused(Step::Detokenize, true, &error))?;
    Ok(String::from_utf8(text.to_vec()).unwrap())
}
