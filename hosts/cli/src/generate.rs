//! Generation of one request at a time, with its text streamed to a callback.
//!
//! Not here: the sampling flags (`sampling`), and many requests at a time (`doorbell_runtime::serve`).

use crate::device_args::{self, ResolvedDevice};
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::loaded::HEAP;
use crate::progress::Progress;
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::engine::{
    Config, Engine, EngineError, Event, FinishReason, GenerationParams, Nanos, Request, RequestId,
    SubmitError, Usage,
};
use doorbell_core::heap;
use doorbell_core::model::Model;
use doorbell_core::sample::{DryBreakers, LogitBias};
use doorbell_core::token::{Detokenizer, TokenId, Tokenizer};
use doorbell_runtime::backend::AnyBackend;
use std::time::Instant;

/// Rows of one step of a prefill.
pub(crate) const BATCH_ROWS: u32 = 512;

/// Prompts with more tokens than this get a progress bar.
const LONG_PROMPT: usize = 256;

/// The default context in tokens, unless the model's is shorter.
pub(crate) const CONTEXT: u32 = 4096;

/// Memory for checkpoints behind cached prefixes, if the user does not say how much: 1 GiB, but no more than
/// [`MOST_CHECKPOINTS`] take.
pub(crate) const CHECKPOINT_BYTES: u64 = 1 << 30;

/// Checkpoints, if the user does not say how much memory they may take.
pub(crate) const MOST_CHECKPOINTS: u32 = 16;

/// The engine's limits for one sequence.
pub(crate) fn config(model: &Model<'_>, context: Option<u32>) -> Config {
    let trained = model.hparams.context.max(1);
    let context = context.unwrap_or_else(|| trained.min(CONTEXT));
    let mut config = Config::new(context, 1, BATCH_ROWS.min(context));
    if model.state.is_some() {
        // a model without one takes any type; windows have one checkpoint in any case
        _ = config.set_checkpoints(model, KvType::F32, CHECKPOINT_BYTES, MOST_CHECKPOINTS);
    }
    config
}

/// The parameters of a generation.
pub(crate) type Params = GenerationParams<Vec<LogitBias>, DryBreakers<'static>>;

/// A generated answer.
pub(crate) struct Generation {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) text: String,
    pub(crate) reason: FinishReason,
    pub(crate) usage: Usage,
}

/// An engine for one sequence.
pub(crate) struct Generator<'m, 'a, B> {
    engine: Engine<'m, 'a, B>,
    tokenizer: &'m Tokenizer<'a>,
    interrupt: Interrupt,
    clock: Instant,
    requests: u64,
}

/// A generator on the chosen device, which the interrupt cancels.
pub(crate) fn generator<'m, 'a>(
    model: &'m Model<'a>,
    tokenizer: &'m Tokenizer<'a>,
    config: Config,
    resolved: ResolvedDevice,
    interrupt: Interrupt,
) -> Result<Generator<'m, 'a, AnyBackend<'m, 'a>>, Failure> {
    device_args::check_memory(model, &config, resolved)?;
    let backend = device_args::open(model, &config, resolved)?;
    let end_tokens: Vec<_> = tokenizer.eog().collect();
    let engine = Engine::new(model, backend, config, &end_tokens, HEAP)
        .map_err(|error| Failure::new(Kind::Memory, format_args!("{error}; use a smaller --ctx")))?;
    Ok(Generator { engine, tokenizer, interrupt, clock: Instant::now(), requests: 0 })
}

