//! A conversation, whatever protocol it came in: rendered, tokenized, and with what the answer must look like.

use crate::app::{App, HEAP};
use crate::error::{Failure, Kind};
use crate::generation::{GenerationOptions, GenerationRequest};
use alloc::sync::Arc;
use doorbell_core::heap;
use doorbell_core::token::{Scratch, TokenId};
use doorbell_runtime::answer::{
    AnswerParser, Begin, CallStyle, Continuation, ModelMarkup, OutputGrammar, Style, ToolChoice, Tools,
    append_continued, normalize_tool_call_ids,
};
use doorbell_runtime::constrain::{GrammarSpec, ReasoningBudget, ReasoningMarks};
use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment};
use serde_json::{Map, Value};

/// A conversation at whose end the model shall speak.
pub(crate) struct Conversation {
    /// In `OpenAI`'s form.
    pub(crate) messages: Vec<Value>,
    /// In `OpenAI`'s form.
    pub(crate) tools: Vec<Value>,
    pub(crate) choice: ToolChoice,
    pub(crate) one_call: bool,
    pub(crate) shape: Option<GrammarSpec>,
    /// Variables of the template, such as `enable_thinking`.
    pub(crate) variables: Map<String, Value>,
    /// Whether reasoning is told apart from the answer.
    pub(crate) split_reasoning: bool,
    /// How the prompt ends.
    pub(crate) continuation: Continuation,
    pub(crate) options: GenerationOptions,
}

/// A rendered conversation.
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
    /// Where the model goes on.
    pub(crate) begin: Begin,
}

/// The prompt of a conversation. Work of milliseconds, not for the threads that serve sockets.
fn render(app: &App, conversation: &Conversation) -> Result<Rendered, Failure> {
    let Some(template) = &app.model.template else {
        return Err(Failure::new(
            Kind::NotSupported,
            "the model file has no chat template; use /v1/completions",
        ));
    };
    let offered = conversation.choice != ToolChoice::None && !conversation.tools.is_empty();
    let split = conversation.continuation.split(&conversation.messages);
    let split = split.map_err(|error| Failure::field("messages", error))?;
    let mut messages = split.rendered.to_vec();
    normalize_tool_call_ids(app.style, &mut messages);
    let input = ChatInput {
        tools: offered.then_some(conversation.tools.as_slice()),
        add_generation_prompt: conversation.continuation != Continuation::Closed,
        merge: app.model.merge_messages,
        ..ChatInput::new(&messages, &conversation.variables, Moment::now())
    };
    let mut prompt = template.prompt(&input)?;
    let reason = conversation.variables.get("enable_thinking") != Some(&Value::Bool(false));
    let begin = append_continued(&mut prompt, split.continued, app.style, reason);
    let mut tokens = heap::Vec::new_in(HEAP);
    app.model
        .tokenizer
        .encode_chat(prompt.text.as_bytes(), &prompt.content, &mut Scratch::new(HEAP), &mut tokens)
        .map_err(|error| Failure::new(Kind::Invalid, error))?;
    Ok(Rendered { text: prompt.text, tokens: tokens.to_vec(), begin })
}

/// Renders on a thread that may take its time.
pub(crate) async fn rendered(
    app: &Arc<App>,
    conversation: Conversation,
) -> Result<(Conversation, Rendered), Failure> {
    let app = Arc::clone(app);
    let rendering = tokio::task::spawn_blocking(move || {
        let rendered = render(&app, &conversation)?;
        Ok((conversation, rendered))
    });
    rendering.await.map_err(|error| Failure::new(Kind::Internal, error))?
}

