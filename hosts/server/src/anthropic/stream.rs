//! `/v1/messages` as a stream of events.

use super::messages::{CALL, stop_reason, usage};
use crate::call::{self, Call};
use crate::error::Dialect;
use crate::generate::{Ending, Generation, Part};
use crate::openai::chat::Header;
use crate::stream::{self, Framing, Gone, Writer};
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use serde_json::{Value, json};

pub(super) fn respond(call: &Call, header: Header, generation: Generation) -> Response {
    stream::stream(Framing::Events, &call.app.streams, |writer| async move {
        Events { writer, header, index: 0, open: None }.write(generation).await
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
    header: Header,
    /// Of the block that is being written, or of the next.
    index: usize,
    open: Option<Block>,
}

impl Events {
    async fn write(mut self, mut generation: Generation) -> Result<(), Gone> {
        let message = json!({
            "id": self.header.id, "type": "message", "role": "assistant", "model": self.header.model,
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {
                "input_tokens": generation.prompt_tokens, "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0, "output_tokens": 0,
            },
        });
        self.send("message_start", json!({ "message": message })).await?;
        self.send("ping", json!({})).await?;
        while let Some((_, part)) = generation.next().await {
            match part {
                Part::Prefill(_) => {}
                Part::More { deltas, .. } => {
                    for delta in deltas {
                        self.take(delta).await?;
                    }
                }
                Part::Over(ending) => return self.finish(&ending).await,
                Part::Failed(failure) => {
                    return self.writer.event("error", &failure.document(Dialect::Anthropic)).await;
                }
            }
        }
        Ok(())
    }

    async fn send(&self, name: &str, mut event: Value) -> Result<(), Gone> {
        event["type"] = name.into();
        self.writer.event(name, &event).await
    }

    async fn take(&mut self, delta: Delta) -> Result<(), Gone> {
        match delta {
            Delta::Reasoning(text) => {
                self.enter(Block::Thinking, json!({ "type": "thinking", "thinking": "", "signature": "" }))
                    .await?;
                self.delta(json!({ "type": "thinking_delta", "thinking": text })).await
            }
            Delta::Text(text) => {
                self.enter(Block::Text, json!({ "type": "text", "text": "" })).await?;
                self.delta(json!({ "type": "text_delta", "text": text })).await
            }
            Delta::Call { name, .. } => {
                self.close().await?;
                let id = call::id(CALL);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.enter(Block::Call, block).await
            }
            Delta::Arguments { text, .. } => {
                self.delta(json!({ "type": "input_json_delta", "partial_json": text })).await
            }
        }
    }

    /// Begins a block, unless one of its kind is being written.
    async fn enter(&mut self, kind: Block, block: Value) -> Result<(), Gone> {
        if self.open == Some(kind) {
            return Ok(());
        }
        self.close().await?;
        self.open = Some(kind);
        self.send("content_block_start", json!({ "index": self.index, "content_block": block })).await
    }

    async fn delta(&self, delta: Value) -> Result<(), Gone> {
        self.send("content_block_delta", json!({ "index": self.index, "delta": delta })).await
    }

    async fn close(&mut self) -> Result<(), Gone> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if open == Block::Thinking {
            self.delta(json!({ "type": "signature_delta", "signature": "" })).await?;
        }
        self.send("content_block_stop", json!({ "index": self.index })).await?;
        self.index += 1;
        Ok(())
    }

    async fn finish(&mut self, ending: &Ending) -> Result<(), Gone> {
        self.close().await?;
        let (reason, stop) = stop_reason(ending);
        let delta = json!({ "stop_reason": reason, "stop_sequence": stop });
        self.send("message_delta", json!({ "delta": delta, "usage": usage(ending) })).await?;
        self.send("message_stop", json!({})).await
    }
}
