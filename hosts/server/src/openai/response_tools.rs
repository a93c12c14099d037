//! The tools of a request of the Responses API as functions, and the form in which their calls come back.
//!
//! Functions of a namespace are offered under both names, joined. A custom tool, whose input is free text, is offered as a
//! function with one parameter.

use super::chat_input;
use crate::error::Failure;
use crate::fields::Fields;
use alloc::collections::BTreeMap;
use doorbell_runtime::answer::ToolChoice;
use serde_json::{Value, json};

/// The parameter that is the input of a custom tool.
const INPUT: &str = "input";

/// Types of tools that a server runs itself, and which this one doesn't have; models answer without them.
const HOSTED: [&str; 8] = [
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "mcp",
    "tool_search",
    "programmatic_tool_calling",
];

/// The form of a tool's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    Function,
    Custom,
}

/// A tool as the client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientTool {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) form: CallForm,
}

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct ResponseTools {
    /// Functions as in chat requests.
    functions: Vec<Value>,
    /// The tools behind the names of functions.
    tools: BTreeMap<String, ClientTool>,
}

/// The name under which a function is offered.
pub(super) fn offered_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None | Some("") => name.to_owned(),
        // some clients end the names of namespaces with the separator
        Some(namespace) if namespace.ends_with("__") => format!("{namespace}{name}"),
        Some(namespace) => format!("{namespace}__{name}"),
    }
}

impl ResponseTools {
    /// Reads the field `tools`.
    pub(super) fn of(fields: &Fields<'_>) -> Result<Self, Failure> {
        let mut tools = Self::default();
        for (index, tool) in fields.list("tools")?.unwrap_or_default().iter().enumerate() {
            tools.add(&Fields::of(tool, &format!("tools[{index}]"))?, None)?;
        }
        Ok(tools)
    }

    fn add(&mut self, tool: &Fields<'_>, namespace: Option<&str>) -> Result<(), Failure> {
        match tool.text("type")?.unwrap_or("function") {
            "function" => self.function(tool, namespace),
            "custom" => self.custom(tool, namespace),
            "namespace" if namespace.is_none() => self.namespace(tool),
            hosted if namespace.is_none() && HOSTED.contains(&hosted) => {
                tracing::debug!(tool = hosted, "not offered: this server runs no tools");
                Ok(())
            }
            other => {
                Err(tool.wrong("type", format_args!("{other:?} tools are not supported by this server")))
            }
        }
    }

    fn namespace(&mut self, tool: &Fields<'_>) -> Result<(), Failure> {
        let namespace = name(tool)?;
        let first = self.functions.len();
        for (index, inner) in tool.list("tools")?.unwrap_or_default().iter().enumerate() {
            let path = tool.name(&format!("tools[{index}]"));
            self.add(&Fields::of(inner, &path)?, Some(namespace))?;
        }
        // templates have no place for it but the description of a function
        if let Some(all) = tool.text("description")?.filter(|text| !text.is_empty())
            && let Some(function) = self.functions.get_mut(first)
        {
            let own = function["function"]["description"].as_str().unwrap_or_default();
            let both = format!("{own}\n\nAll functions of {namespace}: {all}");
            function["function"]["description"] = both.trim_start().into();
        }
        Ok(())
    }

    fn function(&mut self, tool: &Fields<'_>, namespace: Option<&str>) -> Result<(), Failure> {
        let parameters = tool.object("parameters")?.cloned().map(Value::Object);
        let mut function = json!({ "parameters": parameters.unwrap_or_else(|| json!({ "type": "object" })) });
        if let Some(description) = tool.text("description")? {
            function["description"] = description.into();
        }
        if tool.flag("strict")? == Some(true) {
            function["strict"] = true.into();
        }
        self.offer(tool, namespace, CallForm::Function, function)
    }

    fn custom(&mut self, tool: &Fields<'_>, namespace: Option<&str>) -> Result<(), Failure> {
        let mut description = tool.text("description")?.unwrap_or_default().to_owned();
        let mut input = json!({ "type": "string" });
        let mut strict = false;
        if let Some(format) = tool.object("format")? {
            let path = tool.name("format");
            let format = Value::from(format.clone());
            let format = Fields::of(&format, &path)?;
            match format.text("type")?.unwrap_or("text") {
                "text" => {}
                "grammar" => {
                    let definition = format.text("definition")?;
                    let definition = definition.ok_or_else(|| format.wrong("definition", "is missing"))?;
                    let syntax = format.text("syntax")?.unwrap_or("lark");
                    match syntax {
                        "regex" => {
                            input["pattern"] = format!("^(?:{definition})$").into();
                            strict = true;
                        }
                        "lark" => {}
                        _ => return Err(format.wrong("syntax", "must be lark or regex")),
                    }
                    description
                        .push_str(&format!("\n\nThe input matches this {syntax} grammar:\n{definition}"));
                }
                other => return Err(format.wrong("type", format_args!("{other:?} is not known"))),
            }
        }
        let function = json!({
            "description": description.trim_start(),
            "parameters": {
                "type": "object", "properties": { INPUT: input }, "required": [INPUT],
                "additionalProperties": false,
            },
            "strict": strict,
        });
        self.offer(tool, namespace, CallForm::Custom, function)
    }

