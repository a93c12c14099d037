//! The form of messages that a template prints: contents as texts or as lists of parts, arguments of calls as objects or
//! as texts, with an empty content or none. Each template is tried with probe messages.

use super::arguments;
use serde_json::{Map, Value as Json, json};

/// A text that is rendered to see if it is printed.
const PROBE: &str = "probe";

/// The form of messages for a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageForm {
    /// It prints contents that are lists of parts, and none that are texts.
    parts: bool,
    /// It prints arguments that are texts, and none that are objects.
    texts: bool,
    /// It prints calls only if the content is null, not if it is empty.
    absent: bool,
    /// It prints arguments that are texts as they are, though it may print objects, too.
    any_text: bool,
    /// It fails without the optional fields of a tool.
    full_tools: bool,
    /// It fails with parameters of several types, or without the optional fields of a parameter.
    plain_parameters: bool,
    /// It prints calls.
    calls: bool,
    /// It prints reasoning beside calls from the field `thinking`, and not from `reasoning_content`.
    thinking: bool,
}

impl MessageForm {
    /// The first form in which the template prints the probes. `render` returns the text of a conversation in a form, if the
    /// template accepts it.
    pub(super) fn find(render: impl Fn(Self, &[Json]) -> Option<String>) -> Self {
        let mut form = Self::default();
        let user = [json!({ "role": "user", "content": PROBE })];
        let shows = |form: Self| render(form, &user).is_some_and(|text| text.contains(PROBE));
        form.parts = !shows(form) && shows(Self { parts: true, ..form });
        let call = json!({ "name": "f", "arguments": { PROBE: PROBE } });
        let mut called = [
            json!({ "role": "user", "content": "q" }),
            json!({ "role": "assistant", "content": "",
                "tool_calls": [{ "id": "abcDEF123", "type": "function", "function": call }] }),
            json!({ "role": "tool", "name": "f", "tool_call_id": "abcDEF123", "content": "r" }),
        ];
        let forms = [(false, false), (false, true), (true, false), (true, true)];
        let mut forms = forms.into_iter().map(|(texts, absent)| Self { texts, absent, ..form });
        // an object printed in Python's notation is a mistake of the form
        let python = format!("'{PROBE}'");
        let prints = |text: String| text.contains(PROBE) && !text.contains(&python);
        let found = forms.find(|&form| render(form, &called).is_some_and(prints));
        let mut form = Self { calls: found.is_some(), ..found.unwrap_or(form) };
        let cut = format!("{{\"{PROBE}\": \"cut");
        let [_, call, _] = &mut called;
        call["tool_calls"][0]["function"]["arguments"] = cut.as_str().into();
        let any_text = Self { any_text: true, ..form };
        form.any_text = render(any_text, &called).is_some_and(|text| text.contains(&cut));
        called[1]["tool_calls"][0]["function"]["arguments"] = json!({});
        called[1]["reasoning_content"] = PROBE.into();
        let shows = |form: Self| render(form, &called).is_some_and(|text| text.contains(PROBE));
        form.thinking = !shows(form) && shows(Self { thinking: true, ..form });
        form
    }

    /// This form, with the one of tools in which the template prints them. `render` as for [`Self::find`].
    pub(super) fn with_tools(self, render: impl Fn(Self, &[Json]) -> Option<String>) -> Self {
        let tools = [json!({ "type": "function", "function": { "name": PROBE } })];
        let full = Self { full_tools: true, ..self };
        let form = if render(self, &tools).is_none() && render(full, &tools).is_some() { full } else { self };
        let properties = json!({ "a": { "type": ["string", "null"] }, "b": { "type": "object" }, "c": { "type": "array" } });
        let parameters = json!({ "type": "object", "properties": properties, "required": ["a"] });
        let function = json!({ "name": PROBE, "description": "d", "parameters": parameters });
        let tools = [json!({ "type": "function", "function": function })];
        let plain = Self { plain_parameters: true, ..form };
        if render(form, &tools).is_none() && render(plain, &tools).is_some() { plain } else { form }
    }

