//! The fields of a request of the Responses API, as a conversation.

use super::{chat_input, options};
use crate::app::App;
use crate::conversation::Conversation;
use crate::error::Failure;
use crate::fields::Fields;
use crate::messages;
use doorbell_runtime::answer::Continuation;
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::{Map, Value, json};

/// Fields that refer to stored responses.
const STORED: [&str; 3] = ["previous_response_id", "conversation", "prompt"];

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
    let mut tools = tools(fields)?;
    let tool_choice = chat_input::tool_choice(fields, &mut tools)?;
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
    let mut reasoning = None;
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
            // items of tools that only other servers have
            _ => {}
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

/// Appends a call. Calls in a row become one message.
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

/// The functions among the tools. Other tools, which only other servers have, are ignored.
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
        other => Err(format.wrong("type", format_args!("{other:?} is not known"))),
    }
}
