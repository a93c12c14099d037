//! One prompt, answered greedily, with the counts of the heap. The lines are for `cargo xtask nostd`.

use crate::arena::{Arena, ArenaHeap};
use crate::system::line;
use core::fmt;
use doorbell_core::backend::KvType;
use doorbell_core::engine::{
    Config, Engine, EngineError, Event, Memory, Nanos, Progress, Request, RequestId, SubmitError,
};
use doorbell_core::gguf::{Gguf, GgufError};
use doorbell_core::heap::{self, Heap, OutOfMemory};
use doorbell_core::model::{Model, ModelError};
use doorbell_core::plan::PlanError;
use doorbell_core::reference::{Products, Reference, ReferenceError};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::{EncodeError, EncodeOptions, Tokenizer, TokenizerError};
use doorbell_cpu::budget::Budget;

const PROMPT: &str = "how many people would write";
const TOKENS: u32 = 24;

/// Why there is no answer.
#[derive(defmt::Format)]
enum Failure {
    File(GgufError),
    Tokenizer(TokenizerError),
    Text(EncodeError),
    Model(ModelError),
    Plan(PlanError),
    Backend(OutOfMemory),
    Engine(EngineError<ReferenceError>),
    Request(SubmitError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Tokenizer(error) => error.fmt(f),
            Self::Text(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

/// Answers from an array of `N` bytes, and prints what came of it.
pub(crate) fn print<const N: usize>(file: &[u8], arena: &'static Arena<N>) -> bool {
    let budget = Budget::new(arena.heap(), N);
    match answer(file, &budget) {
        Ok(predicted) => {
            line!("peak {} predicted {predicted} array {N}", budget.peak());
            true
        }
        Err(failure) => {
            defmt::error!("no answer: {}", failure);
            line!("refused {failure} array {N}");
            false
        }
    }
}

/// The bytes of the heap that were predicted.
fn answer<'h>(file: &'h [u8], budget: &'h Budget<&'static ArenaHeap>) -> Result<u64, Failure> {
    let heap: Heap<'h> = budget;
    let gguf = Gguf::parse(file, heap).map_err(Failure::File)?;
    let tokenizer = Tokenizer::new(&gguf, heap).map_err(Failure::Tokenizer)?;
    let model = Model::new(&gguf, heap).map_err(Failure::Model)?;
    let config = Config::new(model.hyper.context, 1, 16);
    let memory = config.memory(&model, KvType::F16, heap).map_err(Failure::Plan)?;
    let predicted = Memory {
        file: gguf.heap_bytes() as u64,
        tokenizer: tokenizer.heap_bytes() as u64,
        scratch: Reference::scratch_bytes(&model, config.pages) as u64,
        ..memory
    };
    generate(&tokenizer, &model, config, budget)?;
    Ok(predicted.heap())
}

fn generate<'m, 'a>(
    tokenizer: &Tokenizer<'a>,
    model: &'m Model<'a>,
    config: Config,
    budget: &'m Budget<&'static ArenaHeap>,
) -> Result<(), Failure> {
    let heap: Heap<'m> = budget;
    let mut prompt = heap::Vec::new_in(heap);
    tokenizer.encode(PROMPT, EncodeOptions::default(), &mut prompt).map_err(Failure::Text)?;
    let backend = Reference::new(model, config.pages, KvType::F16, Products::Quantised, heap)
        .map_err(Failure::Backend)?;
    let mut engine = Engine::new(model, backend, config, &[], heap).map_err(Failure::Engine)?;
    let params = SamplerParams::greedy();
    let request = Request {
        id: RequestId(1),
        prompt: &prompt,
        max_tokens: TOKENS,
        sampler: &params,
        bias: &[],
        breakers: None,
        ignore_end: true,
    };
    engine.submit(&request, Nanos(0)).map_err(Failure::Request)?;
    line!("prompt {}", prompt.iter().len());
    let before = budget.allocations();
    let mut events = |event: Event<'_>| {
        defmt::info!("{}", event);
        if let Event::Token { token, .. } = event {
            line!("token {token}");
        }
    };
    while engine.poll(Nanos(0), &mut events).map_err(Failure::Engine)? != Progress::Idle {}
    line!("allocations {} before tokens, {} for tokens", before, budget.allocations() - before);
    Ok(())
}