/// What the engine is asked for.
pub(crate) async fn order(app: &Arc<App>, conversation: Conversation) -> Result<GenerationRequest, Failure> {
    let (conversation, rendered) = rendered(app, conversation).await?;
    let mut style = app.style;
    let offered = conversation.choice != ToolChoice::None;
    let tools = if offered { Tools::new(&conversation.tools) } else { Tools::default() };
    if style.calls == CallStyle::None && !tools.is_empty() {
        // a template that knows no tools got a description of them in a message, at best; most models then
        // write the commonest form
        style.calls = CallStyle::Hermes;
    }
    let mut begin = rendered.begin;
    let template = app.model.template.as_ref().map_or("", ChatTemplate::source);
    let grammar = OutputGrammar {
        markup: ModelMarkup { tokenizer: app.model.tokenizer, template, style },
        begin,
        tools: &tools,
        choice: &conversation.choice,
        one_call: conversation.one_call,
        format: conversation.shape.as_ref(),
    };
    let shape = grammar.spec().map_err(|error| Failure::field("tool_choice", error))?;
    let within = begin == Begin::Reasoning;
    let budget = budget(app, style, within, conversation.options.reasoning_budget);
    let special = style.needs_control_tokens();
    if !conversation.split_reasoning && style.thinking.take().is_some() && within {
        begin = Begin::Text;
    }
    Ok(GenerationRequest {
        prompt: rendered.tokens,
        text: rendered.text,
        options: conversation.options,
        parser: Some(AnswerParser::new(style, tools, begin)),
        special,
        shape,
        budget,
        one_call: conversation.one_call,
    })
}

/// The limit of reasoning, where a model marks it by tokens.
fn budget(app: &App, style: Style, within: bool, tokens: Option<u32>) -> Option<ReasoningBudget> {
    Some(ReasoningBudget::new(tokens?, ReasoningMarks::of(style, app.model.tokenizer)?, within))
}

/// Messages as templates want them: `developer` is `system`, lists of texts are one text, absent content is empty.
pub(crate) fn messages(list: &[Value]) -> Result<Vec<Value>, Failure> {
    if list.is_empty() {
        return Err(Failure::field("messages", "must not be empty"));
    }
    list.iter().enumerate().map(|(index, value)| message(index, value)).collect()
}

fn message(index: usize, value: &Value) -> Result<Value, Failure> {
    let path = |field: &str| format!("messages[{index}]{field}");
    let mut message = value.as_object().ok_or_else(|| Failure::field(path(""), "must be an object"))?.clone();
    let role = message.get("role").and_then(Value::as_str);
    let role = role.ok_or_else(|| Failure::field(path(".role"), "must be a string"))?.to_owned();
    if role == "developer" {
        message.insert("role".into(), "system".into());
    }
    let content = match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Result<Vec<&str>, Failure> = parts
                .iter()
                .enumerate()
                .map(|(at, part)| text_part(part, &path(&format!(".content[{at}]"))))
                .collect();
            texts?.join("\n")
        }
        Some(_) => {
            return Err(Failure::field(path(".content"), "must be a string, a list of parts, or null"));
        }
    };
    message.insert("content".into(), content.into());
    // templates ask whether these are there, not what they are
    for field in ["tool_calls", "tool_call_id", "name", "reasoning_content"] {
        if message.get(field).is_some_and(Value::is_null) {
            message.remove(field);
        }
    }
    if let Some(calls) = message.get("tool_calls") {
        let calls = calls.as_array().ok_or_else(|| Failure::field(path(".tool_calls"), "must be a list"))?;
        for (at, call) in calls.iter().enumerate() {
            let name = call.get("function").and_then(|function| function.get("name")?.as_str());
            if name.is_none() {
                return Err(Failure::field(
                    path(&format!(".tool_calls[{at}].function.name")),
                    "must be a string",
                ));
            }
        }
        if calls.is_empty() {
            message.remove("tool_calls");
        }
    }
    Ok(Value::Object(message))
}

fn text_part<'v>(part: &'v Value, path: &str) -> Result<&'v str, Failure> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    if !matches!(kind, "text" | "input_text" | "output_text" | "refusal") {
        return Err(Failure::field(
            path,
            format_args!("parts of type {kind:?} are not supported by this model"),
        ));
    }
    let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
    text.ok_or_else(|| Failure::field(format!("{path}.text"), "must be a string"))
}
