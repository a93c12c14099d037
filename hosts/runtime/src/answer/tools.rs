//! The tools that a request offers: their names, and the types of their parameters.

use serde_json::Value;

/// Tools in the form of the `OpenAI` API: objects with a `function` of `name` and `parameters`.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    functions: Vec<(String, Value)>,
}

impl Tools {
    /// Reads the descriptions; those without a name are left out.
    #[must_use]
    pub fn new(tools: &[Value]) -> Self {
        let function = |tool: &Value| {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name")?.as_str()?.to_owned();
            Some((name, function.get("parameters").cloned().unwrap_or(Value::Null)))
        };
        Self { functions: tools.iter().filter_map(function).collect() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Whether there is a tool of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.functions.iter().any(|(known, _)| known == name)
    }

    /// Names and JSON schemas of the parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.functions.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// The JSON value of an argument that came as text: a string as it stands where the schema wants one, else
    /// what it is in JSON, else again the text as it stands.
    pub(super) fn value(&self, tool: &str, parameter: &str, text: &str) -> Value {
        let schema = self.functions.iter().find(|(name, _)| name == tool).map(|(_, schema)| schema);
        let kind = schema.and_then(|schema| schema.get("properties")?.get(parameter)?.get("type"));
        let string = match kind {
            Some(Value::String(kind)) => kind == "string",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string") && text.trim() != "null",
            _ => false,
        };
        if string {
            return Value::from(text);
        }
        serde_json::from_str(text.trim()).unwrap_or_else(|_| Value::from(text))
    }
}
