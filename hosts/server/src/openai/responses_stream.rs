//! The events of `/v1/responses`: each has a number and names its item and part. The last one holds the whole response,
//! which is also the document of a request that does not stream.

use super::document;
use super::response_document::{
    CallIds, ResponseDocument, call_item, message_item, reasoning_item, status, text_part,
};
use super::response_tools::{CallForm, ClientTool, input_of_arguments};
use super::stream_extras::StreamExtras;
use crate::error::{Dialect, Failure, FailureKind};
use crate::generation::{Event, Generation, Outcome};
use crate::request_context::RequestContext;
use crate::stream::{self, Framing, Writer};
use crate::unique_id::unique_id;
use axum::response::Response;
use doorbell_runtime::answer::Delta;
use serde_json::{Value, json};

pub(super) fn respond(
    request: &RequestContext,
    response: ResponseDocument,
    extras: StreamExtras,
    generation: Generation,
) -> Response {
    stream::stream(Framing::Events, &request.app.streams, |writer| async move {
        Events { extras, ..Events::new(response, Some(writer)) }.write(generation).await;
    })
}

/// The finished response.
pub(super) async fn whole(response: ResponseDocument, mut generation: Generation) -> Result<Value, Failure> {
    let mut events = Events::new(response, None);
    while let Some((_, event)) = generation.next().await {
        match event {
            Event::Prompt(_) => {}
            Event::Output { deltas, .. } => deltas.into_iter().for_each(|delta| events.add(delta)),
            Event::Finished(outcome) => return Ok(events.finish(&outcome)),
            Event::Failed(failure) => return Err(failure),
        }
    }
    Err(Failure::new(FailureKind::Internal, "the answer is missing"))
}

/// An output item that is being written.
enum Open {
    Reasoning { id: String, text: String },
    Message { id: String, text: String },
    Call { ids: CallIds, tool: ClientTool, arguments: String },
}

/// Writes the events of a response.
struct Events {
    response: ResponseDocument,
    /// `None` if only the finished response is wanted.
    writer: Option<Writer>,
    /// Number of the next event.
    number: u64,
    /// Finished items.
    done: Vec<Value>,
    open: Option<Open>,
    extras: StreamExtras,
    /// Timings for the next delta.
    timings: Option<Value>,
}

impl Events {
    fn new(response: ResponseDocument, writer: Option<Writer>) -> Self {
        let extras = StreamExtras::default();
        Self { response, writer, extras, number: 0, done: Vec::new(), open: None, timings: None }
    }

