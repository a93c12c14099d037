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
fn stop_reasons_have_anthropics_names() {
    let server = Server::start(&Kind::default());
    let stop = server.post(PATH, &with(ask("[[one two]]"), json!({ "stop_sequences": ["x", " two"] }))).ok();
    assert_eq!((&stop["stop_reason"], &stop["stop_sequence"]), (&json!("stop_sequence"), &json!(" two")));
    let cut = server.post(PATH, &with(ask("[[one two]]"), json!({ "max_tokens": 2 }))).ok();
    assert_eq!(cut["stop_reason"], "max_tokens");
    let small = Server::start(&Kind { context: 64, ..Kind::default() });
    let full = small.post(PATH, &ask(&format!("[[{}]]", "Z".repeat(30)))).ok();
    assert_eq!(full["stop_reason"], "model_context_window_exceeded");
    let event =
        small.post(PATH, &with(ask(&format!("[[{}]]", "Z".repeat(30))), json!({ "stream": true }))).events();
    assert_eq!(event[event.len() - 2]["delta"]["stop_reason"], "model_context_window_exceeded");
}

#[test]
fn calls_are_blocks_with_objects() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[I ask.\n{CALL}]]")), json!({ "tools": tools() }));
    let answer = server.post(PATH, &body).ok();
    assert_eq!(answer["stop_reason"], "tool_use");
    assert_eq!(answer["content"][0]["text"], "I ask.");
    assert_eq!(answer["content"][1]["input"], json!({ "city": "Köln" }));
    assert!(answer["content"][1]["id"].as_str().unwrap().starts_with("toolu_"));
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

/// Claude Code shortens a conversation when it reads these words.
#[test]
fn a_prompt_that_is_too_long_is_refused_in_the_wording_of_anthropic() {
    let server = Server::start(&Kind { context: 128, ..Kind::default() });
    let refusal = server.post(PATH, &ask(&"x y z ".repeat(100)));
    assert_eq!(
        (refusal.status, refusal.json()["error"]["type"].as_str()),
        (400, Some("invalid_request_error"))
    );
    let message = refusal.json()["error"]["message"].as_str().unwrap().to_owned();
    let count = server.post("/v1/messages/count_tokens", &ask(&"x y z ".repeat(100))).ok();
    assert_eq!(message, format!("prompt is too long: {} tokens > 128 maximum", count["input_tokens"]));
    for (method, path, status) in [("GET", PATH, 405), ("POST", "/v1/messages/batches", 404)] {
        let refusal = server.send(method, path, &[], "");
        assert_eq!((refusal.status, &refusal.json()["type"]), (status, &json!("error")));
    }
}

#[test]
fn an_answer_has_the_form_that_is_asked_for() {
    let server = Server::start(&Kind::default());
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["x"] } }, "required": ["a"],
        "additionalProperties": false });
    let format = json!({ "type": "json_schema", "schema": schema });
    for fields in [
        json!({ "output_config": { "format": format, "effort": "low" } }),
        json!({ "output_format": format }),
    ] {
        let answer = server.post(PATH, &with(ask("[[no]]"), fields)).ok();
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({ "a": "x" }));
    }
    for config in
        [json!({ "format": { "type": "xml" } }), json!({ "format": { "type": "json_schema" } }), json!(1)]
    {
        assert_eq!(server.post(PATH, &with(ask("[[no]]"), json!({ "output_config": config }))).status, 400);
    }
    // the effort of reasoning is a variable of the template
    let template = "{{ reasoning_effort }}{% for m in messages %}{{ m.content }}{% endfor %}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let count = |fields| {
        server.post("/v1/messages/count_tokens", &with(ask("[[a]]"), fields)).ok()["input_tokens"]
            .as_u64()
            .unwrap()
    };
    assert!(count(json!({ "output_config": { "effort": "high" } })) > count(json!({})));
}

#[test]
fn tools_without_what_they_need_are_refused() {
    let server = Server::start(&Kind::default());
    for tool in [
        json!({ "name": "a" }),
        json!({ "name": "a", "parameters": {} }),
        json!({ "type": "custom", "name": "a" }),
        json!({ "input_schema": {} }),
        json!({ "name": "a", "input_schema": "x" }),
        json!(1),
    ] {
        assert_eq!(server.post(PATH, &with(ask("[[a]]"), json!({ "tools": [tool] }))).status, 400, "{tool}");
    }
}

#[test]
fn results_of_tools_and_blocks_are_accepted() {
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
