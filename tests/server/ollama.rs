//! `/api/...`

use crate::chat::{CALL, weather, with};
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

/// Clients expect an object in every case.
#[test]
fn a_call_that_is_cut_has_an_object_all_the_same() {
    let server = Server::start(&Kind::default());
    for stream in [true, false] {
        let mut body = ask(&format!("[[{CALL}]]"));
        body["tools"] = weather();
        body["stream"] = stream.into();
        body["options"]["num_predict"] = CALL.find('ö').unwrap().into();
        let answer = server.post("/api/chat", &body);
        let calls = answer.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let calls: Vec<Value> =
            calls.filter_map(|line| line["message"]["tool_calls"].get(0).cloned()).collect();
        assert_eq!(
            calls,
            [json!({ "function": { "name": "weather", "arguments": { "arguments": "{\"city\":\"K" } } })]
        );
    }
}

#[test]
fn likely_tokens_are_reported() {
    let server = Server::start(&Kind::default());
    let mut body = with(ask("[[ab北]]"), json!({ "logprobs": true, "top_logprobs": 2 }));
    let streamed = lines(&server.post("/api/chat", &body));
    let streamed: Vec<Value> =
        streamed.iter().filter_map(|line| line["logprobs"].as_array()).flatten().cloned().collect();
    assert_eq!(streamed.len(), "ab北".len());
    assert_eq!(
        (&streamed[0]["token"], streamed[0]["top_logprobs"].as_array().unwrap().len()),
        (&json!("a"), 2)
    );
    assert!(streamed[0]["logprob"].as_f64().unwrap() <= 0.0);
    body["stream"] = false.into();
    assert_eq!(server.post("/api/chat", &body).ok()["logprobs"], json!(streamed));
    let body = json!({ "prompt": "[[ab]]", "logprobs": true, "options": { "temperature": 0 } });
    let streamed = lines(&server.post("/api/generate", &body));
    assert_eq!(streamed.iter().filter_map(|line| line["logprobs"].as_array()).flatten().count(), 2);
    assert!(streamed.iter().all(|line| line["message"].is_null()));
    assert!(
        lines(&server.post("/api/chat", &ask("[[a]]"))).iter().all(|line| line.get("logprobs").is_none())
    );
}

/// `context` is the memory of clients that use `/api/generate`.
#[test]
fn a_context_goes_on() {
    let server = Server::start(&Kind::default());
    let ask = |prompt: &str, context: &Value| json!({ "prompt": prompt, "context": context, "options": { "temperature": 0 } });
    let first = lines(&server.post("/api/generate", &ask("[[one]]", &Value::Null)));
    let first = first.last().unwrap();
    let context = &first["context"];
    let length = first["prompt_eval_count"].as_u64().unwrap() + first["eval_count"].as_u64().unwrap();
    // the answer and the token that ends it
    assert_eq!(context.as_array().unwrap().len() as u64, length + 1);
    let text = server.post("/detokenize", &json!({ "tokens": context })).ok()["content"].clone();
    assert_eq!(text, "<|im_start|>user\n[[one]]<|im_end|>\n<|im_start|>assistant\none<|im_end|>");
    let mut body = ask("[[two]]", context);
    body["stream"] = false.into();
    let second = server.post("/api/generate", &body).ok();
    assert_eq!(second["response"], "two");
    let alone = server.post("/api/generate", &with(body.clone(), json!({ "context": [] }))).ok();
    let count = |answer: &Value| answer["prompt_eval_count"].as_u64().unwrap();
    assert_eq!(count(&second), count(&alone) + length + 1);
    let grown = second["context"].as_array().unwrap();
    assert_eq!(grown[..context.as_array().unwrap().len()], *context.as_array().unwrap());
    // a raw prompt has no context
    let raw = server.post("/api/generate", &json!({ "prompt": "[[a]]", "raw": true, "stream": false })).ok();
    assert!(raw.get("context").is_none());
    for fields in [
        json!({ "context": [512] }),
        json!({ "context": ["a"] }),
        json!({ "raw": true }),
        json!({ "raw": true, "context": [], "system": "s" }),
    ] {
        assert_eq!(server.post("/api/generate", &with(body.clone(), fields.clone())).status, 400, "{fields}");
    }
}

/// Refused rather than answered in part.
#[test]
fn what_a_prompt_can_not_have_is_refused() {
    let server = Server::start(&Kind::default());
    for fields in [
        json!({ "images": ["aGk="] }),
        json!({ "template": "{{ .Prompt }}" }),
        json!({ "think": 3 }),
        json!({ "format": "yaml" }),
        json!({ "top_logprobs": 21, "logprobs": true }),
    ] {
        let refusal = server.post("/api/generate", &with(json!({ "prompt": "[[a]]" }), fields.clone()));
        assert_eq!((refusal.status, refusal.json()["error"].is_string()), (400, true), "{fields}");
    }
    let empty = json!({ "prompt": "[[a]]", "images": [], "template": "", "system": "", "suffix": "", "context": null });
    assert_eq!(server.post("/api/generate", &empty).status, 200);
    // this model has no tokens for that
    let refusal = server.post("/api/generate", &json!({ "prompt": "[[a]]", "suffix": "b" }));
    assert_eq!(refusal.status, 501);
    assert!(refusal.body.contains("can't fill in"), "{}", refusal.body);
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
    for path in ["/api/generate", "/api/chat"] {
        for (keep, reason) in [
            (json!(0), "unload"),
            (json!("0s"), "unload"),
            (json!("0"), "unload"),
            (json!(-1), "load"),
            (json!("10m"), "load"),
            (json!(""), "load"),
        ] {
            let answer = server.post(path, &json!({ "model": "scripted", "keep_alive": keep })).ok();
            assert_eq!((&answer["done"], &answer["done_reason"]), (&json!(true), &json!(reason)), "{keep}");
        }
    }
}

#[test]
fn models_are_described() {
    let server = Server::start(&Kind::default());
    assert_eq!(server.get("/api/tags").ok()["models"][0]["name"], "scripted");
    let running = server.get("/api/ps").ok()["models"][0].clone();
    assert_eq!(running["model"], "scripted");
    assert!(running["size"].as_u64() > Some(0) && running["size_vram"] == running["size"]);
    assert!(server.get("/api/version").ok()["version"].is_string());
    let show = server.post("/api/show", &json!({ "model": "scripted" })).ok();
    assert_eq!(show["details"]["family"], "qwen3");
    assert_eq!(show["model_info"]["general.architecture"], "qwen3");
    // every name that other requests take
    for name in ["scripted:latest", "other"] {
        assert_eq!(server.post("/api/show", &json!({ "model": name })).ok(), show);
        assert_eq!(server.post("/api/chat", &json!({ "model": name })).ok()["model"], name);
    }
    assert_eq!(server.post("/api/show", &json!({ "model": 1 })).status, 400);
    assert_eq!(server.post("/api/embed", &json!({ "input": [] })).ok()["embeddings"], json!([]));
    for (method, path) in
        [("POST", "pull"), ("POST", "push"), ("POST", "create"), ("POST", "copy"), ("DELETE", "delete")]
    {
        let refusal = server.send(method, &format!("/api/{path}"), &[], "{}");
        assert_eq!((refusal.status, refusal.json()["error"].is_string()), (501, true), "{path}");
    }
    assert!(server.get("/").body.contains("Ollama is running"));
}