    /// True if the template prints calls.
    pub(super) fn prints_calls(self) -> bool {
        self.calls
    }

    /// True if the template prints the name of a tool. `render` as for [`Self::find`].
    pub(super) fn prints_tools(self, render: impl Fn(Self, &[Json]) -> Option<String>) -> bool {
        let field = json!({ "type": "object", "properties": { "a": { "type": "string", "description": "b" } }, "required": ["a"] });
        let function = json!({ "name": PROBE, "description": "c", "parameters": field });
        let tools = [json!({ "type": "function", "function": function })];
        render(self, &tools).is_some_and(|text| text.contains(PROBE))
    }

    /// The description of a tool in this form: without a description that is null, and with the optional fields if the
    /// template needs them.
    pub(super) fn tool(self, tool: &Json) -> Json {
        let mut tool = tool.clone();
        let Some(function) = tool.get_mut("function").and_then(Json::as_object_mut) else { return tool };
        for (field, empty) in
            [("description", json!("")), ("parameters", json!({ "type": "object", "properties": {} }))]
        {
            if function.get(field).is_some_and(Json::is_null) {
                function.remove(field);
            }
            if self.full_tools {
                function.entry(field).or_insert(empty);
            }
        }
        if self.plain_parameters
            && let Some(parameters) = function.get_mut("parameters")
        {
            plain_properties(parameters);
        }
        tool
    }

    /// The message in this form.
    pub(super) fn message(self, message: &Json) -> Json {
        let mut message = message.clone();
        let calls = message.get_mut("tool_calls").and_then(Json::as_array_mut);
        let called = calls.as_ref().is_some_and(|calls| !calls.is_empty());
        for call in calls.into_iter().flatten() {
            if let Some(function) = call.get_mut("function").and_then(Json::as_object_mut) {
                self.arguments(function);
            }
        }
        if self.thinking && called {
            thinking(&mut message);
        }
        let Some(content) = message.get_mut("content") else { return message };
        if self.absent && called && *content == "" {
            *content = Json::Null;
        } else if self.parts
            && let Some(text) = content.as_str()
        {
            *content = json!([{ "type": "text", "text": text }]);
        }
        message
    }

    fn arguments(self, function: &mut Map<String, Json>) {
        let arguments = function.entry("arguments").or_insert(Json::Null);
        // clients may omit the arguments of a tool without parameters
        if arguments.is_null() || arguments.as_str().is_some_and(|text| text.trim().is_empty()) {
            *arguments = json!({});
        }
        *arguments = match arguments.take() {
            object @ Json::Object(_) if self.texts => object.to_string().into(),
            object @ Json::Object(_) => object,
            Json::String(text) => self.text(text),
            // lists, numbers and truth values
            other if self.any_text => other.to_string().into(),
            other => arguments::wrapped(other).into(),
        };
    }

    /// Arguments that are a text.
    fn text(self, text: String) -> Json {
        let object = arguments::object(&text);
        if !self.texts && serde_json::from_str::<Map<String, Json>>(&text).is_ok() {
            object.into()
        } else if self.any_text {
            text.into()
        } else if self.texts {
            Json::Object(object).to_string().into()
        } else {
            object.into()
        }
    }
}

/// Makes the schemas of an object's properties plain.
fn plain_properties(object: &mut Json) {
    let properties = object.get_mut("properties").and_then(Json::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        plain(property);
        if let Some(fields) = property.as_object_mut() {
            fields.entry("description").or_insert_with(|| "".into());
        }
    }
}

/// Makes a schema plain: one type, and the fields that describe what is in a list or an object.
fn plain(schema: &mut Json) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(ty) = fields.get_mut("type") {
        let chosen = match &*ty {
            Json::Array(types) => types.iter().find(|ty| *ty != "null" && ty.is_string()).cloned(),
            ty => Some(ty.clone()).filter(|ty| ty != "null"),
        };
        *ty = chosen.unwrap_or_else(|| "string".into());
    }
    match fields.get("type").and_then(Json::as_str) {
        Some("array") => plain(fields.entry("items").or_insert_with(|| json!({}))),
        Some("object") => {
            plain(fields.entry("additionalProperties").or_insert_with(|| json!({})));
            plain_properties(schema);
        }
        _ => {}
    }
}

