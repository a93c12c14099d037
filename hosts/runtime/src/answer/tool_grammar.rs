//! Tool calls as rules of a Lark grammar, in the notation of each model family.
//!
//! Not here: what stands around the calls (`output_grammar`), and reading calls back (`calls`).

use super::brace_grammar;
use super::grammar_text::{json_rule, lazy_until, mark, pattern_of, quoted};
use super::style::{CallStyle, Style};
use super::tags::{self, Tags};
use super::text_grammar::TextLimits;
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

/// A keyword of a strict tool that can't be enforced on a text without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnenforcedKeyword {
    /// Name of the tool.
    pub(super) tool: String,
    /// Name of the parameter.
    pub(super) parameter: String,
    /// The keyword.
    pub(super) keyword: String,
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
    pub(super) fn new(
        markup: ModelMarkup<'_>,
        tools: &[&Tool],
        one_call: bool,
    ) -> Result<Self, UnenforcedKeyword> {
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
                (quoted("<tool_call>"), format!("calls: call{more}\n{}", FUNCTIONS.call(tools)?))
            }
            CallStyle::ArgumentPairs => {
                (quoted("<tool_call>"), format!("calls: call{more}\n{}", PAIRS.call(tools)?))
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
        Ok(Self { opening, rules })
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

/// The rule of a value.
struct ValueRule<'s> {
    /// Its name.
    rule: String,
    /// The schema of all parameters.
    schema: &'s Value,
    /// True if every keyword must be enforced.
    strict: bool,
}

impl TaggedNotation {
    fn call(&self, tools: &[&Tool]) -> Result<String, UnenforcedKeyword> {
        let (mut alternatives, mut rules) = (Vec::new(), String::new());
        for (number, tool) in tools.iter().enumerate() {
            let [before, behind] = self.name;
            alternatives
                .push(format!("{} parameters{number}", quoted(&format!("{before}{}{behind}", tool.name))));
            let sequence = self.parameters(number, tool, &mut rules)?;
            rules.insert_str(0, &format!("parameters{number}: {sequence}\n"));
        }
        let (end, text) = (quoted(self.end), lazy_until(&self.closing()));
        Ok(format!("call: ({}) {end}\n{rules}text{text}", alternatives.join(" | ")))
    }

    /// The text behind a text, quoted.
    fn closing(&self) -> String {
        quoted(&format!("{}\n", self.tags.close))
    }

    /// The parameters in the order of the schema, optional ones followed by `?`. Rules that they use go to `rules`.
    fn parameters(
        &self,
        number: usize,
        tool: &Tool,
        rules: &mut String,
    ) -> Result<String, UnenforcedKeyword> {
        let ([before, behind], schema) = (self.key, &tool.schema);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(format!("({} {} {} text)*", quoted(before), self.key_pattern, quoted(behind)));
        };
        let required = |name: &str| {
            let list = schema.get("required").and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|required| required == name))
        };
        let mut sequence = String::from("\"\"");
        for (index, (name, property)) in properties.iter().enumerate() {
            let value = ValueRule { rule: format!("value{number}of{index}"), schema, strict: tool.strict };
            let value = self.value(&value, property, rules).map_err(|keyword| UnenforcedKeyword {
                tool: tool.name.clone(),
                parameter: name.clone(),
                keyword,
            })?;
            let key = quoted(&format!("{before}{name}{behind}"));
            let often = if required(name) { "" } else { "?" };
            sequence.push_str(&format!(" ({key} {value}){often}"));
        }
        Ok(sequence)
    }

    /// The value of a parameter and the text after it. The error is a keyword that can't be enforced.
    fn value(
        &self,
        value_rule: &ValueRule<'_>,
        property: &Value,
        rules: &mut String,
    ) -> Result<String, String> {
        let parameter = Parameter::new(value_rule.schema, property);
        if let Some(listed) = self.listed(parameter) {
            return Ok(listed);
        }
        if !parameter.is_text() {
            return Ok(self.json(&value_rule.rule, value_rule.schema, property, rules));
        }
        let choices = parameter.choices().unwrap_or_else(|| vec![parameter]);
        let mut alternatives = Vec::new();
        for (number, choice) in choices.into_iter().enumerate() {
            let rule = format!("{}choice{number}", value_rule.rule);
            if let Some(listed) = self.listed(choice) {
                alternatives.push(listed);
            } else if choice.is_text() {
                match TextLimits::new(choice) {
                    Ok(limits) if !limits.is_free() => {
                        let closing = pattern_of(&self.closing());
                        rules.push_str(&format!("{rule}[lazy]: {}\n", limits.lazy_rule(&closing)));
                        alternatives.push(rule);
                    }
                    Err(keyword) if value_rule.strict => return Err(keyword),
                    // any text is allowed, whatever the other choices are
                    Ok(_) | Err(_) => return Ok("text".to_owned()),
                }
            } else if !choice.is_null() {
                alternatives.push(self.json(&rule, value_rule.schema, choice.schema(), rules));
            }
        }
        if parameter.admits_null() {
            alternatives.push(format!("{} {}", quoted("null"), quoted(self.after)));
        }
        Ok(format!("({})", alternatives.join(" | ")))
    }

    /// The texts that a parameter lists, if it lists nothing else.
    fn listed(&self, parameter: Parameter<'_>) -> Option<String> {
        let texts = parameter.listed().iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
        let texts: Vec<String> = texts.into_iter().map(quoted).collect();
        (!texts.is_empty()).then(|| format!("({}) {}", texts.join(" | "), quoted(self.after)))
    }

    /// A value as JSON. References in its schema lead to the definitions of `root`.
    fn json(&self, rule: &str, root: &Value, schema: &Value, rules: &mut String) -> String {
        let mut schema = schema.clone();
        for definitions in ["$defs", "definitions"] {
            if let (Some(schema), Some(list)) = (schema.as_object_mut(), root.get(definitions)) {
                schema.entry(definitions).or_insert_with(|| list.clone());
            }
        }
        rules.push_str(&json_rule(rule, &schema));
        format!("{rule} {}", quoted(self.after))
    }
}
