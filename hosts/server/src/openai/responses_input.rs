//! The fields of a request of the Responses API, as a conversation.

use super::options;
use super::response_tools::{ResponseTools, arguments_of_input, offered_name};
use crate::app::App;
use crate::conversation::Conversation;
use crate::error::{Failure, quoted};
use crate::fields::Fields;
use crate::messages;
use doorbell_runtime::answer::Continuation;
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::{Map, Value, json};

/// Fields that refer to stored responses.
const STORED: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

/// Items of tools that another server ran, and whose result is in the answer after them.
const HOSTED_ITEMS: [&str; 7] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "tool_search_call",
];

pub(super) fn conversation(app: &App, fields: &Fields<'_>) -> Result<Conversation, Failure> {
    if let Some(stored) = STORED.into_iter().find(|stored| fields.get(stored).is_some()) {
        return Err(fields.wrong(stored, "nothing is kept here; send the whole conversation"));
    }
    let mut list = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        list.push(json!({ "role": "system", "content": instructions }));
    }
    input(fields, &mut list)?;
    if list.iter().all(|message| message["role"] == "system") {
        // some clients probe the endpoint with an empty input
        list.push(json!({ "role": "user", "content": "" }));
    }
    let mut options = options::options(app, fields)?;
    options.answers = 1;
    let mut variables = Map::new();
    if let Some(reasoning) = fields.get("reasoning") {
        match Fields::of(reasoning, "reasoning")?.text("effort")? {
            None => {}
            Some("none") => _ = variables.insert("enable_thinking".into(), false.into()),
            Some(effort) => _ = variables.insert("reasoning_effort".into(), effort.into()),
        }
    }
    if let Some(more) = fields.object("chat_template_kwargs")? {
        variables.extend(more.clone());
    }
    let (tools, tool_choice) = ResponseTools::of(fields)?.chosen(fields)?;
    Ok(Conversation {
        messages: messages::normalize(&list)?,
        tools,
        tool_choice,
        one_call: fields.flag("parallel_tool_calls")? == Some(false),
        format: answer_format(fields)?,
        variables,
        split_reasoning: true,
        continuation: Continuation::Auto,
        options,
    })
}

/// Appends the items of the input as messages.
fn input(fields: &Fields<'_>, list: &mut Vec<Value>) -> Result<(), Failure> {
    let items = match fields.get("input") {
        None => return Ok(()),
        Some(Value::String(text)) => {
            list.push(json!({ "role": "user", "content": text }));
            return Ok(());
        }
        Some(Value::Array(items)) => items,
        Some(_) => return Err(fields.wrong("input", "must be a string or a list of items")),
    };
    let mut reasoning: Option<String> = None;
    for (index, item) in items.iter().enumerate() {
        let path = format!("input[{index}]");
        let item = Fields::of(item, &path)?;
        match item.text("type")?.unwrap_or("message") {
            "message" => {
                let role = item.text("role")?.ok_or_else(|| item.wrong("role", "is missing"))?;
                let content = item.get("content").cloned().unwrap_or_default();
                let mut message = json!({ "role": role, "content": content });
                // reasoning before a message of another role was cut and belongs to no answer
                if let Some(text) = reasoning.take()
                    && role == "assistant"
                {
                    message["reasoning_content"] = text.into();
                }
                list.push(message);
            }
            "function_call" | "custom_tool_call" => add_call(list, call(&item)?, reasoning.take()),
            "function_call_output" | "custom_tool_call_output" => list.push(result(&item)?),
            "reasoning" => {
                let parts = item.list("content")?.filter(|parts| !parts.is_empty());
                let parts = parts.or(item.list("summary")?).unwrap_or_default();
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                if !texts.is_empty() {
                    reasoning = Some(joined(reasoning, &texts.join("\n")));
                }
            }
            "item_reference" => {
                return Err(Failure::field(path, "items are not kept here; send the item itself"));
            }
            hosted if HOSTED_ITEMS.contains(&hosted) => {
                tracing::debug!(
                    item = hosted,
                    "not shown to the model: it is of a tool that another server ran"
                );
            }
            other => return Err(item.wrong("type", format_args!("{other:?} items are not supported here"))),
        }
    }
    Ok(())
}

/// The result of a function, as a message.
fn result(item: &Fields<'_>) -> Result<Value, Failure> {
    let output = match item.get("output") {
        Some(Value::String(text)) => text.as_str().into(),
        Some(other @ Value::Array(_)) => other.clone(),
        Some(other) => Value::from(other.to_string()),
        None => Value::from(""),
    };
    let id = item.text("call_id")?.unwrap_or_default();
    Ok(json!({ "role": "tool", "tool_call_id": id, "content": output }))
}

/// A call in the form of chat requests.
fn call(item: &Fields<'_>) -> Result<Value, Failure> {
    let name = item.text("name")?.ok_or_else(|| item.wrong("name", "is missing"))?;
    let name = offered_name(item.text("namespace")?, name);
    let arguments = if item.text("type")? == Some("custom_tool_call") {
        arguments_of_input(item.text("input")?.unwrap_or_default())
    } else {
        item.text("arguments")?.unwrap_or("{}").to_owned()
    };
    let id = item.text("call_id")?.unwrap_or_default();
    Ok(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
}

/// Earlier reasoning, if there is some, and more.
fn joined(earlier: Option<String>, more: &str) -> String {
    match earlier {
        Some(earlier) => format!("{earlier}\n{more}"),
        None => more.to_owned(),
    }
}

/// Appends a call. Calls in a row become one message, whose reasoning is that of all.
fn add_call(list: &mut Vec<Value>, call: Value, reasoning: Option<String>) {
    if list.last().is_none_or(|last| last["role"] != "assistant") {
        list.push(json!({ "role": "assistant", "content": "" }));
    }
    let Some(message) = list.last_mut() else { return };
    if let Some(more) = reasoning {
        let earlier = message.get("reasoning_content").and_then(Value::as_str).map(ToOwned::to_owned);
        message["reasoning_content"] = joined(earlier, &more).into();
    }
    match message.get_mut("tool_calls").and_then(Value::as_array_mut) {
        Some(calls) => calls.push(call),
        None => message["tool_calls"] = json!([call]),
    }
}

/// The format of the text, in the field `text.format`.
fn answer_format(fields: &Fields<'_>) -> Result<Option<GrammarSpec>, Failure> {
    let Some(text) = fields.get("text") else { return Ok(None) };
    let Some(format) = Fields::of(text, "text")?.get("format") else { return Ok(None) };
    let format = Fields::of(format, "text.format")?;
    match format.text("type")?.unwrap_or("text") {
        "text" => Ok(None),
        "json_object" => Ok(Some(GrammarSpec::JsonObject)),
        "json_schema" => {
            let schema = format.get("schema").ok_or_else(|| format.wrong("schema", "is missing"))?;
            Ok(Some(GrammarSpec::JsonSchema(schema.clone())))
        }
        other => Err(format.wrong("type", format_args!("{} is not known", quoted(other)))),
    }
}
