//! The lines of an answer of `/api/chat` or `/api/generate`.

use super::time;
use crate::app::App;
use crate::error::Failure;
use crate::fields::Fields;
use crate::generation::{CollectedAnswer, Outcome, ToolCall};
use crate::openai::logprobs;
use crate::request_context::RequestContext;
use alloc::sync::Arc;
use doorbell_core::engine::FinishReason;
use doorbell_core::token::{Special, TokenId};
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// A message.
    Chat,
    /// Text, and at the end the context for a next request.
    Generate,
    /// Text without a context.
    Raw,
}

/// Output that has not been written yet: calls are written when they are complete, because their arguments are objects.
#[derive(Default)]
pub(super) struct PendingOutput {
    call: Option<ToolCall>,
    /// Tokens of the next line.
    pub(super) tokens: Vec<TokenReport>,
}

impl PendingOutput {
    /// The messages to write after these deltas: text at once, calls when they are complete.
    pub(super) fn add(&mut self, deltas: Vec<Delta>) -> Vec<CollectedAnswer> {
        let mut messages = Vec::new();
        for delta in deltas {
            match delta {
                Delta::Text(text) => messages.push(CollectedAnswer { text, ..CollectedAnswer::default() }),
                Delta::Reasoning(reasoning) => {
                    messages.push(CollectedAnswer { reasoning, ..CollectedAnswer::default() });
                }
                Delta::Call { name, .. } => {
                    messages.extend(self.take_call());
                    self.call = Some(ToolCall { name, arguments: String::new() });
                }
                Delta::Arguments { text, .. } => {
                    if let Some(call) = &mut self.call {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
        if let Some(first) = messages.first_mut() {
            first.tokens = core::mem::take(&mut self.tokens);
        }
        messages
    }

    /// The message of the pending call, if there is one.
    pub(super) fn take_call(&mut self) -> Option<CollectedAnswer> {
        self.call.take().map(|call| CollectedAnswer { calls: vec![call], ..CollectedAnswer::default() })
    }
}

/// Makes the lines of one answer.
pub(super) struct Lines {
    app: Arc<App>,
    form: AnswerForm,
    model: String,
    /// Tokens of the prompt and the answer so far, if the last line has them.
    context: Vec<TokenId>,
}

impl Lines {
    pub(super) fn new(
        request: &RequestContext,
        fields: &Fields<'_>,
        form: AnswerForm,
        prompt: &[TokenId],
    ) -> Result<Self, Failure> {
        let app = Arc::clone(&request.app);
        let model = fields.model(&request.app.model.name)?.to_owned();
        let context = if form == AnswerForm::Generate { prompt.to_vec() } else { Vec::new() };
        Ok(Self { app, form, model, context })
    }

    /// Adds tokens of the answer to the context.
    pub(super) fn add_tokens(&mut self, tokens: &[TokenReport]) {
        if self.form == AnswerForm::Generate {
            self.context.extend(tokens.iter().map(|report| report.token));
        }
    }

    /// A line that is not the last.
    pub(super) fn partial(&self, answer: &CollectedAnswer) -> Value {
        let mut document = self.document(answer);
        document.insert("done".into(), false.into());
        Value::Object(document)
    }

    /// The fields of all lines.
    pub(super) fn document(&self, answer: &CollectedAnswer) -> Map<String, Value> {
        let mut document = Map::new();
        document.insert("model".into(), self.model.as_str().into());
        document.insert("created_at".into(), time::text(SystemTime::now()).into());
        if let Some(entries) = logprobs::entries(&self.app, &answer.tokens) {
            document.insert("logprobs".into(), entries.into());
        }
        let thinking = (!answer.reasoning.is_empty()).then(|| Value::from(answer.reasoning.as_str()));
        if self.form != AnswerForm::Chat {
            document.insert("response".into(), answer.text.as_str().into());
            if let Some(thinking) = thinking {
                document.insert("thinking".into(), thinking);
            }
            return document;
        }
        let mut message = json!({ "role": "assistant", "content": answer.text });
        if let Some(thinking) = thinking {
            message["thinking"] = thinking;
        }
        if !answer.calls.is_empty() {
            message["tool_calls"] = answer.calls.iter().map(tool_call).collect();
        }
        document.insert("message".into(), message);
        document
    }

    /// The last line, with counts, and times in nanoseconds.
    pub(super) fn last(&self, answer: &CollectedAnswer, outcome: &Outcome) -> Value {
        let mut document = self.document(answer);
        let usage = &outcome.usage;
        let times = outcome.timings().times;
        document.insert("done".into(), true.into());
        document.insert("done_reason".into(), done_reason(outcome).into());
        document.insert("total_duration".into(), times.total.0.into());
        document.insert("load_duration".into(), 0.into());
        document.insert("prompt_eval_count".into(), usage.prompt_tokens.into());
        document.insert("prompt_eval_duration".into(), times.prefill.0.into());
        document.insert("eval_count".into(), usage.generated_tokens.into());
        document.insert("eval_duration".into(), times.decode.0.into());
        if self.form == AnswerForm::Generate {
            let tokenizer = self.app.model.tokenizer;
            let mut context: Vec<u32> = self.context.iter().map(|token| token.0).collect();
            // the token that ends a turn is not in the answer, but belongs before the next one
            if !outcome.hit_limit()
                && let Some(end) = tokenizer.special(Special::Eot).or(tokenizer.eos())
            {
                context.push(end.0);
            }
            document.insert("context".into(), context.into());
        }
        Value::Object(document)
    }
}

fn done_reason(outcome: &Outcome) -> &'static str {
    match outcome.reason {
        FinishReason::MaxTokens | FinishReason::ContextFull => "length",
        _ => "stop",
    }
}

fn tool_call(call: &ToolCall) -> Value {
    json!({ "function": { "name": call.name, "arguments": call.arguments_object() } })
}
