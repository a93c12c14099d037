//! Tools for templates that print none: they are described in a text. If the template prints no calls either, calls and
//! results are texts in the convention of Hermes (`<tools>`, `<tool_call>`, `<tool_response>`), which models without tools
//! of their own know best. `crate::answer` reads such calls.

use super::arguments;
use super::merge::append;
use serde_json::{Value as Json, json};

/// Position of the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// At the end of the first message if it is the system's, else in a system message of its own.
    System,
    /// In front of the first turn of the user.
    User,
}

/// The description of tools, with the notation of calls if the template has none.
fn description(tools: &[Json], own_calls: bool) -> String {
    let mut text = String::from(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
         You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
    );
    for tool in tools {
        text.push_str(&tool.to_string());
        text.push('\n');
    }
    text.push_str("</tools>");
    if own_calls {
        return text;
    }
    text.push_str(
        "\n\nFor each function call, return a json object with function name and arguments within \
         <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n\
         </tool_call>",
    );
    text
}

/// The conversation with the description of its tools, and with calls and results as texts unless the template has calls
/// of its own.
pub(super) fn described(messages: &[Json], tools: &[Json], position: Position, own_calls: bool) -> Vec<Json> {
    let mut messages = if own_calls { messages.to_vec() } else { as_texts(messages) };
    let text = description(tools, own_calls);
    match position {
        Position::System => match messages.first_mut() {
            Some(first) if first["role"] == "system" || first["role"] == "developer" => {
                append(first, &json!({ "content": text }));
            }
            _ => messages.insert(0, json!({ "role": "system", "content": text })),
        },
        Position::User => {
            let mut described = json!({ "role": "user", "content": text });
            match messages.iter_mut().find(|message| message["role"] == "user") {
                Some(user) => {
                    append(&mut described, user);
                    *user = described;
                }
                None => messages.push(described),
            }
        }
    }
    messages
}

/// True if there are calls or results.
pub(super) fn has_calls(messages: &[Json]) -> bool {
    messages
        .iter()
        .any(|message| message["role"] == "tool" || message.get("tool_calls").is_some_and(Json::is_array))
}

/// The conversation with calls as texts of the assistant, and results as texts of the user.
pub(super) fn as_texts(messages: &[Json]) -> Vec<Json> {
    let mut texts: Vec<Json> = Vec::new();
    // true if the last turn is a user's with results
    let mut results = false;
    for message in messages {
        let result = message["role"] == "tool";
        let message = if result { result_text(message) } else { call_text(message) };
        match texts.last_mut().filter(|_| results && message["role"] == "user") {
            Some(last) => append(last, &message),
            None => texts.push(message),
        }
        results = result || results && texts.last().is_some_and(|last| last["role"] == "user");
    }
    texts
}

fn result_text(message: &Json) -> Json {
    let part = |text: &str| json!({ "type": "text", "text": text });
    let content = match message.get("content") {
        Some(Json::Array(parts)) => {
            let mut all = vec![part("<tool_response>\n")];
            all.extend(parts.iter().cloned());
            all.push(part("\n</tool_response>"));
            Json::Array(all)
        }
        Some(Json::String(content)) => format!("<tool_response>\n{content}\n</tool_response>").into(),
        _ => "<tool_response>\n</tool_response>".into(),
    };
    json!({ "role": "user", "content": content })
}

fn call_text(message: &Json) -> Json {
    let mut message = message.clone();
    let calls = message.as_object_mut().and_then(|fields| fields.remove("tool_calls"));
    for call in calls.as_ref().and_then(Json::as_array).into_iter().flatten() {
        let function = &call["function"];
        let arguments = match &function["arguments"] {
            Json::String(text) => arguments::object(text),
            other => arguments::wrapped(other.clone()),
        };
        let call = json!({ "name": function["name"], "arguments": arguments });
        append(&mut message, &json!({ "content": format!("<tool_call>\n{call}\n</tool_call>") }));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_results_are_texts() {
        let call = |name: &str, arguments: Json| json!({ "id": "x", "function": { "name": name, "arguments": arguments } });
        let messages = [
            json!({ "role": "user", "content": "q" }),
            json!({ "role": "assistant", "content": "t", "tool_calls": [call("f", json!("{\"a\": 1}")), call("g", Json::Null)] }),
            json!({ "role": "tool", "content": "r" }),
            json!({ "role": "tool", "content": [{ "type": "text", "text": "s" }] }),
            json!({ "role": "user", "content": "u" }),
            json!({ "role": "user", "content": "v" }),
        ];
        let part = |text: &str| json!({ "type": "text", "text": text });
        let (open, close) = (part("<tool_response>\n"), part("\n</tool_response>"));
        let all =
            [part("<tool_response>\nr\n</tool_response>"), open, part("s"), close, part("u"), part("v")];
        let calls = "t\n\n<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n\n\
                     <tool_call>\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call>";
        let expected = [
            json!({ "role": "user", "content": "q" }),
            json!({ "role": "assistant", "content": calls }),
            json!({ "role": "user", "content": all }),
        ];
        assert_eq!(as_texts(&messages), expected);
        assert!(has_calls(&messages) && has_calls(&messages[2..3]) && !has_calls(&messages[..1]));
    }

    #[test]
    fn tools_are_described_in_the_system_text_or_in_the_first_turn() {
        let tools = [json!({ "type": "function", "function": { "name": "f" } })];
        let user = json!({ "role": "user", "content": "q" });
        let system = json!({ "role": "system", "content": "s" });
        let text = description(&tools, false);
        assert!(
            text.starts_with(&description(&tools, true))
                && !description(&tools, true).contains("<tool_call>")
        );
        assert!(text.contains("<tools>\n{\"type\":\"function\",\"function\":{\"name\":\"f\"}}\n</tools>"));
        let both = [system, user.clone()];
        assert_eq!(described(&both, &tools, Position::System, false)[0]["content"], format!("s\n\n{text}"));
        let alone = described(&both[1..], &tools, Position::System, false);
        assert_eq!(alone, [json!({ "role": "system", "content": text }), user.clone()]);
        let in_turn = described(&both[1..], &tools, Position::User, false);
        assert_eq!(in_turn, [json!({ "role": "user", "content": format!("{text}\n\nq") })]);
    }
}
