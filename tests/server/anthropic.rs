//! `/v1/messages`

use crate::chat::{CALL, with};
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

const PATH: &str = "/v1/messages";

fn ask(text: &str) -> Value {
    json!({ "model": "claude", "max_tokens": 500, "temperature": 0, "messages": [{ "role": "user", "content": text }] })
}

fn tools() -> Value {
    json!([{ "name": "weather", "input_schema": { "type": "object" } }, { "type": "web_search_20250305", "name": "web_search" }])
}

#[test]
fn an_answer_has_blocks() {
    let server = Server::start(&Kind::default());
    let answer = server.post(PATH, &ask("[[Grüße]]")).ok();
    assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(answer["content"], json!([{ "type": "text", "text": "Grüße" }]));
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    assert_eq!(answer["usage"]["output_tokens"], "Grüße".len());
    let again = server.post(PATH, &with(ask("[[Grüße]]"), json!({ "system": "long ".repeat(50) }))).ok();
    let cached = server.post(PATH, &with(ask("[[Grüße]]"), json!({ "system": "long ".repeat(50) }))).ok();
    let (usage, before) = (&cached["usage"], &again["usage"]);
    let sum = usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(before["input_tokens"], sum);
}

#[test]
fn ends_have_their_own_words() {
    let server = Server::start(&Kind::default());
    let stop = server.post(PATH, &with(ask("[[one two]]"), json!({ "stop_sequences": ["x", " two"] }))).ok();
    assert_eq!((&stop["stop_reason"], &stop["stop_sequence"]), (&json!("stop_sequence"), &json!(" two")));
    let cut = server.post(PATH, &with(ask("[[one two]]"), json!({ "max_tokens": 2 }))).ok();
    assert_eq!(cut["stop_reason"], "max_tokens");
}

#[test]
fn calls_are_blocks_with_objects() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[I ask.\n{CALL}]]")), json!({ "tools": tools() }));
    let answer = server.post(PATH, &body).ok();
    assert_eq!(answer["stop_reason"], "tool_use");
    assert_eq!(answer["content"][0]["text"], "I ask.");
    assert_eq!(answer["content"][1]["input"], json!({ "city": "Köln" }));
    let events = server.post(PATH, &with(body, json!({ "stream": true }))).events();
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(names[names.len() - 2..], ["message_delta", "message_stop"]);
    let starts: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "content_block_start")
        .map(|event| (event["index"].as_u64().unwrap(), event["content_block"]["type"].as_str().unwrap()))
        .collect();
    assert_eq!(starts, [(0, "text"), (1, "tool_use")]);
    let partial: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(partial, "{\"city\":\"Köln\"}");
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn results_of_tools_and_blocks_are_taken() {
    let server = Server::start(&Kind::default());
    let body = json!({ "max_tokens": 100, "temperature": 0, "tools": tools(),
        "system": [{ "type": "text", "text": "s", "cache_control": { "type": "ephemeral" } }],
        "messages": [
            { "role": "user", "content": "q" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "" },
                { "type": "tool_use", "id": "toolu_1", "name": "weather", "input": { "city": "a" } }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "sunny" }] },
                { "type": "text", "text": "[[fine]]" }] },
        ] });
    assert_eq!(server.post(PATH, &body).ok()["content"][0]["text"], "fine");
}

#[test]
fn tokens_are_counted_and_errors_have_their_shape() {
    let server = Server::start(&Kind::default());
    let count =
        server.post("/v1/messages/count_tokens", &ask("[[a]]")).ok()["input_tokens"].as_u64().unwrap();
    let usage = server.post(PATH, &ask("[[a]]")).ok()["usage"].clone();
    assert_eq!(usage["input_tokens"], count);
    let refusal = server.post(PATH, &json!({ "messages": [] }));
    assert_eq!(refusal.status, 400);
    assert_eq!(refusal.json()["type"], "error");
    assert_eq!(refusal.json()["error"]["type"], "invalid_request_error");
    let image = with(ask("a"), json!({ "messages": [{ "role": "user", "content": [{ "type": "image" }] }] }));
    assert_eq!(server.post(PATH, &image).status, 400);
}
