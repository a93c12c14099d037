//! `/v1/chat/completions` as a stream of chunks.

use super::chat::{AnswerHeader, StreamExtras};
use super::logprobs;
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::generation::{Event, Generation, PromptProgress, Total};
use crate::request_context::{self, RequestContext};
use crate::stream::{self, Framing, Writer};
use alloc::sync::Arc;
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};

pub(super) fn respond(
    request: &RequestContext,
    header: AnswerHeader,
    extras: StreamExtras,
    generation: Generation,
) -> Response {
    let app = Arc::clone(&request.app);
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        let mut head = Value::Object(header.document("chat.completion.chunk")).to_string();
        // the last brace follows behind the rest
        head.pop();
        let usage = if extras.usage { ",\"usage\":null" } else { "" };
        let around_text = |index| {
            let before = format!("{head},\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":");
            [before, format!("}},\"logprobs\":null,\"finish_reason\":null}}]{usage}}}")]
        };
        let around_text = (0..generation.answers()).map(around_text).collect();
        let chunks = Chunks { app, header, head, around_text, usage, writer, extras };
        chunks.write(generation).await;
    })
}

struct Chunks {
    app: Arc<App>,
    header: AnswerHeader,
    /// What all chunks begin with, as JSON without its last brace.
    head: String,
    /// What stands before and behind the text in chunks with nothing else, as most are, for each answer.
    around_text: Vec<[String; 2]>,
    /// What stands for usage in all chunks but the last.
    usage: &'static str,
    writer: Writer,
    extras: StreamExtras,
}

/// What a chunk has beside its delta.
#[derive(Default)]
struct More<'m> {
    finish: Option<&'m str>,
    log_probs: Option<Value>,
    /// A further field and its value.
    fields: Vec<(&'static str, Value)>,
}

impl Chunks {
    async fn write(&self, mut generation: Generation) {
        for index in 0..generation.answers() {
            let delta = json!({ "role": "assistant", "content": null });
            self.chunk(index, &delta, More::default());
        }
        let (mut total, mut timings) = (Total::default(), Value::Null);
        while let Some((index, part)) = generation.next().await {
            match part {
                Event::Prefill(progress) => self.progress(index, &progress, &generation),
                Event::More { deltas, tokens, .. } => {
                    let timings = self.extras.timings.then(|| generation.timings(index));
                    self.more(index, deltas, &tokens, timings);
                }
                Event::Over(ending) => {
                    total.add(&ending);
                    timings = ending.timings();
                    let fields = vec![("timings", timings.clone())];
                    let finish = Some(ending.reason.word());
                    self.chunk(index, &json!({}), More { finish, fields, ..More::default() });
                }
                Event::Failed(failure) => return self.fail(&failure),
            }
        }
        if self.extras.usage {
            let mut document = self.header.document("chat.completion.chunk");
            document.insert("choices".into(), json!([]));
            document.insert("usage".into(), total.usage());
            document.insert("timings".into(), timings);
            self.writer.data(&Value::Object(document));
        }
        self.writer.done();
    }

    fn fail(&self, failure: &Failure) {
        self.writer.data(&failure.document(Dialect::OpenAi));
        self.writer.done();
    }

    fn progress(&self, index: usize, progress: &PromptProgress, generation: &Generation) {
        if !self.extras.progress {
            return;
        }
        let mut fields = vec![("prompt_progress", progress.document())];
        if self.extras.timings {
            fields.push(("timings", generation.timings(index)));
        }
        self.chunk(index, &json!({}), More { fields, ..More::default() });
    }

    fn more(&self, index: usize, deltas: Vec<Delta>, tokens: &[TokenReport], mut timings: Option<Value>) {
        // log-probabilities go with the first delta, or alone if the text waits
        let mut log_probs = logprobs::chat(&self.app, tokens);
        if let ([Delta::Text(text)], None, None) = (deltas.as_slice(), &log_probs, &timings)
            && let Some([before, behind]) = self.around_text.get(index)
        {
            return self.writer.around(before, text, behind);
        }
        if deltas.is_empty() && log_probs.is_some() {
            let more = More { log_probs, ..More::default() };
            return self.chunk(index, &json!({ "content": "" }), more);
        }
        for delta in deltas {
            let fields = timings.take().map(|timings| ("timings", timings)).into_iter().collect();
            let more = More { log_probs: log_probs.take(), fields, ..More::default() };
            self.chunk(index, &delta_document(delta), more);
        }
    }

    /// Writes a chunk. Its first part is the same every time, and written as it is.
    fn chunk(&self, index: usize, delta: &Value, more: More<'_>) {
        let (head, usage) = (&self.head, self.usage);
        let finish = more.finish.map_or(Value::Null, Value::from);
        let log_probs = more.log_probs.unwrap_or_default();
        let fields: Map<String, Value> =
            more.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let fields = if fields.is_empty() { String::new() } else { Value::Object(fields).to_string() };
        // `,"a":1` of `{"a":1}`
        let inner = fields.strip_prefix('{').and_then(|fields| fields.strip_suffix('}'));
        let (comma, inner) = inner.map_or(("", ""), |inner| (",", inner));
        self.writer.json(format_args!(
            "{head},\"choices\":[{{\"index\":{index},\"delta\":{delta},\"logprobs\":{log_probs},\
             \"finish_reason\":{finish}}}]{usage}{comma}{inner}}}"
        ));
    }
}

fn delta_document(delta: Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({ "content": text }),
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Call { index, name } => json!({ "tool_calls": [{
            "index": index,
            "id": request_context::unique_id("call_"),
            "type": "function",
            "function": { "name": name, "arguments": "" },
        }] }),
        Delta::Arguments { index, text } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
        }
    }
}
