//! `/v1/chat/completions` as a stream of chunks.

use super::stream_extras::StreamExtras;
use super::{document, logprobs};
use crate::answer_header::AnswerHeader;
use crate::app::App;
use crate::error::{Dialect, Failure};
use crate::generation::{Event, Generation, PromptProgress, UsageTotal};
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer};
use crate::unique_id::unique_id;
use alloc::sync::Arc;
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};

/// The `object` of a chunk.
const CHUNK: &str = "chat.completion.chunk";

pub(super) fn respond(
    request: &RequestContext,
    header: AnswerHeader,
    extras: StreamExtras,
    generation: Generation,
) -> Response {
    let app = Arc::clone(&request.app);
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        let mut head = Value::Object(document::begin(&header, CHUNK)).to_string();
        // the closing brace comes after the fields of each chunk
        head.pop();
        let usage = if extras.usage { ",\"usage\":null" } else { "" };
        let around_text = |index| {
            let before = format!("{head},\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":");
            let after = format!("}},\"logprobs\":null,\"finish_reason\":null}}]{usage}}}");
            AroundText { before, after }
        };
        let around_text = (0..generation.answers()).map(around_text).collect();
        let chunks = Chunks { app, header, head, around_text, usage, writer, extras };
        chunks.write(generation).await;
    })
}

/// JSON before and after the text of a chunk.
struct AroundText {
    before: String,
    after: String,
}

/// Writes the chunks of a stream.
struct Chunks {
    app: Arc<App>,
    header: AnswerHeader,
    /// JSON that begins every chunk, without the closing brace.
    head: String,
    /// For each answer, the JSON around the text in chunks that have only text, as most have.
    around_text: Vec<AroundText>,
    /// JSON of the field `usage` in all chunks but the last.
    usage: &'static str,
    writer: Writer,
    extras: StreamExtras,
}

/// Fields of a chunk besides its delta.
#[derive(Default)]
struct ChunkFields<'c> {
    finish_reason: Option<&'c str>,
    log_probs: Option<Value>,
    /// Further fields with their values.
    extras: Vec<(&'static str, Value)>,
}

impl Chunks {
    async fn write(&self, mut generation: Generation) {
        for index in 0..generation.answers() {
            let delta = json!({ "role": "assistant", "content": null });
            self.chunk(index, &delta, ChunkFields::default());
        }
        let (mut total, mut timings) = (UsageTotal::default(), Value::Null);
        while let Some((index, event)) = generation.next().await {
            match event {
                Event::Prompt(progress) => self.progress(index, &progress, &generation),
                Event::Output { deltas, tokens, .. } => {
                    let timings = self.extras.timings.then(|| generation.timings(index).document());
                    self.output(index, deltas, &tokens, timings);
                }
                Event::Finished(outcome) => {
                    total.add_answer(&outcome);
                    timings = outcome.timings().document();
                    let extras = vec![("timings", timings.clone())];
                    let finish_reason = Some(document::finish_reason(&outcome));
                    self.chunk(index, &json!({}), ChunkFields { finish_reason, log_probs: None, extras });
                }
                Event::Failed(failure) => return self.fail(&failure),
            }
        }
        if self.extras.usage {
            let mut document = document::begin(&self.header, CHUNK);
            document.insert("choices".into(), json!([]));
            document.insert("usage".into(), document::usage(&total));
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
        let mut extras = vec![("prompt_progress", document::prompt_progress(progress))];
        if self.extras.timings {
            extras.push(("timings", generation.timings(index).document()));
        }
        self.chunk(index, &json!({}), ChunkFields { extras, ..ChunkFields::default() });
    }

    fn output(&self, index: usize, deltas: Vec<Delta>, tokens: &[TokenReport], mut timings: Option<Value>) {
        // log-probabilities go with the first delta, or alone if the text is held back
        let mut log_probs = logprobs::chat(&self.app, tokens);
        if let ([Delta::Text(text)], None, None) = (deltas.as_slice(), &log_probs, &timings)
            && let Some(AroundText { before, after }) = self.around_text.get(index)
        {
            return self.writer.text_inside(before, text, after);
        }
        if deltas.is_empty() && log_probs.is_some() {
            let fields = ChunkFields { log_probs, ..ChunkFields::default() };
            return self.chunk(index, &json!({ "content": "" }), fields);
        }
        for delta in deltas {
            let extras = timings.take().map(|timings| ("timings", timings)).into_iter().collect();
            let fields = ChunkFields { log_probs: log_probs.take(), extras, ..ChunkFields::default() };
            self.chunk(index, &delta_document(delta), fields);
        }
    }

    /// Writes a chunk. Its beginning is the same every time and is not encoded again.
    fn chunk(&self, index: usize, delta: &Value, fields: ChunkFields<'_>) {
        let (head, usage) = (&self.head, self.usage);
        let finish_reason = fields.finish_reason.map_or(Value::Null, Value::from);
        let log_probs = fields.log_probs.unwrap_or_default();
        let extras: Map<String, Value> =
            fields.extras.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let extras = if extras.is_empty() { String::new() } else { Value::Object(extras).to_string() };
        // `,"a":1` from `{"a":1}`
        let inner = extras.strip_prefix('{').and_then(|extras| extras.strip_suffix('}'));
        let (comma, inner) = inner.map_or(("", ""), |inner| (",", inner));
        self.writer.json(format_args!(
            "{head},\"choices\":[{{\"index\":{index},\"delta\":{delta},\"logprobs\":{log_probs},\
             \"finish_reason\":{finish_reason}}}]{usage}{comma}{inner}}}"
        ));
    }
}

fn delta_document(delta: Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({ "content": text }),
        Delta::Reasoning(text) => json!({ "reasoning_content": text }),
        Delta::Call { index, name } => json!({ "tool_calls": [{
            "index": index,
            "id": unique_id(document::CALL_ID),
            "type": "function",
            "function": { "name": name, "arguments": "" },
        }] }),
        Delta::Arguments { index, text } => {
            json!({ "tool_calls": [{ "index": index, "function": { "arguments": text } }] })
        }
    }
}
