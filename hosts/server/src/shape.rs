//! What an answer must look like, as a grammar of the marks that the model's family writes: reasoning, channels, calls
//! that must come, and the JSON in the midst of them.

use crate::app::App;
use crate::chat::{Conversation, ToolChoice};
use crate::error::Failure;
use core::fmt::Write as _;
use doorbell_core::token::Kind;
use doorbell_runtime::answer::{CallStyle, Style, Tools};
use doorbell_runtime::constrain::{BLANK, Shape, spaced};
use serde_json::{Value, json};

/// The shape of the answer, with room for reasoning in front.
pub(crate) fn of(
    app: &App,
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
    let writer = Writer { app, style, begins_thinking };
    if let Some(name) = forced {
        let one = conversation.one_call || name.is_some();
        return Ok(Some(Shape::Lark(writer.around(&writer.calls(tools, name, one)?, Channel::Call))));
    }
    let Some(shape) = &conversation.shape else { return Ok(None) };
    if style.thinking.is_none() && style.calls != CallStyle::Harmony {
        return Ok(Some(shape.clone()));
    }
    let body = match shape {
        Shape::JsonObject => format!("body: %json {}\n", spaced(&json!({ "type": "object" }))),
        Shape::JsonSchema(schema) => format!("body: %json {}\n", spaced(schema)),
        // whoever writes a grammar says where the reasoning goes
        other => return Ok(Some(other.clone())),
    };
    Ok(Some(Shape::Lark(writer.around(&body, Channel::Final))))
}

/// Where harmony puts the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Final,
    Call,
}

struct Writer<'a> {
    app: &'a App,
    style: Style,
    begins_thinking: bool,
}

