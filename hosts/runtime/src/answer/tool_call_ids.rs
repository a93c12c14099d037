//! Ids of tool calls in the form that a model's template accepts: Mistral's accept nine letters and digits only.
//!
//! Not here: the ids in answers, which each protocol makes itself.

use super::style::{CallStyle, Style};
use alloc::collections::VecDeque;
use serde_json::Value;

/// Characters of an id.
const LEN: usize = 9;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Replaces the ids of calls and results by ids that the template of a style accepts. Equal ids stay equal, and the same
/// conversation gets the same ids. A result without an id belongs to the next unanswered call of the last message.
pub fn normalize_tool_call_ids(style: Style, messages: &mut [Value]) {
    if style.calls != CallStyle::Bracketed {
        return;
    }
    let mut open = VecDeque::new();
    for (index, message) in messages.iter_mut().enumerate() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        if calls.is_some() {
            open.clear();
        }
        for (number, call) in calls.into_iter().flatten().enumerate() {
            let id = call["id"].as_str().map_or_else(|| short_id(&format!("{index} {number}")), short_id);
            call["id"] = id.as_str().into();
            open.push_back(id);
        }
        if message["role"] == "tool" {
            let answered = message.get("tool_call_id").and_then(Value::as_str).map(short_id);
            let id = match answered {
                Some(id) => {
                    open.retain(|open| *open != id);
                    Some(id)
                }
                None => open.pop_front(),
            };
            if let Some(id) = id {
                message["tool_call_id"] = id.into();
            }
        }
    }
}

/// An id of nine letters and digits, unchanged; for any other id, its 64-bit FNV-1a hash written as one.
fn short_id(id: &str) -> String {
    if id.len() == LEN && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let letter = |_| {
        let letter = LETTERS[usize::try_from(hash % 62).unwrap_or(0)];
        hash /= 62;
        char::from(letter)
    };
    (0..LEN).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MISTRAL: Style = Style { calls: CallStyle::Bracketed, thinking: None };

    fn conversation() -> Vec<Value> {
        let call = |id: Value| json!({ "id": id, "function": { "name": "f", "arguments": {} } });
        let result = |id: Value| json!({ "role": "tool", "tool_call_id": id, "content": "" });
        vec![
            json!({ "role": "user", "content": "q" }),
            json!({ "role": "assistant", "tool_calls": [call("call_1".into()), call("abcDEF789".into())] }),
            result("abcDEF789".into()),
            result("call_1".into()),
            json!({ "role": "assistant", "tool_calls": [call(Value::Null), call(Value::Null)] }),
            json!({ "role": "tool", "content": "" }),
            json!({ "role": "tool", "content": "" }),
        ]
    }

    #[test]
    fn calls_and_results_have_the_same_short_ids() {
        let mut messages = conversation();
        normalize_tool_call_ids(MISTRAL, &mut messages);
        let calls =
            [1, 4].map(|index| [0, 1].map(|number| messages[index]["tool_calls"][number]["id"].clone()));
        let results = [2, 3, 5, 6].map(|index: usize| messages[index]["tool_call_id"].clone());
        let [[first, second], [third, fourth]] = calls;
        assert_eq!(second, "abcDEF789");
        assert_eq!(results, [second.clone(), first.clone(), third.clone(), fourth.clone()]);
        for id in [&first, &third, &fourth] {
            let id = id.as_str().unwrap_or_default();
            assert!(id.len() == LEN && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
        assert!(first != third && third != fourth);
    }

    #[test]
    fn other_templates_get_what_the_client_wrote() {
        let mut messages = conversation();
        normalize_tool_call_ids(Style { calls: CallStyle::Hermes, thinking: None }, &mut messages);
        assert_eq!(messages, conversation());
    }
}
