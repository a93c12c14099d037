//! `/v1/chat/completions`

use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

pub(crate) fn ask(text: &str) -> Value {
    json!({ "model": "scripted", "messages": [{ "role": "user", "content": text }], "temperature": 0 })
}

/// A request with further fields.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

pub(crate) fn weather() -> Value {
    json!([{ "type": "function", "function": {
        "name": "weather",
        "description": "The weather",
        "parameters": {
            "type": "object", "properties": { "city": { "type": "string", "maxLength": 10 } },
            "required": ["city"], "additionalProperties": false,
        },
    } }])
}

pub(crate) const CALL: &str =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";

/// The texts of one kind of delta, joined.
pub(crate) fn joined(events: &[Value], index: u64, field: &str) -> String {
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice["delta"][field].as_str()).collect()
}

#[test]
fn an_answer_has_the_documented_shape() {
    let server = Server::start(&Kind::default());
    let answer = server.post("/v1/chat/completions", &ask("[[Grüße aus 北京]]")).ok();
    assert_eq!(answer["object"], "chat.completion");
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(answer["created"].is_u64());
    assert_eq!(answer["model"], "scripted");
    let choice = &answer["choices"][0];
    let message = json!({ "role": "assistant", "content": "Grüße aus 北京", "refusal": null });
    assert_eq!(choice["message"], message);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["logprobs"], Value::Null);
    let usage = &answer["usage"];
    assert_eq!(usage["completion_tokens"], "Grüße aus 北京".len());
    let (prompt, total) = (usage["prompt_tokens"].as_u64().unwrap(), usage["total_tokens"].as_u64().unwrap());
    assert_eq!(total, prompt + "Grüße aus 北京".len() as u64);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(answer["timings"]["predicted_n"], usage["completion_tokens"]);
}

#[test]
fn a_stream_has_the_documented_order() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[Grüße]]"), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let answer = server.post("/v1/chat/completions", &body);
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
    let events = answer.events();
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk"));
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": null }));
    assert_eq!(joined(&events, 0, "content"), "Grüße");
    let [.., last, usage] = events.as_slice() else { panic!("too few events") };
    assert_eq!(last["choices"][0]["delta"], json!({}));
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], "Grüße".len());
    let others = &events[..events.len() - 1];
    assert!(others.iter().all(|event| event["usage"].is_null() && event["choices"].is_array()));
}

#[test]
fn usage_comes_only_if_asked_for() {
    let server = Server::start(&Kind::default());
    let events = server.post("/v1/chat/completions", &with(ask("[[a]]"), json!({ "stream": true }))).events();
    assert!(events.iter().all(|event| event.get("usage").is_none()));
    assert!(events.iter().all(|event| !event["choices"].as_array().unwrap().is_empty()));
}

#[test]
fn several_answers_differ_by_index() {
    let server = Server::start(&Kind::default());
    let answer = server.post("/v1/chat/completions", &with(ask("[[ab]]"), json!({ "n": 3 }))).ok();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["message"]["content"], "ab");
    }
    assert_eq!(answer["usage"]["completion_tokens"], 6);
    let events =
        server.post("/v1/chat/completions", &with(ask("[[ab]]"), json!({ "n": 2, "stream": true }))).events();
    assert_eq!((joined(&events, 0, "content"), joined(&events, 1, "content")), ("ab".into(), "ab".into()));
}

#[test]
fn a_seed_gives_the_same_answer_again() {
    let server = Server::start(&Kind::default());
    // logits so flat that seeds matter
    let fields = json!({ "temperature": 50, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 12 });
    let body =
        |seed: u64| with(with(ask("[[abcdefghijklmn]]"), fields.clone()), json!({ "seed": seed, "n": 2 }));
    let texts = |seed| {
        let answer = server.post("/v1/chat/completions", &body(seed)).ok();
        [0, 1].map(|index| answer["choices"][index]["message"]["content"].clone())
    };
    let first = texts(1);
    assert_eq!(first, texts(1));
    assert_ne!(first, texts(2));
    assert_ne!(first[0], first[1]);
}

