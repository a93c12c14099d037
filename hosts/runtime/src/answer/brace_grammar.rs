//! The grammar of Gemma 4's calls: a JSON schema as rules of its notation, which has other texts and keys than JSON.
//!
//! Keys come in the order in which the chat template prints them. Rules about the contents of texts (patterns, lengths)
//! are not a part of the grammar. What this notation has no rule for is left to the JSON grammar, which enforces or
//! refuses it, and which writes texts in double quotes.
//!
//! Not here: reading such calls (`braces`).

use super::braces::{CALL, CLOSE, OPEN, QUOTE};
use super::grammar_text::{json_rule, quoted};
use super::tools::{Parameter, Tool};
use core::fmt::Write as _;
use serde_json::Value;
use std::collections::HashMap;

/// Rules for values that no schema describes, after the one for texts.
const ANY: &str = "any: any_text | any_object | any_list | ANY_WORD\n\
                   any_object: \"{\" (any_member (\",\" any_member)*)? \"}\"\n\
                   any_member: ANY_KEY \":\" any\n\
                   any_list: \"[\" (any (\",\" any)*)? \"]\"\n\
                   ANY_WORD: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null/\n\
                   ANY_KEY: /[^:{}\\[\\],<>\" \\n]+/\n";

/// Keywords that only the JSON grammar knows, besides those of objects and lists.
const OTHERS: [&str; 6] =
    ["not", "if", "dependentSchemas", "dependentRequired", "patternProperties", "propertyNames"];
const LISTS: [&str; 5] = ["prefixItems", "contains", "uniqueItems", "minItems", "maxItems"];

/// The mark before the first call as grammar text, and the rules of calls of these tools. `mark` gives the grammar text of a
/// mark.
pub(super) fn calls(mark: impl Fn(&str) -> String, tools: &[&Tool], one_call: bool) -> (String, String) {
    let [opening, close, quote] = [OPEN, CLOSE, QUOTE].map(&mark);
    let mut rules = Rules { quote, text: String::new(), names: HashMap::new(), root: &Value::Null };
    let mut alternatives = Vec::new();
    for tool in tools {
        rules.root = &tool.schema;
        let arguments = rules.arguments(&tool.schema);
        alternatives.push(format!("{} {arguments}", quoted(&format!("{CALL}{}", tool.name))));
    }
    let more = if one_call { String::new() } else { format!(" ({opening} call)*") };
    let texts = match rules.quote.starts_with('"') {
        // a mark without a token of its own is the end of the text
        true => format!("any_text: {} any_rest\nany_rest[lazy]: /(.|\\n)*<\\|\"\\|>/\n", rules.quote),
        false => format!("any_text: {0} ANY_TEXT? {0}\nANY_TEXT: /(.|\\n)+/\n", rules.quote),
    };
    let alternatives = alternatives.join(" | ");
    let rules = format!("calls: call{more}\ncall: ({alternatives}) {close}\n{}{texts}{ANY}", rules.text);
    (opening, rules)
}

struct Rules<'s> {
    /// Grammar text of the mark around texts.
    quote: String,
    /// The rules so far.
    text: String,
    /// Names of rules by the schemas that they are made of, so that a schema may refer to itself.
    names: HashMap<*const Value, String>,
    /// The schema to which references point.
    root: &'s Value,
}

impl<'s> Rules<'s> {
    /// The rule for the arguments of a tool: an object, whatever the schema says.
    fn arguments(&mut self, schema: &'s Value) -> String {
        let schema = Parameter::new(schema, schema).schema();
        if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() {
            let name = self.name(schema);
            let rule = self.object(&name, schema);
            _ = writeln!(self.text, "{name}: {rule}");
            return name;
        }
        match ["anyOf", "oneOf", "allOf"].iter().any(|word| schema.get(word).is_some()) {
            true => self.rule(schema),
            false => "any_object".to_owned(),
        }
    }

    fn name(&mut self, schema: &'s Value) -> String {
        let name = format!("value{}", self.names.len());
        self.names.insert(schema, name.clone());
        name
    }

    /// The name of the rule of a schema.
    fn rule(&mut self, schema: &'s Value) -> String {
        let schema = Parameter::new(self.root, schema).schema();
        if let Some(name) = self.names.get(&core::ptr::from_ref(schema)) {
            return name.clone();
        }
        let name = self.name(schema);
        let rule = self.value(&name, schema);
        match rule {
            Some(rule) => _ = writeln!(self.text, "{name}: {rule}"),
            None => self.text.push_str(&json_rule(&name, &self.with_definitions(schema))),
        }
        name
    }

    /// A schema with the definitions that it may refer to.
    fn with_definitions(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        for definitions in ["$defs", "definitions"] {
            if let (Some(fields), Some(list)) = (schema.as_object_mut(), self.root.get(definitions)) {
                fields.entry(definitions).or_insert_with(|| list.clone());
            }
        }
        schema
    }

