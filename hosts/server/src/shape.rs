//! What an answer must look like, as a grammar of the marks that the model's family writes: reasoning, channels, calls
//! that must or may come, and the JSON in the midst of them. The rules of the calls are `call_rules`.

use crate::app::App;
use crate::call_rules::{CallRules, json_rule, lazy_until, mark};
use crate::chat::{Conversation, ToolChoice};
use crate::error::Failure;
use core::fmt::Write as _;
use doorbell_runtime::answer::{Begin, CallStyle, Style, Tool, Tools};
use doorbell_runtime::constrain::Shape;
use serde_json::{Value, json};

/// The shape of the answer, with room for reasoning in front.
pub(crate) fn of(
    app: &App,
    conversation: &Conversation,
    tools: &Tools,
    style: Style,
    begin: Begin,
) -> Result<Option<Shape>, Failure> {
    let writer = Writer { app, style, begin, one: conversation.one_call };
    let forced = match &conversation.choice {
        ToolChoice::Required => Some(None),
        ToolChoice::Named(name) => Some(Some(name.as_str())),
        ToolChoice::None | ToolChoice::Auto => None,
    };
    if let Some(name) = forced {
        let wanted: Vec<_> = tools.iter().filter(|tool| name.is_none_or(|name| name == tool.name)).collect();
        if wanted.is_empty() {
            return Err(Failure::field("tool_choice", "names no tool that the request offers"));
        }
        let writer = Writer { one: writer.one || name.is_some(), ..writer };
        return Ok(Some(Shape::Lark(writer.forced(&wanted))));
    }
    let answer = match &conversation.shape {
        None => None,
        Some(Shape::JsonObject) => Some(json!({ "type": "object" })),
        Some(Shape::JsonSchema(schema)) => Some(schema.clone()),
        // whoever writes a grammar says where reasoning and calls go
        Some(other) => return Ok(Some(other.clone())),
    };
    // what need not be kept is not worth a refusal
    let kept = |tool: &Tool| {
        let schema = if tool.strict { tool.schema.clone() } else { Value::Null };
        Tool { schema, ..tool.clone() }
    };
    let offered: Vec<Tool> = tools.iter().map(kept).collect();
    let offered: Vec<&Tool> = offered.iter().collect();
    match answer {
        Some(_) if offered.is_empty() && style.thinking.is_none() && style.calls != CallStyle::Harmony => {
            Ok(conversation.shape.clone())
        }
        Some(schema) => Ok(Some(Shape::Lark(writer.answer(&schema, &offered)))),
        None if tools.iter().any(|tool| tool.strict) => Ok(writer.strict(&offered).map(Shape::Lark)),
        None => Ok(None),
    }
}

#[derive(Clone, Copy)]
struct Writer<'a> {
    app: &'a App,
    style: Style,
    begin: Begin,
    /// Whether there is one call at most.
    one: bool,
}

impl Writer<'_> {
    fn mark(&self, text: &str) -> String {
        mark(self.app, text)
    }

    fn rules(&self, tools: &[&Tool]) -> CallRules {
        CallRules::new(self.app, self.style.calls, tools, self.one)
    }

    /// Calls and nothing else.
    fn forced(&self, tools: &[&Tool]) -> String {
        let CallRules { opening, rules } = self.rules(tools);
        let head = if self.style.calls == CallStyle::Harmony && self.begin == Begin::Text {
            // a text that was begun ends where it stands
            let [end, start] = ["<|end|>", "<|start|>"].map(|mark| self.mark(mark));
            format!("{end} {start} \"assistant\" ")
        } else {
            String::new()
        };
        self.around(&format!("body: {head}{opening} calls\n{rules}"))
    }

    /// JSON, or calls of the tools that are offered.
    fn answer(&self, schema: &Value, tools: &[&Tool]) -> String {
        let head = if self.style.calls == CallStyle::Harmony && self.begin != Begin::Text {
            let [channel, message] = ["<|channel|>", "<|message|>"].map(|mark| self.mark(mark));
            format!("{channel} \"final\" {message} ")
        } else {
            String::new()
        };
        let mut body = format!("body: {head}answer");
        let mut rules = json_rule("answer", schema);
        if !tools.is_empty() && self.begin != Begin::Text {
            let calls = self.rules(tools);
            _ = write!(body, " | {} calls", calls.opening);
            rules.push_str(&calls.rules);
        }
        self.around(&format!("{body}\n{rules}"))
    }

    /// Any text, with calls that keep to their schemas. `None` where a channel of text was begun, which has no calls.
    fn strict(&self, tools: &[&Tool]) -> Option<String> {
        let CallRules { opening, rules } = self.rules(tools);
        let body = match self.style.calls {
            CallStyle::Harmony if self.begin == Begin::Text => return None,
            CallStyle::Harmony => {
                let [channel, message, end, start] =
                    ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"].map(|mark| self.mark(mark));
                format!(
                    "body: preamble? ({channel} \"final\" {message} TEXT? | {opening} calls)\n\
                     preamble: {channel} \"commentary\" {message} TEXT? {end} {start} \"assistant\"\n\
                     TEXT: /(.|\\n)+/\n"
                )
            }
            CallStyle::Bare => "body: calls | TEXT?\nTEXT: /[^{](.|\\n)*/\n".to_owned(),
            _ => {
                let repeat = if self.one { "?" } else { "*" };
                let (prose, rule) = match opening.strip_prefix('"') {
                    Some(_) => ("prose", format!("prose{}", lazy_until(&opening))),
                    None => ("TEXT?", String::new()),
                };
                let opening = if rule.is_empty() { opening.as_str() } else { "" };
                format!("body: ({prose} {opening} calls){repeat} TEXT?\n{rule}TEXT: /(.|\\n)+/\n")
            }
        };
        Some(self.around(&format!("{body}{rules}")))
    }

    /// A grammar of `body`, behind reasoning where there may be some.
    fn around(&self, body: &str) -> String {
        if self.style.calls == CallStyle::Harmony {
            return self.around_harmony(body);
        }
        match (self.style.thinking, self.begin) {
            (None, _) | (_, Begin::Text) => format!("start: body\n{body}"),
            (Some(marks), begin) => {
                let start = match begin {
                    Begin::Reasoning => "thoughts blank body".to_owned(),
                    _ => format!("(\"{}\" thoughts blank)? body", marks.open),
                };
                let until = lazy_until(&format!("\"{}\"", marks.close));
                format!("start: {start}\nthoughts{until}blank: /[ \\n]*/\n{body}")
            }
        }
    }

    /// Behind `<|start|>assistant`: an analysis if the model wants one, and then the channel of the body.
    fn around_harmony(&self, body: &str) -> String {
        let [channel, message, end, start] =
            ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"].map(|mark| self.mark(mark));
        let thoughts = if end.starts_with('"') {
            // without a token of its own, the mark ends the text
            format!("thoughts{}", lazy_until(&end))
        } else {
            format!("thoughts: THOUGHTS {end}\nTHOUGHTS: /(.|\\n)*/\n")
        };
        let before = match self.begin {
            Begin::Turn => "analysis?",
            Begin::Reasoning => "rest",
            Begin::Text => return format!("start: body\n{body}"),
        };
        format!(
            "start: {before} body\nanalysis: {channel} \"analysis\" {message} rest\n\
             rest: thoughts {start} \"assistant\"\n{thoughts}{body}"
        )
    }
}
