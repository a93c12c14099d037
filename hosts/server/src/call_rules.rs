//! Calls of tools as grammar rules, each family its own notation.

use crate::app::App;
use doorbell_core::token::Kind;
use doorbell_runtime::answer::{CallStyle, Tool, admits_text};
use doorbell_runtime::constrain::{BLANK, spaced};
use serde_json::{Value, json};

/// The grammar of an answer's calls.
pub(crate) struct CallRules {
    /// The mark in front of the first call: a text in quotes or a token, possibly with more behind it.
    pub(crate) opening: String,
    /// The rule `calls` of all that follows it, and those that it needs.
    pub(crate) rules: String,
}

/// A text in a grammar.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A mark in a grammar: the control token of that text if there is one, else the text.
pub(crate) fn mark(app: &App, text: &str) -> String {
    let tokenizer = app.served.tokenizer;
    match tokenizer.find(text.as_bytes()).filter(|&token| tokenizer.kind(token) == Kind::Control) {
        Some(token) => format!("<[{}]>", token.0),
        None => quoted(text),
    }
}

/// The rest of a rule for any text up to and with one in quotes.
pub(crate) fn lazy_until(quoted: &str) -> String {
    let text = quoted.trim_matches('"').replace("\\n", "\n");
    let mut pattern = String::new();
    for c in text.chars() {
        match c {
            '\n' => pattern.push_str("\\n"),
            c if c.is_ascii_punctuation() && !matches!(c, '<' | '>' | '_') => pattern.extend(['\\', c]),
            c => pattern.push(c),
        }
    }
    format!("[lazy]: /(.|\\n)*{pattern}/\n")
}

/// A rule for JSON of a schema.
pub(crate) fn json_rule(rule: &str, schema: &Value) -> String {
    format!("{rule}: %json {}\n", spaced(schema))
}

/// The schema of arguments, which are an object whether it says so or not.
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

impl CallRules {
    /// The rules of calls of these tools, at most one of them if so.
    pub(crate) fn new(app: &App, style: CallStyle, tools: &[&Tool], one: bool) -> Self {
        let mark = |text: &str| mark(app, text);
        let more = if one { "" } else { " (\"\\n<tool_call>\" call)*" };
        let (opening, rules) = match style {
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
                let rules = bracketed(app, &begin, tools, one);
                (begin, rules)
            }
            CallStyle::DeepSeek => {
                let [open, between, close, end] = [
                    "<｜tool▁call▁begin｜>",
                    "<｜tool▁sep｜>",
                    "<｜tool▁call▁end｜>",
                    "<｜tool▁calls▁end｜>",
                ]
                .map(mark);
                let repeat = if one { "" } else { "+" };
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

/// Mistral's calls: a list, or in later models one mark for each.
fn bracketed(app: &App, begin: &str, tools: &[&Tool], one: bool) -> String {
    let source = app.served.template.as_ref().map_or("", |(_, source)| source.as_str());
    if source.contains("[ARGS]") {
        let between = mark(app, "[ARGS]");
        let more = if one { String::new() } else { format!(" ({begin} call)*") };
        let calls = each(tools, |name, rule| format!("{name} {between} {rule}"));
        return format!("calls: call{more}\n{calls}");
    }
    let more = if one { "" } else { " (space \",\" space call)*" };
    let calls = each(tools, |name, rule| object(name, "arguments", rule));
    format!("calls: \"[\" space call{more} space \"]\"\n{calls}")
}

/// A rule `call` with an alternative for each tool, made of its name and the rule of its arguments. Every schema is a
/// document by itself, so that its references find what they name.
fn each(tools: &[&Tool], call: impl Fn(&str, &str) -> String) -> String {
    let (mut alternatives, mut rules) = (Vec::new(), String::new());
    for (number, tool) in tools.iter().enumerate() {
        let rule = format!("arguments{number}");
        alternatives.push(call(&quoted(&tool.name), &rule));
        rules.push_str(&json_rule(&rule, &arguments(&tool.schema)));
    }
    format!("call: {}\nspace: /{BLANK}/\n{rules}", alternatives.join(" | "))
}

/// A JSON object of a quoted name and, under `key`, of the arguments.
fn object(name: &str, key: &str, rule: &str) -> String {
    let [name_key, name, key] = [&quoted("name"), name, &quoted(key)].map(quoted);
    let member = |key: &str, value: &str| format!("{key} space \":\" space {value}");
    format!(r#""{{" space {} space "," space {} space "}}""#, member(&name_key, &name), member(&key, rule))
}

/// A notation of one parameter after the other, where texts stand as they are and other values as JSON.
struct Tagged {
    /// Around the tool's name.
    name: [&'static str; 2],
    /// Around a parameter's.
    key: [&'static str; 2],
    /// Behind its value.
    after: &'static str,
    /// Behind the last.
    end: &'static str,
    /// What names of parameters are made of.
    letters: &'static str,
}

const FUNCTIONS: Tagged = Tagged {
    name: ["\n<function=", ">\n"],
    key: ["<parameter=", ">\n"],
    after: "\n</parameter>\n",
    end: "</function>\n</tool_call>",
    letters: "/[^>\\n]+/",
};

const PAIRS: Tagged = Tagged {
    name: ["", "\n"],
    key: ["<arg_key>", "</arg_key>\n<arg_value>"],
    after: "</arg_value>\n",
    end: "</tool_call>",
    letters: "/[^<\\n]+/",
};

impl Tagged {
    fn call(&self, tools: &[&Tool]) -> String {
        let (mut alternatives, mut rules) = (Vec::new(), String::new());
        for (number, tool) in tools.iter().enumerate() {
            let [before, behind] = self.name;
            alternatives
                .push(format!("{} parameters{number}", quoted(&format!("{before}{}{behind}", tool.name))));
            let sequence = self.parameters(number, &tool.schema, &mut rules);
            rules.insert_str(0, &format!("parameters{number}: {sequence}\n"));
        }
        let (end, text) = (quoted(self.end), lazy_until(&quoted(self.after)));
        format!("call: ({}) {end}\n{rules}text{text}", alternatives.join(" | "))
    }

    /// The parameters of a schema in its order, those that it requires and those that may be there.
    fn parameters(&self, tool: usize, schema: &Value, rules: &mut String) -> String {
        let [before, behind] = self.key;
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return format!("({} {} {} text)*", quoted(before), self.letters, quoted(behind));
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

    /// A value and what is behind it.
    fn value(&self, rule: &str, schema: &Value, property: &Value, rules: &mut String) -> String {
        let listed = property.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        let listed = listed.or_else(|| property.get("const").map(core::slice::from_ref));
        let texts = listed.and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let after = quoted(self.after);
        if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
            let texts: Vec<String> = texts.into_iter().map(quoted).collect();
            return format!("({}) {after}", texts.join(" | "));
        }
        if admits_text(property) {
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