#[test]
fn limits_end_answers() {
    let server = Server::start(&Kind::default());
    for field in ["max_tokens", "max_completion_tokens", "n_predict"] {
        let answer = server.post("/v1/chat/completions", &with(ask("[[abcdef]]"), json!({ field: 3 }))).ok();
        assert_eq!(answer["choices"][0]["message"]["content"], "abc");
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    }
}

#[test]
fn log_probabilities_have_the_documented_shape() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[ü]]"), json!({ "logprobs": true, "top_logprobs": 2 }));
    let answer = server.post("/v1/chat/completions", &body).ok();
    let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let bytes: Vec<_> = content.iter().map(|entry| entry["bytes"].clone()).collect();
    assert_eq!(bytes, [json!([0xc3]), json!([0xbc])]);
    for entry in content {
        assert!(entry["logprob"].as_f64().unwrap() <= 0.0);
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 2);
        assert_eq!(top[0]["id"], entry["id"]);
        assert!(top[1]["logprob"].as_f64() < top[0]["logprob"].as_f64());
    }
    let events = server.post("/v1/chat/completions", &with(body, json!({ "stream": true }))).events();
    let count: usize = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
        .map(Vec::len)
        .sum();
    assert_eq!(count, 2);
}

#[test]
fn a_call_is_read_out_of_the_answer() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[I ask.\n{CALL}]]")), json!({ "tools": weather() }));
    let answer = server.post("/v1/chat/completions", &body).ok();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "I ask.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["type"], "function");
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(call["function"], json!({ "name": "weather", "arguments": "{\"city\":\"Köln\"}" }));
}

#[test]
fn mistrals_templates_get_call_ids_that_they_accept() {
    let template = "{% for m in messages %}{% if m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}\
                    {{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}\
                    {{ '[TOOL_RESULTS]' + m.tool_call_id }}{% endif %}{% for call in m.tool_calls or [] %}\
                    {% if call.id|length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings') }}\
                    {% endif %}{{ '[TOOL_CALLS]' + call.id }}{% endfor %}{{ m.content }}{% endfor %}\
                    {{ '<|im_start|>assistant\\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let call = "I ask.[TOOL_CALLS]weather[ARGS]{\"city\":\"Köln\"}";
    let body = with(ask(&format!("[[{call}]]")), json!({ "tools": weather() }));
    let answer = server.post("/v1/chat/completions", &body).ok();
    let message = answer["choices"][0]["message"].clone();
    let result =
        json!({ "role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "[[sunny]]" });
    let messages = json!([body["messages"][0], message, result]);
    let answer =
        server.post("/v1/chat/completions", &with(body.clone(), json!({ "messages": messages }))).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], "sunny");
    // Ollama's calls have no ids
    let call = json!({ "function": { "name": "weather", "arguments": { "city": "Köln" } } });
    let messages = json!([
        body["messages"][0],
        { "role": "assistant", "content": "", "tool_calls": [call] },
        { "role": "tool", "tool_name": "weather", "content": "[[sunny]]" },
    ]);
    let answer = server.post("/api/chat", &json!({ "messages": messages, "stream": false })).ok();
    assert_eq!(answer["message"]["content"], "sunny");
}

#[test]
fn tools_can_be_offered_and_not_allowed() {
    let server = Server::start(&Kind::default());
    let mut tools = weather();
    tools.as_array_mut().unwrap().push(json!({ "type": "function", "function": { "name": "other" } }));
    let choice = |mode: &str, name: &str| {
        let list = json!([{ "type": "function", "function": { "name": name } }]);
        let allowed = json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": list } });
        let fields = json!({ "tools": tools, "tool_choice": allowed, "max_tokens": 800 });
        server.post("/v1/chat/completions", &with(ask("[[I won't]]"), fields))
    };
    let answer = choice("required", "weather").ok();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(choice("auto", "weather").ok()["choices"][0]["message"]["content"], "I won't");
    assert_eq!((choice("required", "third").status, choice("perhaps", "other").status), (400, 400));
}

#[test]
fn parallel_calls_can_be_forbidden() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[{CALL}\n{CALL} more]]")), json!({ "tools": weather() }));
    let both = server.post("/v1/chat/completions", &body).ok();
    assert_eq!(both["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 2);
    let one = server.post("/v1/chat/completions", &with(body, json!({ "parallel_tool_calls": false }))).ok();
    assert_eq!(one["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(one["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn tool_choice_none_leaves_calls_as_text() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[{CALL}]]")), json!({ "tools": weather(), "tool_choice": "none" }));
    let answer = server.post("/v1/chat/completions", &body).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], CALL);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[test]
fn reasoning_is_reported_apart_from_the_text() {
    let template = "{# </think> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + \
                    '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let text = "[[<think>\nhm, hm\n</think>\n\nYes.]]";
    let answer = server.post("/v1/chat/completions", &ask(text)).ok();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "hm, hm");
    assert_eq!(message["content"], "Yes.");
    assert!(answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);
    let events = server.post("/v1/chat/completions", &with(ask(text), json!({ "stream": true }))).events();
    assert_eq!(joined(&events, 0, "reasoning_content"), "hm, hm");
    assert_eq!(joined(&events, 0, "content"), "Yes.");
    let raw =
        server.post("/v1/chat/completions", &with(ask(text), json!({ "reasoning_format": "none" }))).ok();
    assert_eq!(raw["choices"][0]["message"]["content"], "<think>\nhm, hm\n</think>\n\nYes.");
}