    async fn write(mut self, mut generation: Generation) {
        for name in ["response.created", "response.in_progress"] {
            let response = self.response.version("in_progress", &[], None);
            self.send(name, json!({ "response": response }));
        }
        while let Some((_, event)) = generation.next().await {
            match event {
                Event::Prompt(progress) if self.extras.progress => {
                    let response = self.response.version("in_progress", &[], None);
                    let progress = document::prompt_progress(&progress);
                    let event = json!({ "response": response, "prompt_progress": progress });
                    self.send("response.in_progress", event);
                }
                Event::Prompt(_) => {}
                Event::Output { deltas, .. } => {
                    self.timings = self.extras.timings.then(|| generation.timings(0).document());
                    deltas.into_iter().for_each(|delta| self.add(delta));
                }
                Event::Finished(outcome) => {
                    self.finish(&outcome);
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

    /// Sends an event of the open item `id`, with one more field.
    fn send_part(&mut self, name: &str, id: &str, field: &str, value: Value) {
        let mut event = json!({ "item_id": id, "output_index": self.done.len(), "content_index": 0 });
        event[field] = value;
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

    fn add(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(more) => {
                if !matches!(self.open, Some(Open::Reasoning { .. })) {
                    self.begin_reasoning();
                }
                let Some(Open::Reasoning { id, text }) = &mut self.open else { return };
                text.push_str(&more);
                let id = id.clone();
                self.send_part("response.reasoning_text.delta", &id, "delta", more.into());
            }
            Delta::Text(more) => {
                if !matches!(self.open, Some(Open::Message { .. })) {
                    self.begin_message();
                }
                let Some(Open::Message { id, text }) = &mut self.open else { return };
                text.push_str(&more);
                let id = id.clone();
                self.send_part("response.output_text.delta", &id, "delta", more.into());
            }
            Delta::Call { name, .. } => self.begin_call(&name),
            Delta::Arguments { text, .. } => {
                let Some(Open::Call { ids, tool, arguments }) = &mut self.open else { return };
                arguments.push_str(&text);
                // the input of a custom tool is a string within the arguments, and is sent when it is complete
                if tool.form == CallForm::Function {
                    let event =
                        json!({ "item_id": ids.item, "output_index": self.done.len(), "delta": text });
                    self.send("response.function_call_arguments.delta", event);
                }
            }
        }
    }

    fn item_added(&mut self, item: Value) {
        let event = json!({ "output_index": self.done.len(), "item": item });
        self.send("response.output_item.added", event);
    }

    fn begin_reasoning(&mut self) {
        self.close("completed");
        let id = unique_id("rs_");
        let item =
            json!({ "id": id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress" });
        self.item_added(item);
        let part = json!({ "type": "reasoning_text", "text": "" });
        self.send_part("response.content_part.added", &id, "part", part);
        self.open = Some(Open::Reasoning { id, text: String::new() });
    }

    fn begin_message(&mut self) {
        self.close("completed");
        let id = unique_id("msg_");
        self.item_added(message_item(&id, "in_progress", &[]));
        self.send_part("response.content_part.added", &id, "part", text_part(""));
        self.open = Some(Open::Message { id, text: String::new() });
    }

    fn begin_call(&mut self, function: &str) {
        self.close("completed");
        let tool = self.response.tools.called(function);
        let ids = CallIds::new(tool.form);
        self.item_added(call_item(&ids, "in_progress", &tool, ""));
        self.open = Some(Open::Call { ids, tool, arguments: String::new() });
    }

    /// Sends the last events of a call before its item is done.
    fn call_done(&mut self, ids: &CallIds, tool: &ClientTool, arguments: &str) {
        let event = json!({ "item_id": ids.item, "output_index": self.done.len() });
        let with = |field: &str, value: &str| {
            let mut event = event.clone();
            event[field] = value.into();
            event
        };
        match tool.form {
            CallForm::Function => {
                let mut event = with("arguments", arguments);
                event["name"] = tool.name.as_str().into();
                self.send("response.function_call_arguments.done", event);
            }
            CallForm::Custom => {
                let input = input_of_arguments(arguments);
                self.send("response.custom_tool_call_input.delta", with("delta", &input));
                self.send("response.custom_tool_call_input.done", with("input", &input));
            }
        }
    }

    /// Ends the open item, if there is one, with this status.
    fn close(&mut self, status: &str) {
        let Some(open) = self.open.take() else { return };
        let item = match open {
            Open::Reasoning { id, text } => {
                self.send_part("response.reasoning_text.done", &id, "text", text.as_str().into());
                let part = json!({ "type": "reasoning_text", "text": text });
                self.send_part("response.content_part.done", &id, "part", part);
                reasoning_item(&id, status, &text)
            }
            Open::Message { id, text } => {
                self.send_part("response.output_text.done", &id, "text", text.as_str().into());
                let part = text_part(&text);
                self.send_part("response.content_part.done", &id, "part", part.clone());
                message_item(&id, status, &[part])
            }
            Open::Call { ids, tool, arguments } => {
                self.call_done(&ids, &tool, &arguments);
                call_item(&ids, status, &tool, &arguments)
            }
        };
        let event = json!({ "output_index": self.done.len(), "item": item });
        self.send("response.output_item.done", event);
        self.done.push(item);
    }

    /// Sends the last events and returns the response.
    fn finish(&mut self, outcome: &Outcome) -> Value {
        if self.open.is_none() && self.done.is_empty() {
            self.begin_message();
        }
        let status = status(outcome);
        self.close(status);
        let response = self.response.version(status, &self.done, Some(outcome));
        let event = json!({ "response": &response, "timings": outcome.timings().document() });
        self.send(&format!("response.{status}"), event);
        response
    }

    fn fail(&mut self, failure: &Failure) {
        let mut response = self.response.version("failed", &self.done, None);
        response["error"] = json!({ "code": "server_error", "message": failure.message });
        self.send("response.failed", json!({ "response": response }));
        if let Some(writer) = &self.writer {
            writer.data(&failure.document(Dialect::OpenAi));
        }
    }
}
