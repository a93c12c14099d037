//! The fields of Ollama's requests: options, format, messages.

use crate::app::App;
use crate::conversation::Conversation;
use crate::error::Failure;
use crate::fields::{self, Fields};
use crate::generation::GenerationOptions;
use crate::messages;
use crate::openai::options;
use core::sync::atomic::{AtomicU32, Ordering};
use doorbell_core::token::TokenId;
use doorbell_runtime::answer::{Continuation, ToolChoice};
use doorbell_runtime::constrain::GrammarSpec;
use serde_json::{Map, Value, json};

/// The generation options, which Ollama has in an object of their own.
pub(super) fn options(app: &App, fields: &Fields<'_>) -> Result<GenerationOptions, Failure> {
    let empty = Value::Object(Map::new());
    let inner = Fields::of(fields.get("options").unwrap_or(&empty), "options")?;
    let mut options = options::options(app, &inner)?;
    options.answers = 1;
    warn_of_context(inner.count("num_ctx")?.unwrap_or(0), app.model.context);
    // -1 means no limit, -2 means to fill the context
    if inner.integer("num_predict")?.is_some_and(|count| count >= 0)
        && let Some(limit) = inner.count("num_predict")?
    {
        options.params.max_tokens = limit;
    }
    options.params.sampler.logprobs = options::top_logprobs(fields)?;
    Ok(options)
}

/// Logs that a context is longer than the server's, once for each length that is longer than all before.
fn warn_of_context(wanted: u32, context: u32) {
    static LONGEST: AtomicU32 = AtomicU32::new(0);
    if wanted > context && LONGEST.fetch_max(wanted, Ordering::Relaxed) < wanted {
        tracing::warn!(
            num_ctx = wanted,
            context,
            "the context stays as it is; start the server with a longer --ctx"
        );
    }
}

/// The tokens of earlier prompts and answers, as the last answer returned them.
pub(super) fn context(app: &App, fields: &Fields<'_>) -> Result<Vec<TokenId>, Failure> {
    let token = |id: &Value| {
        fields::count(id).filter(|&id| (id as usize) < app.model.tokenizer.vocab_len()).map(TokenId)
    };
    let tokens = fields.list("context")?.unwrap_or_default().iter().map(token).collect::<Option<Vec<_>>>();
    tokens.ok_or_else(|| fields.wrong("context", "must be token ids of this model"))
}

/// The format of the answer.
pub(super) fn answer_format(fields: &Fields<'_>) -> Result<Option<GrammarSpec>, Failure> {
    match fields.get("format") {
        None => Ok(None),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(GrammarSpec::JsonObject)),
        Some(schema @ Value::Object(_)) => Ok(Some(GrammarSpec::JsonSchema(schema.clone()))),
        Some(_) => Err(fields.wrong("format", "must be \"json\" or a JSON schema")),
    }
}

/// The template variables that `think` sets.
pub(super) fn variables(fields: &Fields<'_>) -> Result<Map<String, Value>, Failure> {
    let mut variables = Map::new();
    match fields.get("think") {
        Some(Value::Bool(think)) => _ = variables.insert("enable_thinking".into(), (*think).into()),
        Some(Value::String(effort)) => {
            variables.insert("enable_thinking".into(), true.into());
            variables.insert("reasoning_effort".into(), effort.as_str().into());
        }
        None => {}
        Some(_) => return Err(fields.wrong("think", "must be true, false or a level")),
    }
    Ok(variables)
}

pub(super) fn conversation(
    app: &App,
    fields: &Fields<'_>,
    messages: &[Value],
) -> Result<Conversation, Failure> {
    let list = messages.iter().enumerate().map(|(index, message)| translate(index, message));
    let list = list.collect::<Result<Vec<Value>, Failure>>()?;
    Ok(Conversation {
        messages: messages::normalize(&list)?,
        tools: fields.list("tools")?.unwrap_or_default().to_vec(),
        tool_choice: ToolChoice::Auto,
        one_call: false,
        format: answer_format(fields)?,
        variables: variables(fields)?,
        split_reasoning: fields.get("think") != Some(&Value::Bool(false)),
        continuation: Continuation::Auto,
        options: options(app, fields)?,
    })
}

/// A message in `OpenAI`'s form, in which arguments of calls are JSON text.
fn translate(index: usize, message: &Value) -> Result<Value, Failure> {
    let path = format!("messages[{index}]");
    let fields = Fields::of(message, &path)?;
    if fields.list("images")?.is_some_and(|images| !images.is_empty()) {
        return Err(fields.wrong("images", "images are not supported by this model"));
    }
    let mut translated = json!({ "role": fields.get("role"), "content": fields.get("content") });
    if let Some(thinking) = fields.text("thinking")? {
        translated["reasoning_content"] = thinking.into();
    }
    if let Some(name) = fields.text("tool_name")? {
        translated["name"] = name.into();
    }
    if let Some(calls) = fields.list("tool_calls")? {
        let call = |call: &Value| {
            let function = call.get("function").cloned().unwrap_or_default();
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => "{}".to_owned(),
            };
            json!({ "type": "function", "function": { "name": function.get("name"), "arguments": arguments } })
        };
        translated["tool_calls"] = calls.iter().map(call).collect();
    }
    Ok(translated)
}
