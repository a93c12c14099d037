//! The fields of a chat request, as a conversation.

use super::options;
use crate::app::App;
use crate::conversation::Conversation;
use crate::error::Failure;
use crate::fields::Fields;
use crate::messages;
use doorbell_runtime::answer::{Continuation, ToolChoice};
use serde_json::{Map, Value};

/// The conversation of a request.
pub(crate) fn conversation(app: &App, fields: &Fields<'_>) -> Result<Conversation, Failure> {
    let messages = fields.list("messages")?.ok_or_else(|| fields.wrong("messages", "is missing"))?;
    let mut options = options::options(app, fields)?;
    options.params.sampler.logprobs = options::top_logprobs(fields)?;
    if options.params.sampler.logprobs.is_none() && fields.count("top_logprobs")?.is_some_and(|top| top > 0) {
        return Err(fields.wrong("top_logprobs", "needs logprobs to be true"));
    }
    let mut tools = fields.list("tools")?.unwrap_or_default().to_vec();
    for (index, tool) in tools.iter().enumerate() {
        if tool.get("function").and_then(tool_name).is_none() {
            return Err(Failure::field(format!("tools[{index}].function.name"), "must be a string"));
        }
    }
    let tool_choice = tool_choice_of(fields, fields.get("tool_choice"), &mut tools)?;
    Ok(Conversation {
        messages: messages::normalize(messages)?,
        tools,
        tool_choice,
        one_call: fields.flag("parallel_tool_calls")? == Some(false),
        format: options::answer_format(fields)?,
        variables: variables(fields)?,
        split_reasoning: fields.text("reasoning_format")? != Some("none"),
        continuation: continuation(fields)?,
        options,
    })
}

/// The fields `add_generation_prompt` and `continue_final_message` of vLLM and transformers.
fn continuation(fields: &Fields<'_>) -> Result<Continuation, Failure> {
    let new = fields.flag("add_generation_prompt")?;
    match (new, fields.flag("continue_final_message")?) {
        (Some(true), Some(true)) => Err(fields.wrong(
            "continue_final_message",
            "can't be true beside add_generation_prompt, which begins a new message",
        )),
        (_, Some(true)) => Ok(Continuation::LastMessage),
        (Some(false), _) => Ok(Continuation::Closed),
        (_, Some(false)) => Ok(Continuation::NewMessage),
        (_, None) => Ok(Continuation::Auto),
    }
}

/// The calls that a value of the field `tool_choice` allows. Tools that it does not allow are removed.
pub(super) fn tool_choice_of(
    fields: &Fields<'_>,
    choice: Option<&Value>,
    tools: &mut Vec<Value>,
) -> Result<ToolChoice, Failure> {
    let Some(choice) = choice else { return Ok(ToolChoice::Auto) };
    let allowed = (choice["type"] == "allowed_tools").then(|| choice.get("allowed_tools").unwrap_or(choice));
    if let Some(list) = allowed.and_then(|allowed| allowed["tools"].as_array()) {
        tools.retain(|tool| list.iter().any(|allowed| tool_name(allowed) == tool_name(tool)));
    }
    match allowed.map_or(choice, |allowed| &allowed["mode"]) {
        Value::String(word) => match word.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Required),
            _ => Err(fields.wrong("tool_choice", "must be none, auto, required or a function")),
        },
        value => {
            let name = tool_name(value);
            let name = name.ok_or_else(|| fields.wrong("tool_choice.function.name", "must be a string"))?;
            Ok(ToolChoice::Named(name.to_owned()))
        }
    }
}

/// The name of a tool, in the form of either API.
fn tool_name(tool: &Value) -> Option<&str> {
    tool.get("function").unwrap_or(tool).get("name")?.as_str()
}

/// The template variables that a request sets.
fn variables(fields: &Fields<'_>) -> Result<Map<String, Value>, Failure> {
    let mut variables = Map::new();
    if let Some(effort) = fields.text("reasoning_effort")? {
        if effort == "none" {
            variables.insert("enable_thinking".into(), false.into());
        } else {
            variables.insert("reasoning_effort".into(), effort.into());
        }
    }
    if let Some(more) = fields.object("chat_template_kwargs")? {
        variables.extend(more.clone());
    }
    Ok(variables)
}