/// A text in a grammar.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl Writer<'_> {
    /// A mark in a grammar: the control token of that text if there is one, else the text.
    fn mark(&self, text: &str) -> String {
        let tokenizer = self.app.served.tokenizer;
        match tokenizer.find(text.as_bytes()).filter(|&token| tokenizer.kind(token) == Kind::Control) {
            Some(token) => format!("<[{}]>", token.0),
            None => quoted(text),
        }
    }

    /// A grammar of `body`, behind reasoning where there may be some.
    fn around(&self, body: &str, channel: Channel) -> String {
        if self.style.calls == CallStyle::Harmony {
            return self.around_harmony(body, channel);
        }
        let Some(marks) = self.style.thinking else { return format!("start: body\n{body}") };
        let close = marks.close.replace('/', "\\/").replace('[', "\\[").replace(']', "\\]");
        let mut text = String::from("start: ");
        if self.begins_thinking {
            text.push_str("thoughts blank body\n");
        } else {
            _ = writeln!(text, "(\"{}\" thoughts blank)? body", marks.open);
        }
        _ = write!(text, "thoughts[lazy]: /(.|\\n)*{close}/\nblank: /[ \\n]*/\n{body}");
        text
    }

    /// Behind `<|start|>assistant`: an analysis if the model wants one, and then the channel of the body.
    fn around_harmony(&self, body: &str, channel: Channel) -> String {
        let [open, message, end, start] =
            ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"].map(|mark| self.mark(mark));
        let thoughts = if end.starts_with('"') {
            // without a token of its own, the mark ends the text
            "thoughts[lazy]: /(.|\\n)*<\\|end\\|>/\n".to_owned()
        } else {
            format!("thoughts: TEXT {end}\nTEXT: /(.|\\n)*/\n")
        };
        let head = match channel {
            Channel::Final => format!("{open} \"final\" {message}"),
            Channel::Call => format!("{open} \"commentary to=functions.\""),
        };
        format!(
            "start: analysis? {head} body\nanalysis: {open} \"analysis\" {message} thoughts {start} \"assistant\"\n\
             {thoughts}{body}"
        )
    }

    /// The rule `body` of calls, where calls must come.
    fn calls(&self, tools: &Tools, name: Option<&str>, one: bool) -> Result<String, Failure> {
        let wanted: Vec<_> = tools.iter().filter(|(tool, _)| name.is_none_or(|name| name == *tool)).collect();
        if wanted.is_empty() {
            return Err(Failure::field("tool_choice", "names no tool that the request offers"));
        }
        let more = if one { "" } else { " (\"\\n\" call)*" };
        match self.style.calls {
            CallStyle::Bare => {
                Ok(format!("body: call\n{}", each(&wanted, |name, rule| object(name, "parameters", rule))))
            }
            CallStyle::None | CallStyle::Hermes => {
                let calls = each(&wanted, |name, rule| {
                    format!(r#""<tool_call>\n" {} "\n</tool_call>""#, object(name, "arguments", rule))
                });
                Ok(format!("body: call{more}\n{calls}"))
            }
            CallStyle::Functions => Ok(format!(
                "body: call{more}\n\
                 call: \"<tool_call>\\n<function=\" name \">\\n\" parameter* \"</function>\\n</tool_call>\"\n\
                 name: {}\nparameter: \"<parameter=\" /[^>\\n]+/ \">\\n\" value\n\
                 value[lazy]: /(.|\\n)*\\n<\\/parameter>\\n/\n",
                names(&wanted)
            )),
            CallStyle::ArgumentPairs => Ok(format!(
                "body: call{more}\ncall: \"<tool_call>\" name \"\\n\" pair* \"</tool_call>\"\nname: {}\n\
                 pair: \"<arg_key>\" /[^<\\n]+/ \"</arg_key>\\n<arg_value>\" value\n\
                 value[lazy]: /(.|\\n)*<\\/arg_value>\\n/\n",
                names(&wanted)
            )),
            CallStyle::Bracketed => Ok(self.bracketed(&wanted, one)),
            CallStyle::DeepSeek => {
                let [begin, open, between, close, end] = [
                    "<｜tool▁calls▁begin｜>",
                    "<｜tool▁call▁begin｜>",
                    "<｜tool▁sep｜>",
                    "<｜tool▁call▁end｜>",
                    "<｜tool▁calls▁end｜>",
                ]
                .map(|mark| self.mark(mark));
                let repeat = if one { "" } else { "+" };
                let calls = each(&wanted, |name, rule| format!("{open} {name} {between} {rule} {close}"));
                Ok(format!("body: {begin} call{repeat} {end}\n{calls}"))
            }
            CallStyle::Harmony => {
                let [constrain, message] = ["<|constrain|>", "<|message|>"].map(|mark| self.mark(mark));
                let calls =
                    each(&wanted, |name, rule| format!("{name} \" \" {constrain} \"json\" {message} {rule}"));
                Ok(format!("body: call\n{calls}"))
            }
            _ => Err(Failure::field("tool_choice", "this model's calls can't be forced; use \"auto\"")),
        }
    }

    /// Mistral's calls: a list, or in later models one mark for each.
    fn bracketed(&self, wanted: &[(&str, &Value)], one: bool) -> String {
        let begin = self.mark("[TOOL_CALLS]");
        let source = self.app.served.template.as_ref().map_or("", |(_, source)| source.as_str());
        if source.contains("[ARGS]") {
            let between = self.mark("[ARGS]");
            let repeat = if one { "" } else { "+" };
            let calls = each(wanted, |name, rule| format!("{begin} {name} {between} {rule}"));
            return format!("body: call{repeat}\n{calls}");
        }
        let more = if one { "" } else { " (space \",\" space call)*" };
        let calls = each(wanted, |name, rule| object(name, "arguments", rule));
        format!("body: {begin} \"[\" space call{more} space \"]\"\n{calls}")
    }
}

/// The names as alternatives.
fn names(wanted: &[(&str, &Value)]) -> String {
    wanted.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(" | ")
}

/// A rule `call` with an alternative for each tool, made of its name and the rule of its arguments. Every schema is a
/// document by itself, so that its references find what they name.
fn each(wanted: &[(&str, &Value)], call: impl Fn(&str, &str) -> String) -> String {
    let (mut alternatives, mut rules) = (Vec::new(), String::new());
    for (number, (name, schema)) in wanted.iter().enumerate() {
        let rule = format!("arguments{number}");
        alternatives.push(call(&quoted(name), &rule));
        let schema = if schema.is_object() { (*schema).clone() } else { json!({ "type": "object" }) };
        _ = writeln!(rules, "{rule}: %json {}", spaced(&schema));
    }
    format!("call: {}\nspace: /{BLANK}/\n{rules}", alternatives.join(" | "))
}

/// A JSON object of a quoted name and, under `key`, of the arguments.
fn object(name: &str, key: &str, rule: &str) -> String {
    let [name_key, name, key] = [&quoted("name"), name, &quoted(key)].map(quoted);
    let member = |key: &str, value: &str| format!("{key} space \":\" space {value}");
    format!(r#""{{" space {} space "," space {} space "}}""#, member(&name_key, &name), member(&key, rule))
}
