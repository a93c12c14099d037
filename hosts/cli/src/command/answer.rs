//! The parts that `run` and the chat share: the tokens of a conversation, and the end of an answer.

use crate::device_args::ResolvedDevice;
use crate::failure::{Failure, Kind};
use crate::generate::Generation;
use crate::loaded::{self, HEAP};
use core::fmt;
use doorbell_core::engine::FinishReason;
use doorbell_core::heap;
use doorbell_core::token::{Scratch, TokenId, Tokenizer};
use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, TemplateError};
use doorbell_runtime::timings::RequestTimings;
use serde_json::{Map, Value};

/// The tokens of a conversation, with the beginning of the model's turn. With `merge` a conversation that the template
/// refuses is rewritten.
pub(crate) fn chat_tokens(
    tokenizer: &Tokenizer<'_>,
    template: &ChatTemplate,
    messages: &[Value],
    merge: bool,
) -> Result<heap::Vec<'static, TokenId>, Failure> {
    let prompt =
        template.prompt(&ChatInput { merge, ..ChatInput::new(messages, &Map::new(), Moment::now()) });
    let prompt = prompt.map_err(|error| match error {
        TemplateError::Raised { .. } if !merge => {
            Failure::new(Kind::Input, format_args!("{error}; --merge-messages may help"))
        }
        error => loaded::template_failure(error, Kind::Input),
    })?;
    let mut tokens = heap::Vec::new_in(HEAP);
    tokenizer
        .encode_chat(prompt.text.as_bytes(), &prompt.content, &mut Scratch::new(HEAP), &mut tokens)
        .map_err(|error| Failure::new(Kind::Input, error))?;
    Ok(tokens)
}

/// The status line after an answer.
pub(crate) struct StatusLine<'a> {
    pub(crate) answer: &'a Generation,
    pub(crate) resolved: ResolvedDevice,
}

impl fmt::Display for StatusLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.answer.usage;
        let timings = RequestTimings::new(usage);
        let ResolvedDevice { device, threads, .. } = self.resolved;
        write!(
            f,
            "prompt {} tokens ({} cached), {:.1} tok/s; answer {} tokens, {:.1} tok/s; device {device}, {threads} threads",
            usage.prompt_tokens,
            usage.cached_tokens,
            timings.prefill_rate(),
            usage.generated_tokens,
            timings.decode_rate(),
        )?;
        if self.answer.reason == FinishReason::ContextFull {
            f.write_str("; the context is full; --ctx sets a larger one")?;
        }
        Ok(())
    }
}

/// The failure that ended an answer, if there is one.
pub(crate) fn ending(answer: &Generation) -> Result<(), Failure> {
    match &answer.reason {
        FinishReason::Cancelled => Err(Failure::silent(Kind::Interrupted)),
        FinishReason::Sampling(error) => Err(Failure::new(Kind::Internal, error)),
        FinishReason::DeviceFailed => Err(Failure::new(Kind::Device, "the device failed; try again")),
        _ => Ok(()),
    }
}
