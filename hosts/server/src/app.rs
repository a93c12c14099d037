//! State that all handlers share: the model, the settings, the metrics.

use crate::clients::{ClientId, Shares};
use crate::error::{Failure, FailureKind};
use crate::generation::Outcome;
use crate::keep_alive::OpenStreams;
use crate::metrics::Metrics;
use crate::model_handle::ModelHandle;
use crate::settings::Settings;
use crate::work_pool::WorkPool;
use alloc::sync::Arc;
use core::sync::atomic::AtomicUsize;
use doorbell_core::engine::SubmitError;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::token::{DetokenizeOptions, EncodeOptions, TokenId};
use doorbell_runtime::answer::Style;
use doorbell_runtime::constrain::Grammars;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::sync::watch;

/// Allocator for core's data in the server.
pub(crate) const HEAP: Heap<'static> = &Global;

/// State that all handlers share.
pub(crate) struct App {
    pub(crate) model: ModelHandle,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// Marks of the model.
    pub(crate) style: Style,
    pub(crate) grammars: Grammars,
    /// Work away from the thread that serves sockets.
    pub(crate) work: WorkPool,
    /// Answers in the engine's queue, of each client.
    pub(crate) answers: Arc<Shares<ClientId>>,
    /// Bytes of the longest token; at least 1.
    longest_token: usize,
    pub(crate) started: SystemTime,
    /// Requests in progress.
    pub(crate) in_flight: AtomicUsize,
    /// Bytes of memory that requests have taken for their bodies.
    pub(crate) body_bytes: AtomicUsize,
    /// Becomes true when unfinished answers are given up at the end of the server.
    pub(crate) aborted: watch::Sender<bool>,
    /// Streams that are being written.
    pub(crate) streams: Arc<OpenStreams>,
    /// The last finished answer, for `/v1/stats`.
    pub(crate) last: Mutex<Option<Outcome>>,
}

impl App {
    pub(crate) fn new(model: ModelHandle, settings: Settings) -> Self {
        let style = match &model.template {
            Some(template) => Style::of_template(template.source()),
            None => Style::PLAIN,
        };
        let metrics = Metrics::new(&model);
        // a client has as many answers waiting as a quarter of the queue, besides those that run
        let answers = Shares::new(model.parallel.saturating_add(model.waiting / 4));
        Self {
            work: WorkPool::new(),
            answers,
            longest_token: model.tokenizer.longest_token().max(1),
            model,
            settings,
            metrics,
            style,
            grammars: Grammars::new(),
            started: SystemTime::now(),
            in_flight: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
            aborted: watch::Sender::new(false),
            streams: Arc::default(),
            last: Mutex::new(None),
        }
    }

    /// Start of the server, seconds since 1970; APIs report it as the time the model was created.
    pub(crate) fn created(&self) -> u64 {
        seconds(self.started)
    }

    /// Bytes of the longest text whose tokens can fit into the context.
    pub(crate) fn longest_text(&self) -> usize {
        self.longest_token.saturating_mul(self.model.context as usize)
    }

    /// Refuses a text that can't fit into the context, whatever its tokens are. Splitting it into tokens could take
    /// minutes.
    pub(crate) fn check_length(&self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.longest_text() {
            return Ok(());
        }
        // no token has more bytes
        let (tokens, context) = (bytes.div_ceil(self.longest_token), self.model.context);
        let mut failure = Failure::from(SubmitError::PromptTooLong { tokens, context });
        failure.message = format!(
            "the request exceeds the available context size: {bytes} bytes are at least {tokens} tokens, and the \
             context holds {context}, output included"
        );
        Err(failure)
    }

    /// The beginning of a text, as much as can fit into the context.
    pub(crate) fn beginning<'t>(&self, text: &'t str) -> &'t str {
        &text[..text.floor_char_boundary(self.longest_text())]
    }

    /// The end of a text, as much as can fit into the context.
    pub(crate) fn end<'t>(&self, text: &'t str) -> &'t str {
        &text[text.ceil_char_boundary(text.len().saturating_sub(self.longest_text()))..]
    }

    /// Refuses a prompt that leaves no room in the context, before it is copied for each answer.
    pub(crate) fn check_tokens(&self, tokens: usize) -> Result<(), Failure> {
        let context = self.model.context;
        let fits = tokens < context as usize;
        if fits { Ok(()) } else { Err(SubmitError::PromptTooLong { tokens, context }.into()) }
    }

    /// The tokens of a text.
    pub(crate) fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<TokenId>, Failure> {
        self.check_length(text.len())?;
        let mut tokens = heap::Vec::new_in(HEAP);
        let encoded = self.model.tokenizer.encode(text, options, &mut tokens);
        encoded.map_err(|error| Failure::new(FailureKind::Invalid, error))?;
        Ok(tokens.to_vec())
    }

    /// The text of tokens.
    pub(crate) fn decode(&self, tokens: &[TokenId]) -> String {
        let mut text = heap::Vec::new_in(HEAP);
        let options = DetokenizeOptions { special: true, ..DetokenizeOptions::default() };
        // without memory the text stays incomplete
        _ = self.model.tokenizer.detokenize(tokens, options, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The bytes of a token; the text of a control token.
    pub(crate) fn piece(&self, token: TokenId) -> Vec<u8> {
        self.model.tokenizer.bytes(token, true).collect()
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970, now.
pub(crate) fn now() -> u64 {
    seconds(SystemTime::now())
}
