//! The tools that a request offers: their names, and the types of their parameters.

use crate::constrain::ANNOTATIONS;
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

/// Limit of nested alternatives and references.
const DEEPEST: u32 = 8;

/// The schema of a parameter within the schema of all parameters, to which its references point.
#[derive(Clone, Copy)]
pub(super) struct Parameter<'s> {
    root: &'s Value,
    schema: &'s Value,
}

impl<'s> Parameter<'s> {
    /// Follows the references of `schema`, as far as they lead within `root`.
    pub(super) fn new(root: &'s Value, schema: &'s Value) -> Self {
        let mut parameter = Self { root, schema };
        for _ in 0..DEEPEST {
            let reference = parameter.schema.get("$ref").and_then(Value::as_str);
            let Some(target) = reference.and_then(|path| root.pointer(path.strip_prefix('#')?)) else {
                break;
            };
            parameter.schema = target;
        }
        parameter
    }

    /// The schema, without references at its top.
    pub(super) fn schema(self) -> &'s Value {
        self.schema
    }

    /// A schema within this one.
    pub(super) fn part(self, schema: &'s Value) -> Self {
        Self::new(self.root, schema)
    }

    /// True if it admits nothing but null.
    pub(super) fn is_null(self) -> bool {
        self.schema.get("type").is_some_and(|name| name == "null")
    }

    /// True if it admits null.
    pub(super) fn admits_null(self) -> bool {
        self.admits("null", Value::is_null, 0)
    }

    /// The alternatives that it lists, if it lists some and says no more than annotations beside them.
    pub(super) fn choices(self) -> Option<Vec<Self>> {
        let fields = self.schema.as_object()?;
        let (keyword, list) =
            fields.iter().find(|(keyword, _)| ["anyOf", "oneOf"].contains(&keyword.as_str()))?;
        let alone = fields.keys().all(|other| other == keyword || ANNOTATIONS.contains(&other.as_str()));
        alone.then(|| list.as_array().into_iter().flatten().map(|schema| self.part(schema)).collect())
    }

    /// True if it admits strings.
    pub(super) fn admits_text(self) -> bool {
        self.admits("string", Value::is_string, 0)
    }

    /// True if values are written as plain text: it admits strings, or declares no type.
    pub(super) fn is_text(self) -> bool {
        self.admits_text() || !self.declared(0)
    }

    fn alternatives(self) -> impl Iterator<Item = Self> {
        let lists =
            ["anyOf", "oneOf", "allOf"].iter().filter_map(move |word| self.schema.get(word)?.as_array());
        lists.flatten().map(move |schema| Self::new(self.root, schema))
    }

    /// True if it admits values of the type `name`, which `is` recognizes.
    fn admits(self, name: &str, is: fn(&Value) -> bool, depth: u32) -> bool {
        let named = match self.schema.get("type") {
            Some(Value::String(kind)) => kind == name,
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
            _ => false,
        };
        let listed = || self.listed().iter().any(is);
        let alternative =
            || depth < DEEPEST && self.alternatives().any(|schema| schema.admits(name, is, depth + 1));
        named || listed() || alternative()
    }

    /// True if it states which types of values it admits.
    fn declared(self, depth: u32) -> bool {
        const WORDS: [&str; 4] = ["type", "enum", "const", "properties"];
        WORDS.iter().any(|word| self.schema.get(word).is_some())
            || depth < DEEPEST && self.alternatives().any(|schema| schema.declared(depth + 1))
    }

    /// The values that it lists.
    pub(super) fn listed(self) -> &'s [Value] {
        let list = self.schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        list.or_else(|| self.schema.get("const").map(core::slice::from_ref)).unwrap_or_default()
    }

    /// The JSON value of a text. Models also write `True`, `False`, and `None`, as Python prints them.
    fn value(self, text: &str) -> Value {
        let word = text.trim();
        let null = self.admits("null", Value::is_null, 0);
        if self.admits_text() {
            let none =
                null && matches!(word, "null" | "None") && !self.listed().iter().any(|value| value == word);
            return if none { Value::Null } else { Value::from(text) };
        }
        let json = serde_json::from_str(word).ok();
        if !self.declared(0) {
            let json = json.filter(|json: &Value| json.is_object() || json.is_array());
            return json.unwrap_or_else(|| Value::from(text));
        }
        let truth = self.admits("boolean", Value::is_boolean, 0);
        match word {
            "True" if truth => Value::from(true),
            "False" if truth => Value::from(false),
            "None" => Value::Null,
            _ => json.unwrap_or_else(|| Value::from(text)),
        }
    }
}

impl FromIterator<Tool> for Tools {
    fn from_iter<I: IntoIterator<Item = Tool>>(tools: I) -> Self {
        Self { functions: tools.into_iter().collect() }
    }
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
    /// or a string if it is not JSON. Without a declared type only objects and lists are parsed.
    pub(super) fn value(&self, tool: &str, parameter: &str, text: &str) -> Value {
        let function = self.functions.iter().find(|function| function.name == tool);
        let root = function.map_or(&Value::Null, |function| &function.schema);
        let root = Parameter::new(root, root).schema();
        let schema = root.get("properties").and_then(|list| list.get(parameter));
        let root = function.map_or(&Value::Null, |function| &function.schema);
        Parameter::new(root, schema.unwrap_or(&Value::Null)).value(text)
    }
}
