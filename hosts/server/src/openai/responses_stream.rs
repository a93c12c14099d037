//! The answers of `/v1/responses` as they come: every event says which item and part it belongs to, and its number. A
//! whole answer is what the last of them has.

use super::chat::StreamExtras;
use super::responses::{Frame, call_item, message_item, reasoning_item, status, text_part};
use crate::error::{Dialect, Failure, Kind};
use crate::generation::{Ending, Event, Generation};
use crate::request_context::{self, RequestContext};
use crate::stream::{self, Framing, Writer};
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use serde_json::{Value, json};

pub(super) fn respond(
    request: &RequestContext,
    frame: Frame,
    extras: StreamExtras,
    generation: Generation,
) -> Response {
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        Events { extras, ..Events::new(frame, Some(writer)) }.write(generation).await;
    })
}

/// The response, when it is over.
pub(super) async fn whole(frame: Frame, mut generation: Generation) -> Result<Value, Failure> {
    let mut events = Events::new(frame, None);
    while let Some((_, part)) = generation.next().await {
        match part {
            Event::Prefill(_) => {}
            Event::More { deltas, .. } => {
                for delta in deltas {
                    events.take(delta);
                }
            }
            Event::Over(ending) => return Ok(events.finish(&ending)),
            Event::Failed(failure) => return Err(failure),
        }
    }
    Err(Failure::new(Kind::Internal, "the answer is missing"))
}

/// The item that is being written.
enum Open {
    Reasoning { id: String, text: String },
    Message { id: String, text: String },
    Call { id: String, call_id: String, name: String, arguments: String },
}

struct Events {
    frame: Frame,
    /// `None` where only the end is told.
    writer: Option<Writer>,
    /// Of the next event.
    number: u64,
    /// Items that are complete.
    done: Vec<Value>,
    open: Option<Open>,
    /// llama-server's extensions.
    extras: StreamExtras,
    /// Times for the next delta.
    timings: Option<Value>,
}

impl Events {
    fn new(frame: Frame, writer: Option<Writer>) -> Self {
        let extras = StreamExtras::default();
        Self { frame, writer, extras, number: 0, done: Vec::new(), open: None, timings: None }
    }

    async fn write(mut self, mut generation: Generation) {
        for name in ["response.created", "response.in_progress"] {
            let response = self.frame.document("in_progress", &[], None);
            self.send(name, json!({ "response": response }));
        }
        while let Some((_, part)) = generation.next().await {
            match part {
                Event::Prefill(progress) if self.extras.progress => {
                    let response = self.frame.document("in_progress", &[], None);
                    let event = json!({ "response": response, "prompt_progress": progress.document() });
                    self.send("response.in_progress", event);
                }
                Event::Prefill(_) => {}
                Event::More { deltas, .. } => {
                    self.timings = self.extras.timings.then(|| generation.timings(0));
                    for delta in deltas {
                        self.take(delta);
                    }
                }
                Event::Over(ending) => {
                    self.finish(&ending);
                    return;
                }
                Event::Failed(failure) => return self.fail(&failure),
            }
        }
    }

    fn send(&mut self, name: &str, mut event: Value) {
        event["type"] = name.into();
        event["sequence_number"] = self.number.into();
        self.number += 1;
        if let Some(writer) = &self.writer {
            writer.event(name, &event);
        }
    }

