//! Tool calls as rules of a Lark grammar, in the notation of each model family.
//!
//! Not here: what stands around the calls (`output_grammar`), and reading calls back (`calls`).

use super::brace_grammar;
use super::grammar_text::{json_rule, lazy_until, mark, quoted};
use super::style::{CallStyle, Style};
use super::tags::{self, Tags};
use super::tools::{Parameter, Tool};
use crate::constrain::BLANK;
use doorbell_core::token::Tokenizer;
use serde_json::{Value, json};

/// The parts of a model that decide how its calls are written.
#[derive(Clone, Copy)]
pub struct ModelMarkup<'m> {
    /// Marks that are control tokens of this vocabulary are written as tokens.
    pub tokenizer: &'m Tokenizer<'m>,
    /// Source of the chat template.
    pub template: &'m str,
    /// Marks of calls and reasoning.
    pub style: Style,
}

/// The grammar of an answer's calls.
pub(super) struct ToolGrammar {
    /// Grammar text of the mark before the first call: a quoted text or a token, possibly with more after it.
    pub(super) opening: String,
    /// The rule `calls`, which matches everything after the opening mark, and the rules that it uses.
    pub(super) rules: String,
}

/// The schema of a call's arguments, with the type `object` added if it states no type.
fn arguments(schema: &Value) -> Value {
    const KINDS: [&str; 7] = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
    let mut schema = if schema.is_null() { json!({}) } else { schema.clone() };
    if let Some(fields) = schema.as_object_mut()
        && !KINDS.iter().any(|kind| fields.contains_key(*kind))
    {
        fields.insert("type".into(), "object".into());
    }
    schema
}