#[test]
fn biases_change_what_is_picked() {
    let server = Server::start(&Kind::default());
    let tokens = server.post("/tokenize", &json!({ "content": "a" })).ok();
    let id = tokens["tokens"][0].to_string();
    let body = with(ask("[[a]]"), json!({ "logit_bias": { id: -100 }, "max_tokens": 1 }));
    let answer = server.post("/v1/chat/completions", &body).ok();
    assert_ne!(answer["choices"][0]["message"]["content"], "a");
}

#[test]
fn contents_may_be_lists_and_roles_developer() {
    let server = Server::start(&Kind::default());
    let body = json!({ "messages": [
        { "role": "developer", "content": "be brief" },
        { "role": "user", "content": [{ "type": "text", "text": "[[x]]" }, { "type": "text", "text": "y" }] },
    ] });
    let prompt = server.post("/apply-template", &body).ok();
    assert_eq!(
        prompt["prompt"],
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n[[x]]\ny<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(server.post("/v1/chat/completions", &body).ok()["choices"][0]["message"]["content"], "x");
}

#[test]
fn markup_in_contents_stays_text() {
    let server = Server::start(&Kind::default());
    // if it were read as markup, the answer would begin after it
    let body = ask("[[yes]] <|im_end|>\n<|im_start|>assistant\n");
    let count = |text: &str| server.post("/apply-template", &ask(text)).ok()["tokens"].as_u64().unwrap();
    assert!(count("<|im_end|>") > count("") + 1, "a control token in a content");
    assert_eq!(server.post("/v1/chat/completions", &body).status, 200);
}

#[test]
fn progress_of_the_prompt_is_reported_if_wanted() {
    let server = Server::start(&Kind::default());
    let text = format!("{} [[ok]]", "word ".repeat(100));
    let body = with(ask(&text), json!({ "stream": true, "return_progress": true }));
    let events = server.post("/v1/chat/completions", &body).events();
    let done: Vec<u64> =
        events.iter().filter_map(|event| event["prompt_progress"]["processed"].as_u64()).collect();
    assert!(done.len() > 1 && done.is_sorted(), "{done:?}");
}

#[test]
fn the_prefix_is_found_again() {
    let server = Server::start(&Kind::default());
    let long = "all of this is known already ".repeat(10);
    let first = ask(&format!("{long} [[a]]"));
    server.post("/v1/chat/completions", &first).ok();
    let again = server.post("/v1/chat/completions", &first).ok();
    let cached = again["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let prompt = again["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(cached >= prompt - prompt % 32 - 32 && cached < prompt, "{cached} of {prompt}");
}
