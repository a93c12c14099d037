//! Rewrites conversations that a template refuses or loses texts of: system messages in the middle, several calls in one
//! message, text after the result of a tool, neighbors of one role.
//!
//! Not here: the choice among the rewrites (`chat` renders each until the template accepts one).

use serde_json::Value as Json;

/// Separator of two merged contents.
const SEPARATOR: &str = "\n\n";

/// One way to rewrite a conversation.
type Rewrite = fn(&[Json]) -> Vec<Json>;

/// The rewrites that keep every text and the author of each, the smallest change first: places of system messages, then
/// turns of the assistant and of tools.
pub(super) fn retellings(messages: &[Json]) -> Vec<Vec<Json>> {
    let systems = [messages.to_vec(), systems_in_turns(messages), systems_in_front(messages)];
    let turns: [Rewrite; 5] = [<[Json]>::to_vec, join_answers, text_in_results, one_call_each, |messages| {
        text_in_results(&one_call_each(&join_answers(messages)))
    }];
    let mut all: Vec<Vec<Json>> = Vec::new();
    for turn in turns {
        for messages_of_system in &systems {
            let other = turn(messages_of_system);
            if other != messages && !all.contains(&other) {
                all.push(other);
            }
        }
    }
    all
}

fn has_calls(message: &Json) -> bool {
    message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
}

fn is_system(message: &Json) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// The message under another role.
fn with_role(message: &Json, role: &str) -> Json {
    let mut message = message.clone();
    if let Some(fields) = message.as_object_mut() {
        fields.insert("role".into(), role.into());
    }
    message
}

/// Joins the system messages at the beginning, and puts later ones, marked, into turns of the user.
fn systems_in_turns(messages: &[Json]) -> Vec<Json> {
    let first = messages.iter().position(|message| !is_system(message)).unwrap_or(messages.len());
    let (systems, rest) = messages.split_at(first);
    let mut turns = systems_in_front(systems);
    // true if the last turn is a user's that waits for the rest of it
    let mut open = false;
    for message in rest {
        let user = message["role"] == "user";
        if is_system(message) {
            let message = marked(message);
            match turns.last_mut().filter(|last| last["role"] == "user") {
                Some(last) => append(last, &message),
                None => {
                    turns.push(message);
                    open = true;
                }
            }
            continue;
        }
        match turns.last_mut().filter(|_| user && open) {
            Some(last) => append(last, message),
            None => turns.push(message.clone()),
        }
        open = false;
    }
    turns
}

/// A system message as a text in the user's turn.
fn marked(message: &Json) -> Json {
    let mut marked = with_role(message, "user");
    match marked.get_mut("content") {
        Some(Json::String(text)) => *text = format!("<system>\n{text}\n</system>"),
        Some(Json::Array(parts)) => {
            let text = |text: &str| Json::from_iter([("type", "text"), ("text", text)]);
            parts.insert(0, text("<system>\n"));
            parts.push(text("\n</system>"));
        }
        _ => {}
    }
    marked
}

/// Joins all system messages to one at the beginning.
fn systems_in_front(messages: &[Json]) -> Vec<Json> {
    let mut systems = messages.iter().filter(|message| is_system(message));
    let mut front = systems.next().map(|message| with_role(message, "system"));
    for message in systems {
        if let Some(front) = &mut front {
            append(front, message);
        }
    }
    front.into_iter().chain(messages.iter().filter(|message| !is_system(message)).cloned()).collect()
}

/// Joins neighboring messages of the assistant, of which the last may have calls.
fn join_answers(messages: &[Json]) -> Vec<Json> {
    let mut joined: Vec<Json> = Vec::new();
    for message in messages {
        match joined.last_mut() {
            Some(last)
                if last["role"] == "assistant" && message["role"] == "assistant" && !has_calls(last) =>
            {
                append(last, message);
                if let (Some(last), Some(calls)) = (last.as_object_mut(), message.get("tool_calls")) {
                    last.insert("tool_calls".into(), calls.clone());
                }
            }
            _ => joined.push(message.clone()),
        }
    }
    joined
}

/// Puts the assistant's texts beside calls into messages of their own, before those with the calls.
pub(super) fn answers_before_calls(messages: &[Json]) -> Vec<Json> {
    let mut split = Vec::new();
    for message in messages {
        let text = match &message["content"] {
            Json::String(text) => !text.trim().is_empty(),
            content => content.is_array(),
        };
        if message["role"] != "assistant" || !has_calls(message) || !text {
            split.push(message.clone());
            continue;
        }
        split.push(Json::from_iter([("role", "assistant".into()), ("content", message["content"].clone())]));
        let mut calls = message.clone();
        calls["content"] = "".into();
        split.push(calls);
    }
    split
}

