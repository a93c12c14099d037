//! A conversation, whatever protocol it came in: rendered, tokenized, and with what the answer must look like.

use crate::app::{App, HEAP};
use crate::error::{Failure, Kind};
use crate::generate::{Options, Order};
use alloc::sync::Arc;
use core::fmt::Write as _;
use doorbell_core::heap;
use doorbell_core::token::{Scratch, TokenId};
use doorbell_runtime::answer::{AnswerParser, CallStyle, Style, Tools};
use doorbell_runtime::constrain::{Shape, spaced};
use doorbell_runtime::template::{ChatInput, Moment};
use serde_json::{Map, Value, json};

/// Whether the answer calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    None,
    #[default]
    Auto,
    Required,
    Named(String),
}

/// A conversation at whose end the model shall speak.
pub(crate) struct Conversation {
    /// In `OpenAI`'s form.
    pub(crate) messages: Vec<Value>,
    /// In `OpenAI`'s form.
    pub(crate) tools: Vec<Value>,
    pub(crate) choice: ToolChoice,
    pub(crate) one_call: bool,
    pub(crate) shape: Option<Shape>,
    /// Variables of the template, such as `enable_thinking`.
    pub(crate) variables: Map<String, Value>,
    /// Whether reasoning is told apart from the answer.
    pub(crate) split_reasoning: bool,
    pub(crate) options: Options,
}

/// A rendered conversation.
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenId>,
}