    /// Appends a function. Two tools that would have the same name are an error, since a call could not come back.
    fn offer(
        &mut self,
        tool: &Fields<'_>,
        namespace: Option<&str>,
        form: CallForm,
        mut function: Value,
    ) -> Result<(), Failure> {
        let own = name(tool)?;
        let offered = offered_name(namespace, own);
        let client = ClientTool { namespace: namespace.map(ToOwned::to_owned), name: own.to_owned(), form };
        if self.tools.get(&offered).is_some_and(|other| *other != client) {
            let message = format_args!("{offered} is the name of another tool, too");
            return Err(tool.wrong("name", message));
        }
        function["name"] = offered.as_str().into();
        self.functions.push(json!({ "type": "function", "function": function }));
        self.tools.insert(offered, client);
        Ok(())
    }

    /// The functions, and the calls that the field `tool_choice` allows.
    pub(super) fn chosen(self, fields: &Fields<'_>) -> Result<(Vec<Value>, ToolChoice), Failure> {
        let choice = fields.get("tool_choice").map(|choice| self.choice(choice));
        let mut functions = self.functions;
        let choice = chat_input::tool_choice_of(fields, choice.as_ref(), &mut functions)?;
        Ok((functions, choice))
    }

    /// A `tool_choice` with the names of functions.
    fn choice(&self, choice: &Value) -> Value {
        let mut choice = choice.clone();
        if let Some(tools) = choice.get_mut("tools").and_then(Value::as_array_mut) {
            tools.iter_mut().for_each(|tool| *tool = self.choice(tool));
        } else if let Some(name) = choice.get("name").and_then(Value::as_str) {
            let namespace = choice.get("namespace").and_then(Value::as_str);
            choice["name"] = self.offered(namespace, name).into();
        }
        choice
    }

    /// The name of the function that a client means: the one of that name, or else the only one of a namespace.
    fn offered(&self, namespace: Option<&str>, name: &str) -> String {
        let joined = offered_name(namespace, name);
        if self.tools.contains_key(&joined) {
            return joined;
        }
        let mut within = self.tools.iter().filter(|(_, tool)| tool.name == name);
        match (namespace, within.next(), within.next()) {
            (None, Some((offered, _)), None) => offered.clone(),
            _ => joined,
        }
    }

    /// The tool behind a function that was called.
    pub(super) fn called(&self, function: &str) -> ClientTool {
        let plain = || ClientTool { namespace: None, name: function.to_owned(), form: CallForm::Function };
        self.tools.get(function).cloned().unwrap_or_else(plain)
    }
}

fn name<'j>(tool: &Fields<'j>) -> Result<&'j str, Failure> {
    let name = tool.text("name")?.filter(|name| !name.is_empty());
    name.ok_or_else(|| tool.wrong("name", "is missing"))
}

/// The arguments of the function that stands for a custom tool.
pub(super) fn arguments_of_input(input: &str) -> String {
    json!({ INPUT: input }).to_string()
}

/// The input of a custom tool, from the arguments of its function. Of arguments that were cut, what there is.
pub(super) fn input_of_arguments(arguments: &str) -> String {
    let read = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(mut object)) => match object.remove(INPUT) {
            Some(Value::String(input)) if object.is_empty() => Some(input),
            _ => None,
        },
        _ => None,
    };
    // an escape at the end, of up to eleven bytes, may have been cut off
    let cut = |dropped: usize| {
        let (kept, escape) = arguments.split_at_checked(arguments.len().checked_sub(dropped)?)?;
        (escape.is_empty() || escape.starts_with('\\')).then(|| read(&format!("{kept}\"}}")))?
    };
    read(arguments).or_else(|| (0..12).find_map(cut)).unwrap_or_else(|| arguments.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_of_cut_arguments_is_what_there_is() {
        for (arguments, input) in [
            (r#"{"input":"a\nb"}"#, "a\nb"),
            (r#"{"input": "a\nb"#, "a\nb"),
            (r#"{"input": "a\"#, "a"),
            (r#"{"input": "a\ud83d\ude"#, "a"),
            (r#"{"input": "ü"#, "ü"),
            (r#"{"input":"a","b":1}"#, r#"{"input":"a","b":1}"#),
            (r#"{"input":"a","b":1"#, r#"{"input":"a","b":1"#),
            ("", ""),
        ] {
            assert_eq!(input_of_arguments(arguments), input, "{arguments}");
        }
        assert_eq!(input_of_arguments(&arguments_of_input("x\"\n")), "x\"\n");
    }
}
