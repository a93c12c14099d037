//! `/api/...`

use crate::chat::{CALL, weather};
use crate::client::{Answer, Server};
use crate::serving::Kind;
use serde_json::{Value, json};

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ask(text: &str) -> Value {
    json!({ "model": "scripted", "messages": [{ "role": "user", "content": text }], "options": { "temperature": 0 } })
}

#[test]
fn answers_stream_as_lines_unless_not_wanted() {
    let server = Server::start(&Kind::default());
    let lines = lines(&server.post("/api/chat", &ask("[[Grüße]]")));
    let text: String = lines.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, "Grüße");
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert_eq!(last["eval_count"], "Grüße".len());
    assert!(last["total_duration"].as_u64().unwrap() > 0);
    let mut whole = ask("[[abc]]");
    whole["stream"] = false.into();
    whole["options"]["num_predict"] = 2.into();
    let whole = server.post("/api/chat", &whole).ok();
    assert_eq!((&whole["message"]["content"], &whole["done_reason"]), (&json!("ab"), &json!("length")));
}

#[test]
fn calls_have_objects() {
    let server = Server::start(&Kind::default());
    let mut body = ask(&format!("[[{CALL}]]"));
    body["tools"] = weather();
    let lines = lines(&server.post("/api/chat", &body));
    let calls: Vec<&Value> = lines.iter().filter_map(|line| line["message"]["tool_calls"].get(0)).collect();
    assert_eq!(calls, [&json!({ "function": { "name": "weather", "arguments": { "city": "Köln" } } })]);
}

#[test]
fn prompts_are_completed_with_and_without_the_template() {
    let server = Server::start(&Kind::default());
    for raw in [true, false] {
        let body = json!({ "prompt": "[[abc]]", "raw": raw, "stream": false, "options": { "temperature": 0, "seed": 1 } });
        assert_eq!(server.post("/api/generate", &body).ok()["response"], "abc");
    }
    let body =
        json!({ "prompt": "[[no]]", "format": "json", "stream": false, "options": { "num_predict": 100 } });
    let text = server.post("/api/generate", &body).ok()["response"].as_str().unwrap().to_owned();
    assert!(text.trim_start().starts_with('{'), "{text}");
    let load = server.post("/api/generate", &json!({ "model": "scripted" })).ok();
    assert_eq!(load["done_reason"], "load");
}

#[test]
fn models_are_described() {
    let server = Server::start(&Kind::default());
    assert_eq!(server.get("/api/tags").ok()["models"][0]["name"], "scripted");
    assert_eq!(server.get("/api/ps").ok()["models"][0]["model"], "scripted");
    assert!(server.get("/api/version").ok()["version"].is_string());
    let show = server.post("/api/show", &json!({ "model": "scripted" })).ok();
    assert_eq!(show["details"]["family"], "qwen3");
    assert_eq!(show["model_info"]["general.architecture"], "qwen3");
    let missing = server.post("/api/show", &json!({ "model": "other" }));
    assert_eq!((missing.status, missing.json()["error"].is_string()), (404, true));
    assert_eq!(server.post("/api/pull", &json!({})).status, 501);
}
