//! What a request of the Responses API asks for, as a conversation.

use super::{chat as openai_chat, options};
use crate::app::App;
use crate::conversation::{self, Conversation};
use crate::error::Failure;
use crate::fields::Fields;
use doorbell_runtime::answer::Continuation;
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::{Map, Value, json};

/// Fields that name what a server with a memory would have.
const KEPT: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

pub(super) fn conversation(app: &App, fields: &Fields<'_>) -> Result<Conversation, Failure> {
    if let Some(kept) = KEPT.into_iter().find(|kept| fields.get(kept).is_some()) {
        return Err(fields.wrong(kept, "nothing is kept here; send the whole conversation"));
    }
    let mut list = Vec::new();
    if let Some(instructions) = fields.text("instructions")? {
        list.push(json!({ "role": "system", "content": instructions }));
    }
    input(fields, &mut list)?;
    if list.iter().all(|message| message["role"] == "system") {
        // probes send nothing to see whether anybody is there
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
    let mut tools = tools(fields)?;
    let choice = openai_chat::tool_choice(fields, &mut tools)?;
    Ok(Conversation {
        messages: conversation::messages(&list)?,
        tools,
        choice,
        one_call: fields.flag("parallel_tool_calls")? == Some(false),
        shape: shape(fields)?,
        variables,
        split_reasoning: true,
        continuation: Continuation::Auto,
        options,
    })
}

/// The items of the input, appended as messages.
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
    let mut reasoning = None;
    for (index, item) in items.iter().enumerate() {
        let path = format!("input[{index}]");
        let item = Fields::of(item, &path)?;
        match item.text("type")?.unwrap_or("message") {
            "message" => {
                let role = item.text("role")?.ok_or_else(|| item.wrong("role", "is missing"))?;
                let content = item.get("content").cloned().unwrap_or_default();
                let mut message = json!({ "role": role, "content": content });
                // what was cut before it came to an answer belongs to none
                if let Some(text) = reasoning.take()
                    && role == "assistant"
                {
                    message["reasoning_content"] = text;
                }
                list.push(message);
            }
            "function_call" => {
                let name = item.text("name")?.ok_or_else(|| item.wrong("name", "is missing"))?;
                let arguments = item.text("arguments")?.unwrap_or("{}");
                let id = item.text("call_id")?.unwrap_or_default();
                let function = json!({ "name": name, "arguments": arguments });
                add_call(
                    list,
                    json!({ "id": id, "type": "function", "function": function }),
                    reasoning.take(),
                );
            }
            "function_call_output" => list.push(result(&item)?),
            "reasoning" => {
                let parts = item.list("content")?.filter(|parts| !parts.is_empty());
                let parts = parts.or(item.list("summary")?).unwrap_or_default();
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                reasoning = (!texts.is_empty()).then(|| Value::from(texts.join("\n")));
            }
            "item_reference" => {
                return Err(Failure::field(path, "items are not kept here; send the item itself"));
            }
            // what other servers' tools left behind says nothing here
            _ => {}
        }
    }
    Ok(())
}

/// What a function gave, as a message.
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

/// Calls in a row are one message.
fn add_call(list: &mut Vec<Value>, call: Value, reasoning: Option<Value>) {
    if let Some(last) = list.last_mut()
        && last["role"] == "assistant"
    {
        if let Some(calls) = last.get_mut("tool_calls").and_then(Value::as_array_mut) {
            calls.push(call);
        } else {
            last["tool_calls"] = json!([call]);
        }
        return;
    }
    let mut message = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    if let Some(reasoning) = reasoning {
        message["reasoning_content"] = reasoning;
    }
    list.push(message);
}

/// The functions among the tools; clients also send tools that only their own servers have.
fn tools(fields: &Fields<'_>) -> Result<Vec<Value>, Failure> {
    let tools = fields.list("tools")?.unwrap_or_default();
    let function = |tool: &Value| {
        (tool.get("type")?.as_str()? == "function" && tool.get("name")?.is_string()).then(|| {
            let mut function = json!({
                "name": tool["name"],
                "description": tool.get("description").cloned().unwrap_or_default(),
                "parameters": tool.get("parameters").cloned().unwrap_or_else(|| json!({ "type": "object" })),
            });
            if tool.get("strict") == Some(&Value::Bool(true)) {
                function["strict"] = true.into();
            }
            json!({ "type": "function", "function": function })
        })
    };
    Ok(tools.iter().filter_map(function).collect())
}

fn shape(fields: &Fields<'_>) -> Result<Option<GrammarSpec>, Failure> {
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
        other => Err(format.wrong("type", format_args!("{other:?} is not known"))),
    }
}
