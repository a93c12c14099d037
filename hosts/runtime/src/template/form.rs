//! Messages in the form that a template prints: contents as texts or as lists of parts, arguments of calls as objects or
//! as texts, beside a content that is empty or none. Which one it is, is tried out.

use serde_json::{Map, Value as Json, json};

/// What is rendered to see whether it shows.
const PROBE: &str = "probe";

/// How a template wants messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// It prints contents that are lists of parts, and none that are texts.
    parts: bool,
    /// It prints arguments that are texts, and none that are objects.
    texts: bool,
    /// It prints calls beside no content, and none beside an empty one.
    absent: bool,
}

impl Form {
    /// The first form in which what it is about shows. `render` gives the text of a conversation, if there is one.
    pub(super) fn find(render: impl Fn(Self, &[Json]) -> Option<String>) -> Self {
        let mut form = Self::default();
        let user = [json!({ "role": "user", "content": PROBE })];
        let shows = |form: Self| render(form, &user).is_some_and(|text| text.contains(PROBE));
        form.parts = !shows(form) && shows(Self { parts: true, ..form });
        let call = json!({ "name": "f", "arguments": { PROBE: PROBE } });
        let called = [
            json!({ "role": "user", "content": "q" }),
            json!({ "role": "assistant", "content": "",
                "tool_calls": [{ "id": "abcDEF123", "type": "function", "function": call }] }),
            json!({ "role": "tool", "name": "f", "tool_call_id": "abcDEF123", "content": "r" }),
        ];
        let forms = [(false, false), (false, true), (true, false), (true, true)];
        let mut forms = forms.into_iter().map(|(texts, absent)| Self { texts, absent, ..form });
        // an object in Python's own notation was not meant to be one
        let python = format!("'{PROBE}'");
        let told = |text: String| text.contains(PROBE) && !text.contains(&python);
        forms.find(|&form| render(form, &called).is_some_and(told)).unwrap_or(form)
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
        // clients leave out what a tool without parameters doesn't take
        if arguments.is_null() || arguments.as_str().is_some_and(|text| text.trim().is_empty()) {
            *arguments = json!({});
        }
        match arguments {
            Json::Object(_) if self.texts => *arguments = arguments.to_string().into(),
            Json::String(text) if !self.texts => {
                if let Ok(object @ Json::Object(_)) = serde_json::from_str(text) {
                    *arguments = object;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As templates do: `prints` is handed the assistant's content and the arguments.
    fn found(prints: impl Fn(&Json, &Json) -> Option<String>) -> Form {
        Form::find(|form, messages| {
            let messages: Vec<Json> = messages.iter().map(|message| form.message(message)).collect();
            match messages.get(1) {
                None => Some(messages[0]["content"].as_str()?.to_owned()),
                Some(own) => prints(&own["content"], &own["tool_calls"][0]["function"]["arguments"]),
            }
        })
    }

    #[test]
    fn calls_are_told_in_the_form_that_shows() {
        let json = |_: &Json, arguments: &Json| Some(arguments.to_string());
        assert_eq!(found(json), Form::default());
        let texts = |_: &Json, arguments: &Json| Some(arguments.as_str()?.to_owned());
        assert_eq!(found(texts), Form { texts: true, ..Form::default() });
        // an object printed as Python prints it
        let python = |_: &Json, arguments: &Json| {
            Some(arguments.as_str().map_or_else(|| arguments.to_string().replace('"', "'"), str::to_owned))
        };
        assert_eq!(found(python), Form { texts: true, ..Form::default() });
        let absent = |content: &Json, arguments: &Json| content.is_null().then(|| arguments.to_string());
        assert_eq!(found(absent), Form { absent: true, ..Form::default() });
        let both = |content: &Json, arguments: &Json| {
            Some(arguments.as_str().filter(|_| content.is_null()).unwrap_or_default().to_owned())
        };
        assert_eq!(found(both), Form { texts: true, absent: true, ..Form::default() });
        assert_eq!(found(|_, _| None), Form::default(), "none shows");
    }

    #[test]
    fn no_arguments_are_none_of_them() {
        for arguments in [json!(null), json!(""), json!(" \n"), json!("{}"), json!({})] {
            let message = json!({ "tool_calls": [{ "function": { "name": "f", "arguments": arguments } }] });
            let told = |form: Form| form.message(&message)["tool_calls"][0]["function"]["arguments"].clone();
            assert_eq!(told(Form::default()), json!({}), "{arguments}");
            assert_eq!(told(Form { texts: true, ..Form::default() }), "{}", "{arguments}");
        }
        let left_out = json!({ "tool_calls": [{ "function": { "name": "f" } }] });
        let told = Form::default().message(&left_out);
        assert_eq!(told["tool_calls"][0]["function"]["arguments"], json!({}));
        // what is no JSON stays what it is
        let broken = json!({ "tool_calls": [{ "function": { "name": "f", "arguments": "{\"a" } }] });
        assert_eq!(Form::default().message(&broken), broken);
    }
}
