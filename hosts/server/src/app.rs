//! What all handlers share: the model that is served, the settings, the numbers.

use crate::keep_alive::Streams;
use crate::metrics::Metrics;
use crate::model_handle::ModelHandle;
use crate::settings::Settings;
use core::sync::atomic::AtomicUsize;
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::token::{DetokenizeOptions, EncodeOptions, TokenId};
use doorbell_runtime::answer::Style;
use doorbell_runtime::constrain::Grammars;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::sync::watch;

/// Where the server allocates what core asks for.
pub(crate) const HEAP: Heap<'static> = &Global;

/// What all handlers share.
pub(crate) struct App {
    pub(crate) model: ModelHandle,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) style: Style,
    pub(crate) grammars: Grammars,
    pub(crate) started: SystemTime,
    /// Requests in progress.
    pub(crate) in_flight: AtomicUsize,
    /// Bytes of bodies that are being read or worked on.
    pub(crate) body_bytes: AtomicUsize,
    /// Becomes true when whoever still waits for an answer gets none.
    pub(crate) cut: watch::Sender<bool>,
    /// Streams that are being written.
    pub(crate) streams: Streams,
    /// What the last finished request took, for `/v1/stats`.
    pub(crate) last: Mutex<Option<crate::generation::Ending>>,
}

impl App {
    pub(crate) fn new(model: ModelHandle, settings: Settings) -> Self {
        let style =
            model.template.as_ref().map_or(Style::PLAIN, |template| Style::of_template(template.source()));
        let metrics = Metrics::new(&model);
        Self {
            model,
            settings,
            metrics,
            style,
            grammars: Grammars::new(),
            started: SystemTime::now(),
            in_flight: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
            cut: watch::Sender::new(false),
            streams: Streams::default(),
            last: Mutex::new(None),
        }
    }

    /// Seconds since 1970 at which the server started; the age that models are given.
    pub(crate) fn created(&self) -> u64 {
        seconds(self.started)
    }

    /// The tokens of a text.
    pub(crate) fn encode(
        &self,
        text: &str,
        options: EncodeOptions,
    ) -> Result<Vec<TokenId>, crate::error::Failure> {
        let mut tokens = heap::Vec::new_in(HEAP);
        let encoded = self.model.tokenizer.encode(text, options, &mut tokens);
        encoded.map_err(|error| crate::error::Failure::new(crate::error::Kind::Invalid, error))?;
        Ok(tokens.to_vec())
    }

    /// The text of tokens.
    pub(crate) fn decode(&self, tokens: &[TokenId]) -> String {
        let mut text = heap::Vec::new_in(HEAP);
        let options = DetokenizeOptions { special: true, ..DetokenizeOptions::default() };
        // a refused allocation leaves the text short, which is all that can be done about it here
        _ = self.model.tokenizer.detokenize(tokens, options, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The bytes of one token, control tokens as their texts.
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
