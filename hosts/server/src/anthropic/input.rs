//! The fields of a request, as a conversation in `OpenAI`'s form.

use crate::app::App;
use crate::conversation::Conversation;
use crate::error::{Failure, quoted};
use crate::fields::Fields;
use crate::generation::stops;
use crate::messages;
use crate::openai::options;
use doorbell_runtime::answer::{Continuation, ToolChoice};
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::{Map, Value, json};

pub(super) fn conversation(app: &App, fields: &Fields<'_>) -> Result<Conversation, Failure> {
    let mut list = Vec::new();
    if let Some(system) = fields.get("system") {
        let text =
            text_of(system).ok_or_else(|| fields.wrong("system", "must be a string or text blocks"))?;
        list.push(json!({ "role": "system", "content": text }));
    }
    let messages = fields.list("messages")?.ok_or_else(|| fields.wrong("messages", "is missing"))?;
    for (index, message) in messages.iter().enumerate() {
        add(&format!("messages[{index}]"), message, &mut list)?;
    }
    let mut options = options::options(app, fields)?;
    options.stops = stops(fields, "stop_sequences")?;
    options.answers = 1;
    let mut variables = Map::new();
    if let Some(thinking) = fields.get("thinking") {
        let thinking = Fields::of(thinking, "thinking")?;
        let kind = thinking.text("type")?;
        options.reasoning_budget = thinking.count("budget_tokens")?;
        variables.insert("enable_thinking".into(), (kind != Some("disabled")).into());
    }
    let (tool_choice, one_call) = tool_choice(fields)?;
    let config = fields.get("output_config").map(|config| Fields::of(config, "output_config")).transpose()?;
    if let Some(effort) = config.map(|config| config.text("effort")).transpose()?.flatten() {
        variables.insert("reasoning_effort".into(), effort.into());
    }
    // the second one is its older name
    let format = config.and_then(|config| config.get("format")).or_else(|| fields.get("output_format"));
    Ok(Conversation {
        messages: messages::normalize(&list)?,
        tools: tools(fields)?,
        tool_choice,
        one_call,
        format: format.map(answer_format).transpose()?,
        variables,
        split_reasoning: true,
        continuation: Continuation::Auto,
        options,
    })
}

/// The format of the text, in the field `output_config.format`.
fn answer_format(format: &Value) -> Result<GrammarSpec, Failure> {
    let format = Fields::of(format, "output_config.format")?;
    if format.text("type")? != Some("json_schema") {
        return Err(format.wrong("type", "must be json_schema"));
    }
    let schema = format.get("schema").ok_or_else(|| format.wrong("schema", "is missing"))?;
    Ok(GrammarSpec::JsonSchema(schema.clone()))
}

/// The text of a string or of text blocks.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|block| block.get("text")?.as_str()).collect();
            Some(texts?.join("\n"))
        }
        Value::Null => Some(String::new()),
        _ => None,
    }
}

/// Appends a message. Results of tools become messages of their own, before the text of the same message.
fn add(path: &str, message: &Value, list: &mut Vec<Value>) -> Result<(), Failure> {
    let message = Fields::of(message, path)?;
    let role = message.text("role")?.ok_or_else(|| message.wrong("role", "is missing"))?;
    let content = message.get("content").cloned().unwrap_or_default();
    let Value::Array(blocks) = &content else {
        let text = text_of(&content).ok_or_else(|| message.wrong("content", "must be a string or blocks"))?;
        list.push(json!({ "role": role, "content": text }));
        return Ok(());
    };
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for (at, block) in blocks.iter().enumerate() {
        let path = format!("{path}.content[{at}]");
        let block = Fields::of(block, &path)?;
        match block.text("type")?.unwrap_or("text") {
            "text" => texts.push(block.text("text")?.unwrap_or_default().to_owned()),
            "thinking" => thoughts.push(block.text("thinking")?.unwrap_or_default().to_owned()),
            "redacted_thinking" => {}
            "tool_use" => {
                let name = block.text("name")?.ok_or_else(|| block.wrong("name", "is missing"))?;
                let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
                let function = json!({ "name": name, "arguments": input.to_string() });
                let id = block.text("id")?.unwrap_or_default();
                calls.push(json!({ "id": id, "type": "function", "function": function }));
            }
            "tool_result" => {
                let content = block.get("content").cloned().unwrap_or_default();
                let text = text_of(&content)
                    .ok_or_else(|| block.wrong("content", "must be a string or text blocks"))?;
                let id = block.text("tool_use_id")?.unwrap_or_default();
                list.push(json!({ "role": "tool", "tool_call_id": id, "content": text }));
            }
            other => {
                return Err(block.wrong(
                    "type",
                    format_args!("{} blocks are not supported by this model", quoted(other)),
                ));
            }
        }
    }
    if texts.is_empty() && calls.is_empty() && thoughts.is_empty() {
        return Ok(());
    }
    let mut own = json!({ "role": role, "content": texts.join("\n") });
    if !thoughts.is_empty() {
        own["reasoning_content"] = thoughts.join("\n").into();
    }
    if !calls.is_empty() {
        own["tool_calls"] = calls.into();
    }
    list.push(own);
    Ok(())
}

/// The tools in `OpenAI`'s form.
fn tools(fields: &Fields<'_>) -> Result<Vec<Value>, Failure> {
    let mut tools = Vec::new();
    for (index, tool) in fields.list("tools")?.unwrap_or_default().iter().enumerate() {
        let path = format!("tools[{index}]");
        let tool = Fields::of(tool, &path)?;
        let Some(schema) = tool.object("input_schema")? else {
            // tools that run on Anthropic's servers
            if tool.text("type")?.is_some_and(|kind| kind != "custom") {
                continue;
            }
            return Err(tool.wrong("input_schema", "is missing"));
        };
        let name = tool.text("name")?.ok_or_else(|| tool.wrong("name", "is missing"))?;
        let mut function = json!({ "name": name, "parameters": schema });
        if let Some(description) = tool.text("description")? {
            function["description"] = description.into();
        }
        if tool.flag("strict")? == Some(true) {
            function["strict"] = true.into();
        }
        tools.push(json!({ "type": "function", "function": function }));
    }
    Ok(tools)
}

/// The field `tool_choice`: the calls of the answer, and true if there may be only one.
fn tool_choice(fields: &Fields<'_>) -> Result<(ToolChoice, bool), Failure> {
    let Some(choice) = fields.get("tool_choice") else { return Ok((ToolChoice::Auto, false)) };
    let choice = Fields::of(choice, "tool_choice")?;
    let one = choice.flag("disable_parallel_tool_use")?.unwrap_or(false);
    let kind = match choice.text("type")?.unwrap_or("auto") {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => {
            let name = choice.text("name")?.ok_or_else(|| choice.wrong("name", "is missing"))?;
            ToolChoice::Named(name.to_owned())
        }
        _ => return Err(choice.wrong("type", "must be auto, any, tool or none")),
    };
    Ok((kind, one))
}
