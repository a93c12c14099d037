//! Rewrites conversations that a template refuses, so that their roles alternate and no system message is left.
//!
//! Not here: the choice among the rewrites (`chat` renders each until the template accepts one).

use serde_json::Value as Json;

/// Separator of two merged contents.
const SEPARATOR: &str = "\n\n";

/// The rewrites of a conversation, the smallest change first: neighbors of one role merged, the system message put into the
/// first turn of the user, and both.
pub(super) fn rewrites(messages: &[Json]) -> Vec<Vec<Json>> {
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

/// Merges neighboring messages of one role. Results of tools and messages with calls stay separate.
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

/// Puts the first message, if it is the system's, into the first turn of the user.
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

/// Appends the content and the reasoning of `more`.
fn append(message: &mut Json, more: &Json) {
    let Some(message) = message.as_object_mut() else { return };
    for field in ["content", "reasoning_content"] {
        let Some(more) = more.get(field) else { continue };
        let content = message.entry(field).or_insert(Json::Null);
        *content = joined(content.take(), more.clone());
    }
}

/// Joins two contents: two texts as a text, others as a list of parts.
fn joined(one: Json, other: Json) -> Json {
    match (one, other) {
        (Json::Null, other) => other,
        (one, Json::Null) => one,
        (Json::String(one), other) if one.is_empty() => other,
        (Json::String(one), Json::String(other)) if other.is_empty() => one.into(),
        (Json::String(one), Json::String(other)) => format!("{one}{SEPARATOR}{other}").into(),
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
    fn the_smallest_change_comes_first() {
        let messages = [
            message("system", "s"),
            message("user", "a"),
            message("user", "b"),
            message("assistant", "c"),
            message("user", "d"),
        ];
        let rest = [message("assistant", "c"), message("user", "d")];
        let conversation = |first: &[Json]| [first, &rest].concat();
        assert_eq!(
            rewrites(&messages),
            [
                conversation(&[message("system", "s"), message("user", "a\n\nb")]),
                conversation(&[message("user", "s\n\na"), message("user", "b")]),
                conversation(&[message("user", "s\n\na\n\nb")]),
            ]
        );
        assert!(rewrites(&rest).is_empty() && rewrites(&[]).is_empty());
    }

    #[test]
    fn a_system_message_alone_is_the_users_turn() {
        let messages = [message("system", "s"), message("assistant", "a")];
        assert_eq!(rewrites(&messages), [[message("user", "s"), message("assistant", "a")]]);
        // a later system message has no turn to go to
        assert!(rewrites(&[message("user", "a"), message("system", "s")]).is_empty());
    }

    #[test]
    fn calls_and_results_stay_apart() {
        let call = json!({ "role": "assistant", "content": "", "tool_calls": [{}] });
        let result = json!({ "role": "tool", "content": "1", "tool_call_id": "x" });
        assert!(rewrites(&[call.clone(), call, result.clone(), result]).is_empty());
    }

    #[test]
    fn parts_are_kept() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "image" }]);
        let messages = [json!({ "role": "user", "content": parts }), message("user", "b")];
        let expected =
            json!([{ "type": "text", "text": "a" }, { "type": "image" }, { "type": "text", "text": "b" }]);
        assert_eq!(rewrites(&messages)[0][0]["content"], expected);
        assert_eq!(joined(json!(""), json!("a")), "a");
        assert_eq!(joined(json!("a"), Json::Null), "a");
        let thoughts = json!({ "role": "assistant", "content": "b", "reasoning_content": "c" });
        assert_eq!(rewrites(&[message("assistant", "a"), thoughts])[0][0]["reasoning_content"], "c");
    }
}