/// The prompt of a conversation. Work of milliseconds, not for the threads that serve sockets.
fn render(app: &App, conversation: &Conversation) -> Result<Rendered, Failure> {
    let Some((template, _)) = &app.served.template else {
        return Err(Failure::new(
            Kind::NotSupported,
            "the model file has no chat template; use /v1/completions",
        ));
    };
    let offered = conversation.choice != ToolChoice::None && !conversation.tools.is_empty();
    let input = ChatInput {
        tools: offered.then_some(conversation.tools.as_slice()),
        ..ChatInput::new(&conversation.messages, &conversation.variables, Moment::now())
    };
    let prompt = template.prompt(&input)?;
    let mut tokens = heap::Vec::new_in(HEAP);
    app.served
        .tokenizer
        .encode_chat(prompt.text.as_bytes(), &prompt.content, &mut Scratch::new(HEAP), &mut tokens)
        .map_err(|error| Failure::new(Kind::Invalid, error))?;
    Ok(Rendered { text: prompt.text, tokens: tokens.to_vec() })
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
pub(crate) async fn order(app: &Arc<App>, conversation: Conversation) -> Result<Order, Failure> {
    let (conversation, rendered) = rendered(app, conversation).await?;
    let mut style = app.style;
    let offered = conversation.choice != ToolChoice::None;
    let tools = if offered { Tools::new(&conversation.tools) } else { Tools::default() };
    if style.calls == CallStyle::None && !tools.is_empty() {
        // a template that knows no tools got a description of them in a message, at best; most models then
        // write the commonest form
        style.calls = CallStyle::Hermes;
    }
    let begins_thinking = style.begins_thinking(&rendered.text);
    let shape = shape(&conversation, &tools, style, begins_thinking)?;
    let thinking = begins_thinking && conversation.split_reasoning;
    let special = style.needs_control_tokens();
    if !conversation.split_reasoning {
        style.thinking = None;
    }
    Ok(Order {
        prompt: rendered.tokens,
        options: conversation.options,
        parser: Some(AnswerParser::new(style, tools, thinking)),
        special,
        shape,
        one_call: conversation.one_call,
    })
}

/// What the answer must look like, with room for reasoning in front.
fn shape(
    conversation: &Conversation,
    tools: &Tools,
    style: Style,
    begins_thinking: bool,
) -> Result<Option<Shape>, Failure> {
    let forced = match &conversation.choice {
        ToolChoice::Required => Some(None),
        ToolChoice::Named(name) => Some(Some(name.as_str())),
        ToolChoice::None | ToolChoice::Auto => None,
    };
    if let Some(name) = forced {
        let body = forced_call(tools, name, style.calls, conversation.one_call)?;
        return Ok(Some(Shape::Lark(grammar(style, begins_thinking, &body))));
    }
    let Some(shape) = &conversation.shape else { return Ok(None) };
    if style.thinking.is_none() && style.calls != CallStyle::Harmony {
        return Ok(Some(shape.clone()));
    }
    if style.calls == CallStyle::Harmony {
        let message = "structured output is not available with this model's channels; ask for JSON in words";
        return Err(Failure::new(Kind::NotSupported, message));
    }
    let body = match shape {
        Shape::JsonObject => format!("body: %json {}\n", spaced(&json!({ "type": "object" }))),
        Shape::JsonSchema(schema) => format!("body: %json {}\n", spaced(schema)),
        // whoever writes a grammar says where the reasoning goes
        other => return Ok(Some(other.clone())),
    };
    Ok(Some(Shape::Lark(grammar(style, begins_thinking, &body))))
}

/// A Lark grammar of `body`, behind reasoning where there may be some.
fn grammar(style: Style, begins_thinking: bool, body: &str) -> String {
    let Some(marks) = style.thinking else { return format!("start: body\n{body}") };
    let close = marks.close.replace('/', "\\/").replace('[', "\\[").replace(']', "\\]");
    let mut text = String::from("start: ");
    if begins_thinking {
        text.push_str("thoughts blank body\n");
    } else {
        _ = writeln!(text, "(\"{}\" thoughts blank)? body", marks.open);
    }
    _ = write!(text, "thoughts[lazy]: /(.|\\n)*{close}/\nblank: /[ \\n]*/\n{body}");
    text
}

/// The grammar of calls, where calls must come.
fn forced_call(
    tools: &Tools,
    name: Option<&str>,
    style: CallStyle,
    one_call: bool,
) -> Result<String, Failure> {
    let wanted: Vec<_> = tools.iter().filter(|(tool, _)| name.is_none_or(|name| name == *tool)).collect();
    if wanted.is_empty() {
        return Err(Failure::field("tool_choice", "names no tool that the request offers"));
    }
    let arguments = if style == CallStyle::Bare { "parameters" } else { "arguments" };
    let any = wanted.iter().map(|(name, schema)| {
        let schema = if schema.is_object() { (*schema).clone() } else { json!({ "type": "object" }) };
        json!({
            "type": "object",
            "properties": { "name": { "const": name }, arguments: schema },
            "required": ["name", arguments],
            "additionalProperties": false,
        })
    });
    let any: Vec<Value> = any.collect();
    let object = if let [one] = any.as_slice() { one.clone() } else { json!({ "anyOf": any }) };
    let object = spaced(&object);
    let more = if one_call || name.is_some() { "" } else { " (\"\\n\" call)*" };
    match style {
        CallStyle::Bare => Ok(format!("body: %json {object}\n")),
        CallStyle::Hermes => Ok(format!(
            "body: call{more}\ncall: \"<tool_call>\\n\" object \"\\n</tool_call>\"\nobject: %json {object}\n"
        )),
        CallStyle::Functions => {
            let names: Vec<String> = wanted.iter().map(|(name, _)| Value::from(*name).to_string()).collect();
            let names = names.join(" | ");
            Ok(format!(
                "body: call{more}\ncall: \"<tool_call>\\n<function=\" name \">\\n\" parameter* \"</function>\\n</tool_call>\"\n\
                 name: {names}\nparameter: \"<parameter=\" /[^>\\n]+/ \">\\n\" value\nvalue[lazy]: /(.|\\n)*\\n<\\/parameter>\\n/\n"
            ))
        }
        _ => Err(Failure::field(
            "tool_choice",
            "this model's calls can't be forced; use \"auto\" and say in words what is to be called",
        )),
    }
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
