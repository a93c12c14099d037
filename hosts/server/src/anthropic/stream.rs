//! `/v1/messages` as a stream of events.

use super::messages::{CALL, stop_reason, usage};
use crate::error::Dialect;
use crate::generation::{Ending, Event, Generation};
use crate::openai::chat::AnswerHeader;
use crate::request_context::{self, RequestContext};
use crate::stream::{self, Framing, Writer};
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use serde_json::{Value, json};

pub(super) fn respond(request: &RequestContext, header: AnswerHeader, generation: Generation) -> Response {
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        Events { writer, header, index: 0, open: None }.write(generation).await;
    })
}

/// Kinds of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
    Call,
}

struct Events {
    writer: Writer,
    header: AnswerHeader,
    /// Of the block that is being written, or of the next.
    index: usize,
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
        while let Some((_, part)) = generation.next().await {
            match part {
                Event::Prefill(_) => {}
                Event::More { deltas, .. } => {
                    for delta in deltas {
                        self.take(delta);
                    }
                }
                Event::Over(ending) => return self.finish(&ending),
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

    fn take(&mut self, delta: Delta) {
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
                let id = request_context::unique_id(CALL);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.enter(Block::Call, block);
            }
            Delta::Arguments { text, .. } => {
                self.delta(json!({ "type": "input_json_delta", "partial_json": text }));
            }
        }
    }

    /// Begins a block, unless one of its kind is being written.
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

    fn finish(&mut self, ending: &Ending) {
        self.close();
        let (reason, stop) = stop_reason(ending);
        let delta = json!({ "stop_reason": reason, "stop_sequence": stop });
        self.send("message_delta", json!({ "delta": delta, "usage": usage(ending) }));
        self.send("message_stop", json!({}));
    }
}