    /// An event of the part that is being written.
    fn send_part(&mut self, name: &str, id: &str, more: (&str, Value)) {
        let mut event = json!({ "item_id": id, "output_index": self.done.len(), "content_index": 0 });
        event[more.0] = more.1;
        if name.starts_with("response.output_text") {
            event["logprobs"] = json!([]);
        }
        if name.ends_with(".delta")
            && let Some(timings) = self.timings.take()
        {
            event["timings"] = timings;
        }
        self.send(name, event);
    }

    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(more) => {
                if !matches!(self.open, Some(Open::Reasoning { .. })) {
                    self.begin_reasoning();
                }
                let Some(Open::Reasoning { id, text }) = &mut self.open else { return };
                text.push_str(&more);
                let id = id.clone();
                self.send_part("response.reasoning_text.delta", &id, ("delta", more.into()));
            }
            Delta::Text(more) => {
                if !matches!(self.open, Some(Open::Message { .. })) {
                    self.begin_message();
                }
                let Some(Open::Message { id, text }) = &mut self.open else { return };
                text.push_str(&more);
                let id = id.clone();
                self.send_part("response.output_text.delta", &id, ("delta", more.into()));
            }
            Delta::Call { name, .. } => self.begin_call(name),
            Delta::Arguments { text, .. } => {
                let Some(Open::Call { id, arguments, .. }) = &mut self.open else { return };
                arguments.push_str(&text);
                let event = json!({ "item_id": id, "output_index": self.done.len(), "delta": text });
                self.send("response.function_call_arguments.delta", event);
            }
        }
    }

    fn added(&mut self, item: Value) {
        let event = json!({ "output_index": self.done.len(), "item": item });
        self.send("response.output_item.added", event);
    }

    fn begin_reasoning(&mut self) {
        self.close("completed");
        let id = request_context::unique_id("rs_");
        let item =
            json!({ "id": id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress" });
        self.added(item);
        let part = json!({ "type": "reasoning_text", "text": "" });
        self.send_part("response.content_part.added", &id, ("part", part));
        self.open = Some(Open::Reasoning { id, text: String::new() });
    }

    fn begin_message(&mut self) {
        self.close("completed");
        let id = request_context::unique_id("msg_");
        self.added(message_item(&id, "in_progress", &[]));
        self.send_part("response.content_part.added", &id, ("part", text_part("")));
        self.open = Some(Open::Message { id, text: String::new() });
    }

    fn begin_call(&mut self, name: String) {
        self.close("completed");
        let (id, call_id) = (request_context::unique_id("fc_"), request_context::unique_id("call_"));
        self.added(call_item(&id, &call_id, "in_progress", &name, ""));
        self.open = Some(Open::Call { id, call_id, name, arguments: String::new() });
    }

    /// Ends the item that is being written, if there is one, as one of this status.
    fn close(&mut self, status: &str) {
        let Some(open) = self.open.take() else { return };
        let item = match open {
            Open::Reasoning { id, text } => {
                self.send_part("response.reasoning_text.done", &id, ("text", text.as_str().into()));
                let part = json!({ "type": "reasoning_text", "text": text });
                self.send_part("response.content_part.done", &id, ("part", part));
                reasoning_item(&id, status, &text)
            }
            Open::Message { id, text } => {
                self.send_part("response.output_text.done", &id, ("text", text.as_str().into()));
                let part = text_part(&text);
                self.send_part("response.content_part.done", &id, ("part", part.clone()));
                message_item(&id, status, &[part])
            }
            Open::Call { id, call_id, name, arguments } => {
                let event = json!({
                    "item_id": id, "output_index": self.done.len(), "name": name, "arguments": arguments,
                });
                self.send("response.function_call_arguments.done", event);
                call_item(&id, &call_id, status, &name, &arguments)
            }
        };
        let event = json!({ "output_index": self.done.len(), "item": item });
        self.send("response.output_item.done", event);
        self.done.push(item);
    }

    /// Tells the end; gives the response.
    fn finish(&mut self, ending: &Ending) -> Value {
        if self.open.is_none() && self.done.is_empty() {
            self.begin_message();
        }
        let status = status(ending);
        self.close(status);
        let response = self.frame.document(status, &self.done, Some(ending));
        let event = json!({ "response": &response, "timings": ending.timings() });
        self.send(&format!("response.{status}"), event);
        response
    }

    fn fail(&mut self, failure: &Failure) {
        let mut response = self.frame.document("failed", &self.done, None);
        response["error"] = json!({ "code": "server_error", "message": failure.message });
        self.send("response.failed", json!({ "response": response }));
        if let Some(writer) = &self.writer {
            writer.data(&failure.document(Dialect::OpenAi));
        }
    }
}