impl ToolGrammar {
    /// The rules for calls of these tools; with `one_call`, a single call.
    pub(super) fn new(markup: ModelMarkup<'_>, tools: &[&Tool], one_call: bool) -> Self {
        let mark = |text: &str| mark(markup.tokenizer, text);
        let more = if one_call { "" } else { " (\"\\n<tool_call>\" call)*" };
        let (opening, rules) = match markup.style.calls {
            CallStyle::Bare => {
                let calls = each(tools, |name, rule| object(name, "parameters", rule));
                (String::new(), format!("calls: call\n{calls}"))
            }
            CallStyle::None | CallStyle::Hermes => {
                let calls = each(tools, |name, rule| {
                    format!(r#""\n" {} "\n</tool_call>""#, object(name, "arguments", rule))
                });
                (quoted("<tool_call>"), format!("calls: call{more}\n{calls}"))
            }
            CallStyle::Functions => {
                (quoted("<tool_call>"), format!("calls: call{more}\n{}", FUNCTIONS.call(tools)))
            }
            CallStyle::ArgumentPairs => {
                (quoted("<tool_call>"), format!("calls: call{more}\n{}", PAIRS.call(tools)))
            }
            CallStyle::Bracketed => {
                let begin = mark("[TOOL_CALLS]");
                let rules = bracketed(markup, &begin, tools, one_call);
                (begin, rules)
            }
            CallStyle::Braces => brace_grammar::calls(mark, tools, one_call),
            CallStyle::DeepSeek => {
                let [open, between, close, end] = [
                    "<｜tool▁call▁begin｜>",
                    "<｜tool▁sep｜>",
                    "<｜tool▁call▁end｜>",
                    "<｜tool▁calls▁end｜>",
                ]
                .map(mark);
                let repeat = if one_call { "" } else { "+" };
                let calls = each(tools, |name, rule| format!("{open} {name} {between} {rule} {close}"));
                (mark("<｜tool▁calls▁begin｜>"), format!("calls: call{repeat} {end}\n{calls}"))
            }
            _ => {
                let [constrain, message] = ["<|constrain|>", "<|message|>"].map(mark);
                let calls =
                    each(tools, |name, rule| format!("{name} \" \" {constrain} \"json\" {message} {rule}"));
                let opening = format!("{} \"commentary to=functions.\"", mark("<|channel|>"));
                (opening, format!("calls: call\n{calls}"))
            }
        };
        Self { opening, rules }
    }
}

/// Mistral's calls: a JSON list, or in later models one mark for each call.
fn bracketed(markup: ModelMarkup<'_>, begin: &str, tools: &[&Tool], one_call: bool) -> String {
    if markup.template.contains("[ARGS]") {
        let between = mark(markup.tokenizer, "[ARGS]");
        let more = if one_call { String::new() } else { format!(" ({begin} call)*") };
        let calls = each(tools, |name, rule| format!("{name} {between} {rule}"));
        return format!("calls: call{more}\n{calls}");
    }
    let more = if one_call { "" } else { " (space \",\" space call)*" };
    let calls = each(tools, |name, rule| object(name, "arguments", rule));
    format!("calls: \"[\" space call{more} space \"]\"\n{calls}")
}

/// A rule `call` with one alternative for each tool, made by `call` from the tool's name and the rule of its arguments.
/// Every schema becomes a document of its own, so that its references resolve.
fn each(tools: &[&Tool], call: impl Fn(&str, &str) -> String) -> String {
    let (mut alternatives, mut rules) = (Vec::new(), String::new());
    for (number, tool) in tools.iter().enumerate() {
        let rule = format!("arguments{number}");
        alternatives.push(call(&quoted(&tool.name), &rule));
        rules.push_str(&json_rule(&rule, &arguments(&tool.schema)));
    }
    format!("call: {}\nspace: /{BLANK}/\n{rules}", alternatives.join(" | "))
}

/// A JSON object with the quoted name and, under `key`, the arguments.
fn object(name: &str, key: &str, rule: &str) -> String {
    let [name_key, name, key] = [&quoted("name"), name, &quoted(key)].map(quoted);
    let member = |key: &str, value: &str| format!("{key} space \":\" space {value}");
    format!(r#""{{" space {} space "," space {} space "}}""#, member(&name_key, &name), member(&key, rule))
}

/// A notation that lists parameters one by one: texts are written unquoted, other values as JSON.
struct TaggedNotation {
    /// Texts before and after the tool's name.
    name: [&'static str; 2],
    /// Texts before and after a parameter's name.
    key: [&'static str; 2],
    /// The marks that decide where a value ends.
    tags: Tags,
    /// Text after a parameter's value.
    after: &'static str,
    /// Text after the last parameter.
    end: &'static str,
    /// Regular expression for the name of a parameter.
    key_pattern: &'static str,
}

const FUNCTIONS: TaggedNotation = TaggedNotation {
    name: ["\n<function=", ">\n"],
    key: ["<parameter=", ">\n"],
    tags: tags::FUNCTIONS,
    after: "\n</parameter>\n",
    end: "</function>\n</tool_call>",
    key_pattern: "/[^>\\n]+/",
};

const PAIRS: TaggedNotation = TaggedNotation {
    name: ["", "\n"],
    key: ["<arg_key>", "</arg_key>\n<arg_value>"],
    tags: tags::PAIRS,
    after: "</arg_value>\n",
    end: "</tool_call>",
    key_pattern: "/[^<\\n]+/",
};

impl TaggedNotation {
    fn call(&self, tools: &[&Tool]) -> String {
        let (mut alternatives, mut rules) = (Vec::new(), String::new());
        for (number, tool) in tools.iter().enumerate() {
            let [before, behind] = self.name;
            alternatives
                .push(format!("{} parameters{number}", quoted(&format!("{before}{}{behind}", tool.name))));
            let sequence = self.parameters(number, &tool.schema, &mut rules);
            rules.insert_str(0, &format!("parameters{number}: {sequence}\n"));
        }
        let (end, text) = (quoted(self.end), lazy_until(&quoted(&format!("{}\n", self.tags.close))));
        format!("call: ({}) {end}\n{rules}text{text}", alternatives.join(" | "))
    }

    /// The parameters in the order of the schema, optional ones followed by `?`. Rules that they use go to `rules`.
    fn parameters(&self, tool: usize, schema: &Value, rules: &mut String) -> String {
        let [before, behind] = self.key;
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return format!("({} {} {} text)*", quoted(before), self.key_pattern, quoted(behind));
        };
        let required = |name: &str| {
            let list = schema.get("required").and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|required| required == name))
        };
        let mut sequence = String::from("\"\"");
        for (number, (name, property)) in properties.iter().enumerate() {
            let value = self.value(&format!("value{tool}of{number}"), schema, property, rules);
            let key = quoted(&format!("{before}{name}{behind}"));
            let often = if required(name) { "" } else { "?" };
            sequence.push_str(&format!(" ({key} {value}){often}"));
        }
        sequence
    }

    /// The value of a parameter and the text after it.
    fn value(&self, rule: &str, schema: &Value, property: &Value, rules: &mut String) -> String {
        let parameter = Parameter::new(schema, property);
        let texts = parameter.listed().iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        let after = quoted(self.after);
        if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
            let texts: Vec<String> = texts.into_iter().map(quoted).collect();
            return format!("({}) {after}", texts.join(" | "));
        }
        // What forbids values is for the JSON grammar to enforce or refuse.
        if parameter.is_text() && property.get("not").is_none() {
            return "text".to_owned();
        }
        let mut property = property.clone();
        for definitions in ["$defs", "definitions"] {
            if let (Some(property), Some(list)) = (property.as_object_mut(), schema.get(definitions)) {
                property.entry(definitions).or_insert_with(|| list.clone());
            }
        }
        rules.push_str(&json_rule(rule, &property));
        format!("{rule} {after}")
    }
}
