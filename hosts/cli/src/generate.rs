//! Generating: one request at a time through the engine, its text handed on as it comes.

use crate::device_args::{self, ResolvedDevice};
use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::loaded::HEAP;
use crate::progress::Progress;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{
    Config, Engine, EngineError, Event, FinishReason, GenerationParams, Nanos, Request, RequestId,
    SubmitError, Usage,
};
use doorbell_core::heap;
use doorbell_core::model::Model;
use doorbell_core::sample::{DryBreakers, LogitBias, SamplerParams};
use doorbell_core::token::{Detokenizer, TokenId, Tokenizer};
use doorbell_runtime::backend::AnyBackend;
use std::time::Instant;

/// Rows of one step while a prompt is computed.
pub(crate) const BATCH_ROWS: u32 = 512;

/// Prompts longer than this get a progress bar.
const LONG_PROMPT: usize = 256;

/// A context that is taken if none is asked for, in tokens, unless the model's own is shorter.
pub(crate) const CONTEXT: u32 = 4096;

/// The limits for one sequence.
pub(crate) fn config(model: &Model<'_>, context: Option<u32>) -> Config {
    let trained = model.hparams.context.max(1);
    let context = context.unwrap_or_else(|| trained.min(CONTEXT));
    Config::new(context, 1, BATCH_ROWS.min(context))
}

/// What is to be generated.
pub(crate) struct Task<'t> {
    /// At least one token.
    pub(crate) prompt: &'t [TokenId],
    /// The most tokens of the answer.
    pub(crate) max_tokens: u32,
    pub(crate) params: &'t SamplerParams,
    pub(crate) bias: &'t [LogitBias],
    /// Where repetitions end, for DRY.
    pub(crate) breakers: Option<&'t DryBreakers<'t>>,
    /// Whether to go on past tokens that end an answer.
    pub(crate) ignore_end: bool,
}

/// What was generated.
pub(crate) struct Answer {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) text: String,
    pub(crate) reason: FinishReason,
    pub(crate) usage: Usage,
}

/// An engine with the one sequence that a command line needs.
pub(crate) struct Generator<'m, 'a, B> {
    engine: Engine<'m, 'a, B>,
    tokenizer: &'m Tokenizer<'a>,
    interrupt: Interrupt,
    clock: Instant,
    requests: u64,
}

/// A generator on the chosen device, which stops at the interrupt.
pub(crate) fn generator<'m, 'a>(
    model: &'m Model<'a>,
    tokenizer: &'m Tokenizer<'a>,
    config: Config,
    computer: ResolvedDevice,
    interrupt: Interrupt,
) -> Result<Generator<'m, 'a, AnyBackend<'m, 'a>>, Failure> {
    device_args::check_memory(model, &config, computer)?;
    let backend = device_args::open(model, &config, computer)?;
    let end_tokens: Vec<_> = tokenizer.eog().collect();
    let engine = Engine::new(model, backend, config, &end_tokens, HEAP)
        .map_err(|error| Failure::new(Kind::Memory, format_args!("{error}; use a smaller --ctx")))?;
    Ok(Generator { engine, tokenizer, interrupt, clock: Instant::now(), requests: 0 })
}

impl<B: Backend> Generator<'_, '_, B> {
    /// What computes.
    pub(crate) fn backend(&mut self) -> &mut B {
        self.engine.backend()
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Generates to the end, or until Ctrl-C; `on_text` gets the text piece by piece, always whole characters.
    pub(crate) fn run(
        &mut self,
        task: &Task<'_>,
        on_text: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Answer, Failure> {
        let id = RequestId(self.requests);
        self.requests += 1;
        let request = Request {
            id,
            prompt: task.prompt,
            params: GenerationParams {
                max_tokens: task.max_tokens,
                sampler: task.params.clone(),
                bias: task.bias,
                dry_breakers: task.breakers,
                ignore_end: task.ignore_end,
                skip_prefix_cache: false,
            },
        };
        self.engine.submit(&request, now(self.clock)).map_err(refusal)?;
        let mut answer = Collector::new(self.tokenizer, task.prompt.len());
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

/// Gathers the events of one request.
struct Collector<'t, 'a> {
    tokenizer: &'t Tokenizer<'a>,
    detokenizer: Detokenizer,
    tokens: Vec<TokenId>,
    text: heap::Vec<'static, u8>,
    /// Bytes of the text that were handed on.
    told: usize,
    bar: Option<Progress>,
    ended: Option<(FinishReason, Usage)>,
    failure: Option<Failure>,
}

impl<'t, 'a> Collector<'t, 'a> {
    fn new(tokenizer: &'t Tokenizer<'a>, prompt_len: usize) -> Self {
        let bar = (prompt_len > LONG_PROMPT).then(|| Progress::prefill(prompt_len as u64));
        Self {
            tokenizer,
            detokenizer: Detokenizer::new(false),
            tokens: Vec::new(),
            text: heap::Vec::new_in(HEAP),
            told: 0,
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
                if let Err(failure) = pushed.and_then(|()| self.tell(on_text)) {
                    self.failure.get_or_insert(failure);
                }
            }
            Event::Finished { reason, usage, .. } => self.ended = Some((reason, usage)),
            _ => {}
        }
    }

    /// Hands on what is new.
    fn tell(&mut self, on_text: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        // the detokenizer appends whole characters only
        let new = core::str::from_utf8(&self.text[self.told..]).unwrap_or_default();
        if !new.is_empty() {
            self.told = self.text.len();
            on_text(new)?;
        }
        Ok(())
    }

    fn finish(
        mut self,
        (reason, usage): (FinishReason, Usage),
        on_text: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Answer, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.detokenizer.finish(&mut self.text).map_err(|error| Failure::new(Kind::Memory, error))?;
        self.tell(on_text)?;
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Ok(Answer { tokens: self.tokens, text, reason, usage })
    }
}

/// Rates of a finished request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    /// From the first step to the first token, in seconds.
    pub(crate) prefill: f64,
    /// From the first token to the end, in seconds.
    pub(crate) decode: f64,
    /// Prompt tokens that were not in the cache, a second.
    pub(crate) prefill_rate: f64,
    /// Tokens after the first a second; 0 if there are none.
    pub(crate) decode_rate: f64,
}

impl Timings {
    pub(crate) fn new(usage: &Usage) -> Self {
        let seconds = |from: Nanos, to: Nanos| to.0.saturating_sub(from.0) as f64 / 1e9;
        let rate = |tokens: u32, seconds: f64| if seconds > 0.0 { f64::from(tokens) / seconds } else { 0.0 };
        let prefill = seconds(usage.started, usage.first_token);
        let decode =
            if usage.generated_tokens == 0 { 0.0 } else { seconds(usage.first_token, usage.finished) };
        Self {
            prefill,
            decode,
            prefill_rate: rate(usage.prompt_tokens.saturating_sub(usage.cached_tokens), prefill),
            decode_rate: rate(usage.generated_tokens.saturating_sub(1), decode),
        }
    }
}
