//! `/v1/chat/completions` as a stream of chunks.

use super::chat::{Header, Wants};
use super::logprobs;
use crate::app::App;
use crate::call::{self, Call};
use crate::error::{Dialect, Failure};
use crate::generate::{Generation, Part, Total};
use crate::stream::{self, Framing, Gone, Writer};
use alloc::sync::Arc;
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};

pub(super) fn respond(call: &Call, header: Header, wants: Wants, generation: Generation) -> Response {
    let app = Arc::clone(&call.app);
    let keep_alive = app.settings.keep_alive;
    stream::stream(Framing::Events, keep_alive, |writer| async move {
        let chunks = Chunks { app, header, writer, wants };
        chunks.write(generation).await
    })
}

struct Chunks {
    app: Arc<App>,
    header: Header,
    writer: Writer,
    wants: Wants,
}

impl Chunks {
    async fn write(&self, mut generation: Generation) -> Result<(), Gone> {
        for index in 0..generation.answers() {
            let delta = json!({ "role": "assistant", "content": "" });
            self.chunk(index, &delta, None, None).await?;
        }
        let mut total = Total::default();
        while let Some((index, part)) = generation.next().await {
            match part {
                Part::Prefill { done, total } => self.progress(done, total).await?,
                Part::More { deltas, tokens, .. } => self.more(index, deltas, &tokens).await?,
                Part::Over(ending) => {
                    total.add(&ending);
                    let mut document = self.document(index, &json!({}), Some(ending.reason.word()), None);
                    document.insert("timings".into(), ending.timings());
                    self.writer.data(&Value::Object(document)).await?;
                }
                Part::Failed(failure) => return self.fail(&failure).await,
            }
        }
        if self.wants.usage {
            let mut document = self.header.document("chat.completion.chunk");
            document.insert("choices".into(), json!([]));
            document.insert("usage".into(), total.usage());
            self.writer.data(&Value::Object(document)).await?;
        }
        self.writer.done().await
    }

    async fn fail(&self, failure: &Failure) -> Result<(), Gone> {
        self.writer.data(&failure.document(Dialect::OpenAi)).await?;
        self.writer.done().await
    }

    async fn progress(&self, done: u32, total: u32) -> Result<(), Gone> {
        if !self.wants.progress {
            return Ok(());
        }
        let mut document = self.document(0, &json!({}), None, None);
        document.insert("prompt_progress".into(), json!({ "processed": done, "total": total }));
        self.writer.data(&Value::Object(document)).await
    }

    async fn more(&self, index: usize, deltas: Vec<Delta>, tokens: &[TokenReport]) -> Result<(), Gone> {
        // log-probabilities go with the first delta, or alone if the text waits
        let mut log_probs = logprobs::chat(&self.app, tokens);
        if deltas.is_empty() && log_probs.is_some() {
            return self.chunk(index, &json!({ "content": "" }), None, log_probs).await;
        }
        for delta in deltas {
            self.chunk(index, &delta_document(delta), None, log_probs.take()).await?;
        }
        Ok(())
    }

    fn document(
        &self,
        index: usize,
        delta: &Value,
        finish: Option<&str>,
        log_probs: Option<Value>,
    ) -> Map<String, Value> {
        let mut document = self.header.document("chat.completion.chunk");
        let choice =
            json!({ "index": index, "delta": delta, "logprobs": log_probs, "finish_reason": finish });
        document.insert("choices".into(), json!([choice]));
        if self.wants.usage {
            document.insert("usage".into(), Value::Null);
        }
        document
    }

    async fn chunk(
        &self,
        index: usize,
        delta: &Value,
        finish: Option<&str>,
        log_probs: Option<Value>,
    ) -> Result<(), Gone> {
        self.writer.data(&Value::Object(self.document(index, delta, finish, log_probs))).await
    }
}

fn delta_document(delta: Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({ "content": text }),
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Call { index, name } => json!({ "tool_calls": [{
            "index": index,
            "id": call::id("call_"),
            "type": "function",
            "function": { "name": name, "arguments": "" },
        }] }),
        Delta::Arguments { index, text } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
        }
    }
}