/// Moves reasoning beside calls to the field `thinking`, with the content, since such templates refuse both.
fn thinking(message: &mut Json) {
    let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let (reasoning, content) = (text("reasoning_content"), text("content"));
    if reasoning.is_empty() || !text("thinking").is_empty() {
        return;
    }
    let separator = if content.is_empty() { "" } else { "\n\n" };
    message["thinking"] = format!("{reasoning}{separator}{content}").into();
    if !content.is_empty() {
        message["content"] = "".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of a template that prints the user's content, or the result of `prints` for the assistant's content and
    /// arguments.
    fn found(prints: impl Fn(&Json, &Json) -> Option<String>) -> MessageForm {
        MessageForm::find(|form, messages| {
            let messages: Vec<Json> = messages.iter().map(|message| form.message(message)).collect();
            match messages.get(1) {
                None => Some(messages[0]["content"].as_str()?.to_owned()),
                Some(own) => prints(&own["content"], &own["tool_calls"][0]["function"]["arguments"]),
            }
        })
    }

    #[test]
    fn calls_get_the_form_that_is_printed() {
        let json = |_: &Json, arguments: &Json| Some(arguments.to_string());
        let calls = MessageForm { calls: true, ..MessageForm::default() };
        assert_eq!(found(json), calls);
        let texts = |_: &Json, arguments: &Json| Some(arguments.as_str()?.to_owned());
        assert_eq!(found(texts), MessageForm { texts: true, any_text: true, ..calls });
        // an object printed as Python prints it
        let python = |_: &Json, arguments: &Json| {
            Some(arguments.as_str().map_or_else(|| arguments.to_string().replace('"', "'"), str::to_owned))
        };
        assert_eq!(found(python), MessageForm { texts: true, any_text: true, ..calls });
        let absent = |content: &Json, arguments: &Json| content.is_null().then(|| arguments.to_string());
        assert_eq!(found(absent), MessageForm { absent: true, ..calls });
        let both = |content: &Json, arguments: &Json| {
            Some(arguments.as_str().filter(|_| content.is_null()).unwrap_or_default().to_owned())
        };
        let expected = MessageForm { texts: true, absent: true, any_text: true, ..calls };
        assert_eq!(found(both), expected);
        assert_eq!(found(|_, _| None), MessageForm::default(), "none shows");
    }

    #[test]
    fn missing_arguments_are_an_empty_object() {
        for arguments in [json!(null), json!(""), json!(" \n"), json!("{}"), json!({})] {
            let message = json!({ "tool_calls": [{ "function": { "name": "f", "arguments": arguments } }] });
            let rendered =
                |form: MessageForm| form.message(&message)["tool_calls"][0]["function"]["arguments"].clone();
            assert_eq!(rendered(MessageForm::default()), json!({}), "{arguments}");
            assert_eq!(rendered(MessageForm { texts: true, ..MessageForm::default() }), "{}", "{arguments}");
        }
        let left_out = json!({ "tool_calls": [{ "function": { "name": "f" } }] });
        let message = MessageForm::default().message(&left_out);
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], json!({}));
        // a text that is no object is unchanged where it is printed, and an object elsewhere
        for text in ["{\"a", "null", "[1]"] {
            let broken = json!({ "tool_calls": [{ "function": { "name": "f", "arguments": text } }] });
            assert_eq!(MessageForm { any_text: true, ..MessageForm::default() }.message(&broken), broken);
            let repaired = MessageForm::default().message(&broken);
            assert!(repaired["tool_calls"][0]["function"]["arguments"].is_object(), "{text}");
        }
    }
}
