//! `/v1/messages` as a stream of events.

use super::content::{CALL_ID, stop_reason, usage};
use crate::answer_header::AnswerHeader;
use crate::error::Dialect;
use crate::generation::{Event, Generation, Outcome};
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer};
use crate::unique_id::unique_id;
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use serde_json::{Value, json};

pub(super) fn respond(request: &RequestContext, header: AnswerHeader, generation: Generation) -> Response {
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        Events { writer, header, index: 0, open: None }.write(generation).await;
    })
}

/// Types of content blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

/// Writes the events of a message.
struct Events {
    writer: Writer,
    header: AnswerHeader,
    /// Index of the open block, or of the next one.
    index: usize,
    /// Type of the block that is being written.
    open: Option<Block>,
}

impl Events {
    async fn write(mut self, mut generation: Generation) {
        let message = json!({
            "id": self.header.id, "type": "message", "role": "assistant", "model": self.header.model,
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {
                "input_tokens": generation.prompt_tokens, "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0, "output_tokens": 0,
            },
        });
        self.send("message_start", json!({ "message": message }));
        self.send("ping", json!({}));
        while let Some((_, event)) = generation.next().await {
            match event {
                Event::Prompt(_) => {}
                Event::Output { deltas, .. } => deltas.into_iter().for_each(|delta| self.add(delta)),
                Event::Finished(outcome) => return self.finish(&outcome),
                Event::Failed(failure) => {
                    return self.writer.event("error", &failure.document(Dialect::Anthropic));
                }
            }
        }
    }

    fn send(&self, name: &str, mut event: Value) {
        event["type"] = name.into();
        self.writer.event(name, &event);
    }

    fn add(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(text) => {
                self.enter(Block::Thinking, json!({ "type": "thinking", "thinking": "", "signature": "" }));
                self.delta(json!({ "type": "thinking_delta", "thinking": text }));
            }
            Delta::Text(text) => {
                self.enter(Block::Text, json!({ "type": "text", "text": "" }));
                self.delta(json!({ "type": "text_delta", "text": text }));
            }
            Delta::Call { name, .. } => {
                self.close();
                let id = unique_id(CALL_ID);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.enter(Block::Call, block);
            }
            Delta::Arguments { text, .. } => {
                self.delta(json!({ "type": "input_json_delta", "partial_json": text }));
            }
        }
    }

    /// Begins a block, unless one of its type is open.
    fn enter(&mut self, kind: Block, block: Value) {
        if self.open == Some(kind) {
            return;
        }
        self.close();
        self.open = Some(kind);
        self.send("content_block_start", json!({ "index": self.index, "content_block": block }));
    }

    fn delta(&self, delta: Value) {
        self.send("content_block_delta", json!({ "index": self.index, "delta": delta }));
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if open == Block::Thinking {
            self.delta(json!({ "type": "signature_delta", "signature": "" }));
        }
        self.send("content_block_stop", json!({ "index": self.index }));
        self.index += 1;
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.close();
        let (stop_reason, stop_sequence) = stop_reason(outcome);
        let delta = json!({ "stop_reason": stop_reason, "stop_sequence": stop_sequence });
        self.send("message_delta", json!({ "delta": delta, "usage": usage(outcome) }));
        self.send("message_stop", json!({}));
    }
}
