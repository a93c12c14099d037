//! Answers one prompt greedily with the CPU driver on this thread, and prints tokens and allocations for
//! `cargo xtask nostd`.

use crate::arena::{Arena, ArenaHeap};
use crate::system::line;
use core::fmt;
use doorbell_core::backend::KvType;
use doorbell_core::engine::{
    Config, Engine, EngineError, Event, GenerationParams, Memory, Nanos, Progress, Request, RequestId,
    SubmitError,
};
use doorbell_core::gguf::{Gguf, GgufError};
use doorbell_core::heap::{self, Heap, OutOfMemory};
use doorbell_core::model::{Model, ModelError};
use doorbell_core::plan::{HeadResult, PlanError};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::{EncodeError, EncodeOptions, Tokenizer, TokenizerError};
use doorbell_cpu::backend::{CpuBackend, CpuError};
use doorbell_cpu::budget::Budget;
use doorbell_cpu::features::Isa;

const PROMPT: &str = "how many people would write";
const TOKENS: u32 = 24;
const KV: KvType = KvType::F16;

/// Reason for no answer.
#[derive(defmt::Format)]
enum Failure {
    File(GgufError),
    Tokenizer(TokenizerError),
    Text(EncodeError),
    Model(ModelError),
    Plan(PlanError),
    Scratch(OutOfMemory),
    Backend(CpuError),
    Engine(EngineError<CpuError>),
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
            Self::Scratch(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

/// Answers with an instruction set from an array of `N` bytes, and prints the result.
pub(crate) fn print<const N: usize>(file: &[u8], isa: Isa, arena: &'static Arena<N>) -> bool {
    let budget = Budget::new(arena.heap(), N);
    line!("instructions {}", isa.name());
    match answer(file, isa, &budget) {
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

/// Answers. Returns the predicted bytes of the heap.
fn answer<'h>(file: &'h [u8], isa: Isa, budget: &'h Budget<&'static ArenaHeap>) -> Result<u64, Failure> {
    let heap: Heap<'h> = budget;
    let gguf = Gguf::parse(file, heap).map_err(Failure::File)?;
    let tokenizer = Tokenizer::new(&gguf, heap).map_err(Failure::Tokenizer)?;
    let model = Model::new(&gguf, heap).map_err(Failure::Model)?;
    let config = Config::new(model.hparams.context, 1, 16);
    let memory = config.memory(&model, KV, heap).map_err(Failure::Plan)?;
    let predicted = Memory {
        file: gguf.heap_bytes() as u64,
        tokenizer: tokenizer.heap_bytes() as u64,
        scratch: scratch(&model, config, heap)? as u64,
        ..memory
    };
    generate(&tokenizer, &model, config, isa, budget)?;
    Ok(predicted.heap())
}

/// Bytes that the backend needs in addition to the engine's.
fn scratch(model: &Model<'_>, config: Config, heap: Heap<'_>) -> Result<usize, Failure> {
    let plan = model.plan(config.largest_shape(), HeadResult::Logits, heap).map_err(Failure::Plan)?;
    CpuBackend::scratch_bytes(model, config.kv_pages(model), KV, 1, &plan, heap).map_err(Failure::Scratch)
}

fn generate<'m, 'a>(
    tokenizer: &Tokenizer<'a>,
    model: &'m Model<'a>,
    config: Config,
    isa: Isa,
    budget: &'m Budget<&'static ArenaHeap>,
) -> Result<(), Failure> {
    let heap: Heap<'m> = budget;
    let mut prompt = heap::Vec::new_in(heap);
    tokenizer.encode(PROMPT, EncodeOptions::default(), &mut prompt).map_err(Failure::Text)?;
    let backend = CpuBackend::with_isa(model, config.kv_pages(model), KV, 1, isa, heap).map_err(Failure::Backend)?;
    let mut engine = Engine::new(model, backend, config, &[], heap).map_err(Failure::Engine)?;
    let params = SamplerParams::greedy();
    let request = Request {
        id: RequestId(1),
        prompt: &prompt,
        params: GenerationParams {
            max_tokens: TOKENS,
            sampler: params.clone(),
            ignore_end: true,
            ..GenerationParams::default()
        },
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
