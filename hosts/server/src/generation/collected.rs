//! Answers put together from their events, for responses that are not streamed.

use super::event::Event;
use super::outcome::Outcome;
use super::run::Generation;
use crate::error::Failure;
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Value, json};

/// An answer put together.
#[derive(Debug, Default)]
pub(crate) struct CollectedAnswer {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) tokens: Vec<TokenReport>,
    /// `None` while the answer goes on.
    pub(crate) outcome: Option<Outcome>,
}

/// A call put together.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    /// JSON text.
    pub(crate) arguments: String,
}

impl CollectedAnswer {
    fn add(&mut self, deltas: Vec<Delta>, tokens: Vec<TokenReport>) {
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => self.reasoning.push_str(&text),
                Delta::Text(text) => self.text.push_str(&text),
                Delta::Call { name, .. } => self.calls.push(ToolCall { name, arguments: String::new() }),
                Delta::Arguments { index, text } => {
                    if let Some(call) = self.calls.get_mut(index) {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
        self.tokens.extend(tokens);
    }
}

impl ToolCall {
    /// The arguments as an object, for APIs that have them so. Other JSON, or text that was cut, becomes the value of
    /// `arguments`.
    pub(crate) fn arguments_object(&self) -> Value {
        match serde_json::from_str(&self.arguments) {
            Ok(value @ Value::Object(_)) => value,
            Ok(value) => json!({ "arguments": value }),
            Err(_) => json!({ "arguments": self.arguments }),
        }
    }
}

/// Waits for all answers and puts them together.
///
/// # Errors
/// The first failure.
pub(crate) async fn collect(mut generation: Generation) -> Result<Vec<CollectedAnswer>, Failure> {
    let mut answers: Vec<CollectedAnswer> = Vec::new();
    answers.resize_with(generation.answers(), CollectedAnswer::default);
    while let Some((index, event)) = generation.next().await {
        match event {
            Event::Prompt(_) => {}
            Event::Output { deltas, tokens, .. } => answers[index].add(deltas, tokens),
            Event::Finished(outcome) => answers[index].outcome = Some(outcome),
            Event::Failed(failure) => return Err(failure),
        }
    }
    Ok(answers)
}