/// Puts the assistant's texts beside calls, marked, before the first result of the calls.
pub(super) fn answers_in_results(messages: &[Json]) -> Vec<Json> {
    let mut moved = messages.to_vec();
    for index in 1..moved.len() {
        let (before, after) = moved.split_at_mut(index);
        let (Some(answer), Some(result)) = (before.last_mut(), after.first_mut()) else { continue };
        if answer["role"] != "assistant" || !has_calls(answer) || result["role"] != "tool" {
            continue;
        }
        let Some(text) = answer["content"].as_str().filter(|text| !text.trim().is_empty()) else { continue };
        let mut marked = result.clone();
        marked["content"] = format!("<assistant>\n{text}\n</assistant>").into();
        append(&mut marked, result);
        *result = marked;
        answer["content"] = "".into();
    }
    moved
}

/// Appends the user's text after results of tools to the last result.
fn text_in_results(messages: &[Json]) -> Vec<Json> {
    let mut appended: Vec<Json> = Vec::new();
    for message in messages {
        match appended.last_mut() {
            Some(last) if last["role"] == "tool" && message["role"] == "user" => append(last, message),
            _ => appended.push(message.clone()),
        }
    }
    appended
}

/// Splits a message with several calls into one for each, followed by its result.
fn one_call_each(messages: &[Json]) -> Vec<Json> {
    let mut split = Vec::new();
    let mut rest = messages;
    while let Some((message, after)) = rest.split_first() {
        rest = after;
        let calls = message["tool_calls"].as_array().filter(|calls| calls.len() > 1);
        let Some(calls) = calls else {
            split.push(message.clone());
            continue;
        };
        let end = rest.iter().position(|message| message["role"] != "tool").unwrap_or(rest.len());
        let (results, after) = rest.split_at(end);
        rest = after;
        let mut results = results.to_vec();
        for (index, call) in calls.iter().enumerate() {
            let mut one = message.clone();
            if let Some(one) = one.as_object_mut() {
                one.insert("tool_calls".into(), Json::Array(vec![call.clone()]));
                if index > 0 {
                    // what precedes the calls is said once
                    one.insert("content".into(), "".into());
                    for reasoning in ["reasoning_content", "reasoning", "thinking"] {
                        one.remove(reasoning);
                    }
                }
            }
            split.push(one);
            let own =
                |result: &Json| call.get("id").is_some() && result.get("tool_call_id") == call.get("id");
            // results without an identifier are in the order of the calls
            let unnamed = |result: &Json| result.get("tool_call_id").is_none();
            let at = results.iter().position(own).or_else(|| results.iter().position(unnamed));
            split.extend(at.map(|at| results.remove(at)));
        }
        split.append(&mut results);
    }
    split
}

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
pub(super) fn append(message: &mut Json, more: &Json) {
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
    fn later_system_texts_are_marked_or_in_front() {
        let messages = [
            message("developer", "a"),
            message("system", "b"),
            message("user", "c"),
            message("system", "d"),
            message("assistant", "e"),
            message("system", "f"),
            message("user", "g"),
        ];
        let all = retellings(&messages);
        assert_eq!(
            all[0],
            [
                message("system", "a\n\nb"),
                message("user", "c\n\n<system>\nd\n</system>"),
                message("assistant", "e"),
                message("user", "<system>\nf\n</system>\n\ng"),
            ]
        );
        assert_eq!(
            all[1],
            [
                message("system", "a\n\nb\n\nd\n\nf"),
                message("user", "c"),
                message("assistant", "e"),
                message("user", "g")
            ]
        );
        assert!(retellings(&[message("system", "a"), message("user", "b")]).is_empty());
    }

    #[test]
    fn calls_are_split_with_their_results() {
        let call = |id: &str| json!({ "id": id, "function": { "name": id } });
        let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": id });
        let calls = |content: &str, calls: &[&str]| {
            let calls: Vec<Json> = calls.iter().map(|id| call(id)).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        };
        let messages = [calls("t", &["x", "y"]), result("y"), result("x"), message("user", "z")];
        let expected =
            [calls("t", &["x"]), result("x"), calls("", &["y"]), result("y"), message("user", "z")];
        assert_eq!(one_call_each(&messages), expected);
        let appended = json!({ "role": "tool", "tool_call_id": "x", "content": "x\n\nz" });
        assert_eq!(text_in_results(&messages)[2], appended);
        let apart = [message("assistant", "t"), calls("", &["x", "y"]), result("y")];
        assert_eq!(answers_before_calls(&messages)[..3], apart);
        let inside = answers_in_results(&messages);
        assert_eq!(inside[0], calls("", &["x", "y"]));
        assert_eq!(inside[1]["content"], "<assistant>\nt\n</assistant>\n\ny");
        assert_eq!(inside[2..], messages[2..]);
        let answers = [message("assistant", "a"), calls("b", &["x"]), result("x")];
        assert_eq!(join_answers(&answers), [calls("a\n\nb", &["x"]), result("x")]);
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
