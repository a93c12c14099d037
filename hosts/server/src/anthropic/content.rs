//! The parts of Anthropic's documents: content blocks, stop reason, usage.

use crate::generation::{CollectedAnswer, Outcome};
use crate::unique_id::unique_id;
use doorbell_core::engine::FinishReason;
use serde_json::{Value, json};

/// Prefix of call ids.
pub(super) const CALL_ID: &str = "toolu_";

/// The `stop_reason`, and the stop text if one ended the answer.
pub(super) fn stop_reason(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match outcome.reason {
        FinishReason::ContextFull => ("model_context_window_exceeded", None),
        FinishReason::MaxTokens => ("max_tokens", None),
        _ if outcome.called_tools => ("tool_use", None),
        FinishReason::StopString(_) => ("stop_sequence", outcome.stop_text.as_deref()),
        _ => ("end_turn", None),
    }
}

/// The `usage`; input tokens do not include cached ones.
pub(super) fn usage(outcome: &Outcome) -> Value {
    let usage = &outcome.usage;
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "thinking_tokens": outcome.reasoning_tokens },
    })
}

/// The content blocks of a whole answer.
pub(super) fn blocks(answer: &CollectedAnswer) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !answer.reasoning.is_empty() {
        blocks.push(json!({ "type": "thinking", "thinking": answer.reasoning, "signature": "" }));
    }
    if !answer.text.is_empty() {
        blocks.push(json!({ "type": "text", "text": answer.text }));
    }
    for call in &answer.calls {
        let (id, input) = (unique_id(CALL_ID), call.arguments_object());
        blocks.push(json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }));
    }
    blocks
}