impl<B: Backend> Generator<'_, '_, B> {
    /// The backend.
    pub(crate) fn backend(&mut self) -> &mut B {
        self.engine.backend()
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Generates to the end, or until Ctrl-C. `prompt` has at least one token; `on_text` receives the text in pieces of whole
    /// characters, with control tokens if `special` is true.
    pub(crate) fn run(
        &mut self,
        prompt: &[TokenId],
        params: &Params,
        special: bool,
        on_text: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Generation, Failure> {
        let id = RequestId(self.requests);
        self.requests += 1;
        let request = Request { id, prompt, params: params.borrowed() };
        self.engine.submit(&request, now(self.clock)).map_err(refusal)?;
        let mut answer = Collector::new(self.tokenizer, prompt.len(), special);
        loop {
            if self.interrupt.pressed() || answer.failure.is_some() {
                self.engine.cancel(id);
            }
            let progress = self.engine.poll(now(self.clock), &mut |event| answer.take(event, on_text));
            progress.map_err(|error| {
                let kind =
                    if matches!(error, EngineError::Backend(_)) { Kind::Device } else { Kind::Internal };
                Failure::new(kind, error)
            })?;
            if let Some(ended) = answer.ended.take() {
                return answer.finish(ended, on_text);
            }
        }
    }
}

fn now(clock: Instant) -> Nanos {
    Nanos(u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn refusal(error: SubmitError) -> Failure {
    match error {
        SubmitError::PromptTooLong { .. } => {
            Failure::new(Kind::Input, format_args!("{error}; shorten it or give a larger --ctx"))
        }
        SubmitError::EmptyPrompt => {
            Failure::new(Kind::Input, format_args!("{error}; give some text with -p"))
        }
        SubmitError::Memory(_) => Failure::new(Kind::Memory, error),
        _ => Failure::new(Kind::Input, error),
    }
}

/// The end of a request.
struct Ended {
    reason: FinishReason,
    usage: Usage,
}

/// Collects the events of one request.
struct Collector<'t, 'a> {
    tokenizer: &'t Tokenizer<'a>,
    detokenizer: Detokenizer,
    tokens: Vec<TokenId>,
    text: heap::Vec<'static, u8>,
    /// Bytes of the text that were reported.
    reported: usize,
    bar: Option<Progress>,
    ended: Option<Ended>,
    failure: Option<Failure>,
}

impl<'t, 'a> Collector<'t, 'a> {
    fn new(tokenizer: &'t Tokenizer<'a>, prompt_len: usize, special: bool) -> Self {
        let bar = (prompt_len > LONG_PROMPT).then(|| Progress::prefill(prompt_len as u64));
        Self {
            tokenizer,
            detokenizer: Detokenizer::new(special),
            tokens: Vec::new(),
            text: heap::Vec::new_in(HEAP),
            reported: 0,
            bar,
            ended: None,
            failure: None,
        }
    }

    fn take(&mut self, event: Event<'_>, on_text: &mut dyn FnMut(&str) -> Result<(), Failure>) {
        match event {
            Event::Prefill { done, .. } => {
                if let Some(bar) = &self.bar {
                    bar.set(done.into());
                }
            }
            Event::Token { token, .. } => {
                self.bar = None;
                self.tokens.push(token);
                let pushed = self.detokenizer.push(self.tokenizer, token, &mut self.text);
                let pushed = pushed.map_err(|error| Failure::new(Kind::Memory, error));
                if let Err(failure) = pushed.and_then(|()| self.report(on_text)) {
                    self.failure.get_or_insert(failure);
                }
            }
            Event::Finished { reason, usage, .. } => self.ended = Some(Ended { reason, usage }),
            _ => {}
        }
    }

    /// Reports new text.
    fn report(&mut self, on_text: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        // the detokenizer appends whole characters only
        let new = core::str::from_utf8(&self.text[self.reported..]).unwrap_or_default();
        if !new.is_empty() {
            self.reported = self.text.len();
            on_text(new)?;
        }
        Ok(())
    }

    fn finish(
        mut self,
        ended: Ended,
        on_text: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Generation, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.detokenizer.finish(&mut self.text).map_err(|error| Failure::new(Kind::Memory, error))?;
        self.report(on_text)?;
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Ok(Generation { tokens: self.tokens, text, reason: ended.reason, usage: ended.usage })
    }
}
