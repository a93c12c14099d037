//! The parts that `run` and the chat share: the tokens of a conversation, and the end of an answer.

use super::answer_printer::{FAINT, PLAIN, Reasoning, colors};
use crate::device_args::ResolvedDevice;
use crate::failure::{Failure, Kind};
use crate::generate::Generation;
use crate::loaded::{self, HEAP};
use core::fmt;
use doorbell_core::engine::FinishReason;
use doorbell_core::heap;
use doorbell_core::token::{Scratch, TokenId, Tokenizer};
use doorbell_runtime::answer::{Begin, Style, append_continued};
use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, TemplateError};
use doorbell_runtime::timings::RequestTimings;
use serde_json::{Map, Value};
use std::io::{IsTerminal as _, stderr};

/// The form of a model's conversations, and the treatment of its reasoning.
#[derive(Clone, Copy)]
pub(crate) struct ChatFormat<'t> {
    template: &'t ChatTemplate,
    /// The marks of its answers.
    pub(crate) style: Style,
    /// True to rewrite a conversation that the template refuses.
    merge: bool,
    /// False asks the model not to reason; without a choice the template decides.
    think: Option<bool>,
    /// The treatment of reasoning.
    pub(crate) reasoning: Option<Reasoning>,
}

/// A conversation as tokens, with the beginning of the model's turn.
pub(crate) struct ChatPrompt {
    pub(crate) tokens: heap::Vec<'static, TokenId>,
    /// The part of the answer that comes first.
    pub(crate) begin: Begin,
}

impl<'t> ChatFormat<'t> {
    pub(crate) fn new(
        template: &'t ChatTemplate,
        merge: bool,
        think: Option<bool>,
        reasoning: Option<Reasoning>,
    ) -> Self {
        Self { template, style: Style::of_template(template.source()), merge, think, reasoning }
    }

    /// The prompt for the answer to a conversation.
    pub(crate) fn prompt(
        &self,
        tokenizer: &Tokenizer<'_>,
        messages: &[Value],
    ) -> Result<ChatPrompt, Failure> {
        let mut variables = Map::new();
        if let Some(think) = self.think {
            variables.insert("enable_thinking".into(), think.into());
        }
        let input = ChatInput { merge: self.merge, ..ChatInput::new(messages, &variables, Moment::now()) };
        let mut prompt = self.template.prompt(&input).map_err(|error| match error {
            TemplateError::Raised { .. } if !self.merge => {
                Failure::new(Kind::Input, format_args!("{error}; --merge-messages may help"))
            }
            error => loaded::template_failure(error, Kind::Input),
        })?;
        let begin = append_continued(&mut prompt, None, self.style, self.think != Some(false));
        let mut tokens = heap::Vec::new_in(HEAP);
        tokenizer
            .encode_chat(prompt.text.as_bytes(), &prompt.content, &mut Scratch::new(HEAP), &mut tokens)
            .map_err(|error| Failure::new(Kind::Input, error))?;
        Ok(ChatPrompt { tokens, begin })
    }
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
        let faint = stderr().is_terminal() && colors();
        if faint {
            f.write_str(FAINT)?;
        }
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
        if faint { f.write_str(PLAIN) } else { Ok(()) }
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
