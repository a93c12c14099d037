//! Conversations that a template refuses, told again with the roles that it wants. What it wants is the template's
//! matter: the result is tried on it.

use serde_json::Value as Json;

/// What stands between two contents that become one.
const BETWEEN: &str = "\n\n";

/// The conversation told again, the nearest to the original first: messages of one role merged, the system message
/// folded into the first turn of the user, both.
pub(super) fn retold(messages: &[Json]) -> Vec<Vec<Json>> {
    let (merged, folded) = (merge(messages), fold(messages));
    let both = merge(&fold(&merged));
    let mut all: Vec<Vec<Json>> = Vec::new();
    for other in [merged, folded, both] {
        if other != messages && !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

/// Neighbors of one role as one message. Results of tools answer one call each, and calls belong to one turn: they
/// stay.
fn merge(messages: &[Json]) -> Vec<Json> {
    let mut merged: Vec<Json> = Vec::new();
    for message in messages {
        match merged.last_mut() {
            Some(last) if joins(last, message) => append(last, message),
            _ => merged.push(message.clone()),
        }
    }
    merged
}

fn joins(one: &Json, other: &Json) -> bool {
    let calls = |message: &Json| message.get("tool_calls").is_some();
    one["role"] == other["role"] && one["role"] != "tool" && !calls(one) && !calls(other)
}

/// The first message, if it's of the system, in front of the first turn of the user.
fn fold(messages: &[Json]) -> Vec<Json> {
    let Some((system, rest)) = messages.split_first().filter(|(first, _)| first["role"] == "system") else {
        return messages.to_vec();
    };
    let mut first = system.clone();
    if let Some(first) = first.as_object_mut() {
        first.insert("role".into(), "user".into());
    }
    let rest = match rest.split_first() {
        Some((user, rest)) if user["role"] == "user" => {
            append(&mut first, user);
            rest
        }
        _ => rest,
    };
    core::iter::once(first).chain(rest.iter().cloned()).collect()
}

/// Adds the content of `more`, and what was thought before it.
fn append(message: &mut Json, more: &Json) {
    let Some(message) = message.as_object_mut() else { return };
    for field in ["content", "reasoning_content"] {
        let Some(more) = more.get(field) else { continue };
        let content = message.entry(field).or_insert(Json::Null);
        *content = joined(content.take(), more.clone());
    }
}

/// Two contents in one: texts as a text, else as a list of parts.
fn joined(one: Json, other: Json) -> Json {
    match (one, other) {
        (Json::Null, other) => other,
        (one, Json::Null) => one,
        (Json::String(one), other) if one.is_empty() => other,
        (Json::String(one), Json::String(other)) if other.is_empty() => one.into(),
        (Json::String(one), Json::String(other)) => format!("{one}{BETWEEN}{other}").into(),
        (one, other) => {
            let parts = |content: Json| match content {
                Json::Array(parts) => parts,
                text => vec![Json::from_iter([("type", "text".into()), ("text", text)])],
            };
            parts(one).into_iter().chain(parts(other)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(role: &str, content: &str) -> Json {
        json!({ "role": role, "content": content })
    }

    #[test]
    fn the_nearest_comes_first() {
        let messages = [
            message("system", "s"),
            message("user", "a"),
            message("user", "b"),
            message("assistant", "c"),
            message("user", "d"),
        ];
        let rest = [message("assistant", "c"), message("user", "d")];
        let told = |first: &[Json]| [first, &rest].concat();
        assert_eq!(
            retold(&messages),
            [
                told(&[message("system", "s"), message("user", "a\n\nb")]),
                told(&[message("user", "s\n\na"), message("user", "b")]),
                told(&[message("user", "s\n\na\n\nb")]),
            ]
        );
        assert!(retold(&rest).is_empty() && retold(&[]).is_empty());
    }

    #[test]
    fn a_system_message_alone_is_the_users_turn() {
        let messages = [message("system", "s"), message("assistant", "a")];
        assert_eq!(retold(&messages), [[message("user", "s"), message("assistant", "a")]]);
        // one in the midst of a conversation has no turn to go to
        assert!(retold(&[message("user", "a"), message("system", "s")]).is_empty());
    }

    #[test]
    fn calls_and_results_stay_apart() {
        let call = json!({ "role": "assistant", "content": "", "tool_calls": [{}] });
        let result = json!({ "role": "tool", "content": "1", "tool_call_id": "x" });
        assert!(retold(&[call.clone(), call, result.clone(), result]).is_empty());
    }

    #[test]
    fn parts_are_kept() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "image" }]);
        let messages = [json!({ "role": "user", "content": parts }), message("user", "b")];
        let expected =
            json!([{ "type": "text", "text": "a" }, { "type": "image" }, { "type": "text", "text": "b" }]);
        assert_eq!(retold(&messages)[0][0]["content"], expected);
        assert_eq!(joined(json!(""), json!("a")), "a");
        assert_eq!(joined(json!("a"), Json::Null), "a");
        let thoughts = json!({ "role": "assistant", "content": "b", "reasoning_content": "c" });
        assert_eq!(retold(&[message("assistant", "a"), thoughts])[0][0]["reasoning_content"], "c");
    }
}