    /// The grammar of a schema; `None` if only the JSON grammar knows it.
    fn value(&mut self, name: &str, schema: &'s Value) -> Option<String> {
        let listed = Parameter::new(self.root, schema).listed();
        if OTHERS.iter().any(|word| schema.get(word).is_some()) || *schema == Value::Bool(false) {
            return None;
        }
        if !listed.is_empty() {
            let values: Vec<String> = listed.iter().map(|value| self.literal(value)).collect();
            return Some(values.join(" | "));
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            match schema.get(word).and_then(Value::as_array) {
                None => {}
                Some(list) if word == "allOf" && list.len() > 1 => return None,
                Some(list) => {
                    return Some(list.iter().map(|part| self.rule(part)).collect::<Vec<_>>().join(" | "));
                }
            }
        }
        match schema.get("type") {
            Some(Value::Array(kinds)) => {
                let kinds: Option<Vec<String>> =
                    kinds.iter().map(|kind| self.typed(name, schema, kind.as_str()?)).collect();
                Some(kinds?.join(" | "))
            }
            Some(kind) => self.typed(name, schema, kind.as_str()?),
            None if schema.get("properties").is_some() => self.typed(name, schema, "object"),
            None if schema.get("items").is_some() => self.typed(name, schema, "array"),
            None => Some("any".to_owned()),
        }
    }

    /// The grammar of a schema for values of one type.
    fn typed(&mut self, name: &str, schema: &'s Value, kind: &str) -> Option<String> {
        match kind {
            "string" => Some("any_text".to_owned()),
            "boolean" => Some("\"true\" | \"false\"".to_owned()),
            "null" => Some("\"null\"".to_owned()),
            "integer" | "number" => {
                let mut number = schema.clone();
                number.as_object_mut()?.insert("type".to_owned(), kind.into());
                self.text.push_str(&json_rule(&format!("{name}{kind}"), &number));
                Some(format!("{name}{kind}"))
            }
            "array" if LISTS.iter().any(|word| schema.get(word).is_some()) => None,
            "array" => {
                let item = schema.get("items").map_or_else(|| "any".to_owned(), |items| self.rule(items));
                Some(format!("\"[\" ({item} (\",\" {item})*)? \"]\""))
            }
            "object" => Some(self.object(name, schema)),
            _ => None,
        }
    }

    fn object(&mut self, name: &str, schema: &'s Value) -> String {
        let properties = schema.get("properties").and_then(Value::as_object).filter(|list| !list.is_empty());
        let Some(properties) = properties else {
            return match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => "\"{}\"".to_owned(),
                Some(other) if other.is_object() => {
                    let value = self.rule(other);
                    let member = format!("ANY_KEY \":\" {value}");
                    format!("\"{{\" ({member} (\",\" {member})*)? \"}}\"")
                }
                _ => "any_object".to_owned(),
            };
        };
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut members: Vec<(&String, &'s Value)> = properties.iter().collect();
        members.sort_by_cached_key(|(key, _)| key.to_lowercase());
        // with and without a member before them
        let (mut rest, mut first) = ("\"\"".to_owned(), "\"\"".to_owned());
        for (number, (key, value)) in members.into_iter().enumerate().rev() {
            let value = self.rule(value);
            let optional = !required.iter().any(|required| required == key);
            let member = format!("{} {value}", quoted(&format!("{key}:")));
            let often = if optional { "?" } else { "" };
            let skipped = if optional { format!(" | {first}") } else { String::new() };
            _ = write!(
                self.text,
                "{name}first{number}: {member} {rest}{skipped}\n{name}rest{number}: (\",\" {member}){often} {rest}\n"
            );
            (rest, first) = (format!("{name}rest{number}"), format!("{name}first{number}"));
        }
        format!("\"{{\" {first} \"}}\"")
    }

    /// A listed value.
    fn literal(&self, value: &Value) -> String {
        let list = |parts: Vec<String>, [open, close]: [&str; 2]| {
            format!("{} {} {}", quoted(open), parts.join(" \",\" "), quoted(close))
        };
        match value {
            Value::String(text) => format!("{0} {1} {0}", self.quote, quoted(text)),
            Value::Array(items) => list(items.iter().map(|item| self.literal(item)).collect(), ["[", "]"]),
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_cached_key(|(key, _)| key.to_lowercase());
                let parts = members
                    .into_iter()
                    .map(|(key, value)| format!("{} {}", quoted(&format!("{key}:")), self.literal(value)));
                list(parts.collect(), ["{", "}"])
            }
            scalar => quoted(&scalar.to_string()),
        }
    }
}
