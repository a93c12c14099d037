//! The tools that a request offers: their names, and the types of their parameters.

use serde_json::Value;

/// Tools in the form of the `OpenAI` API: objects with a `function` of `name` and `parameters`.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    functions: Vec<Tool>,
}

/// One tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its parameters; null if there is none.
    pub schema: Value,
    /// True if its calls must match the schema.
    pub strict: bool,
}

/// The tool calls that an answer may or must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It calls none.
    None,
    /// The model decides.
    #[default]
    Auto,
    /// It calls at least one.
    Required,
    /// It calls the tool of this name.
    Named(String),
}

/// Limit of nested alternatives.
const DEEPEST: u32 = 8;

/// True if a schema admits strings. References are not followed.
pub(super) fn admits_text(schema: &Value) -> bool {
    admits(schema, "string", Value::is_string, 0)
}

/// True if a schema admits values of the type `name`, which `is` recognizes.
fn admits(schema: &Value, name: &str, is: fn(&Value) -> bool, depth: u32) -> bool {
    let named = match schema.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    };
    let listed = || schema.get("enum").and_then(Value::as_array).is_some_and(|list| list.iter().any(is));
    let constant = || schema.get("const").is_some_and(is);
    let alternative = || {
        let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| schema.get(word)?.as_array());
        depth < DEEPEST && lists.flatten().any(|schema| admits(schema, name, is, depth + 1))
    };
    named || listed() || constant() || alternative()
}

impl Tools {
    /// Reads tool descriptions; those without a name are ignored.
    #[must_use]
    pub fn new(tools: &[Value]) -> Self {
        let function = |tool: &Value| {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name")?.as_str()?.to_owned();
            let schema = function.get("parameters").cloned().unwrap_or(Value::Null);
            let strict = function.get("strict").and_then(Value::as_bool).unwrap_or(false);
            Some(Tool { name, schema, strict })
        };
        Self { functions: tools.iter().filter_map(function).collect() }
    }

    /// True if there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// True if there is a tool of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function.name == name)
    }

    /// The tools in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.functions.iter()
    }

    /// The JSON value of an argument given as text: a string if the schema admits one, otherwise the text parsed as JSON,
    /// or a string if it is not JSON.
    pub(super) fn value(&self, tool: &str, parameter: &str, text: &str) -> Value {
        let function = self.functions.iter().find(|function| function.name == tool);
        let parameters = function.map(|function| &function.schema);
        let schema = parameters.and_then(|schema| schema.get("properties")?.get(parameter));
        let none = |schema| text.trim() == "null" && admits(schema, "null", Value::is_null, 0);
        if schema.is_some_and(|schema| admits_text(schema) && !none(schema)) {
            return Value::from(text);
        }
        serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::from(text))
    }
}
