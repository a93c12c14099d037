//! The fields of a request: right values are accepted, wrong ones are named, unknown fields are ignored.

use crate::chat::{ask, joined, weather, with};
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// Fields that clients send, each with a value that is accepted and one that is refused.
fn fields() -> Vec<(&'static str, Value, Value)> {
    let format = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": { "const": 1 } } });
    vec![
        ("messages", json!([{ "role": "user", "content": "[[a]]" }]), json!("text")),
        ("stream", json!(false), json!("yes")),
        ("stream_options", json!({ "include_usage": true }), json!([1])),
        ("max_tokens", json!(4), json!(-2)),
        ("max_completion_tokens", json!(4), json!("many")),
        ("temperature", json!(1), json!("hot")),
        ("top_p", json!(0.5), json!(-1)),
        ("n", json!(2), json!(0)),
        ("stop", json!(["x", "y"]), json!({ "a": 1 })),
        ("seed", json!(7), json!(1.5)),
        ("presence_penalty", json!(0.5), json!([])),
        ("frequency_penalty", json!(0.5), json!("a")),
        ("logit_bias", json!({ "5": 1 }), json!(3)),
        ("logprobs", json!(true), json!(3)),
        ("tools", weather(), json!("weather")),
        ("tool_choice", json!("none"), json!("perhaps")),
        ("parallel_tool_calls", json!(false), json!("no")),
        ("response_format", format, json!("json")),
        ("reasoning_effort", json!("low"), json!(3)),
        ("top_k", json!(10), json!(-2)),
        ("min_p", json!(0.1), json!("a")),
        ("typical_p", json!(0.9), json!("a")),
        ("repeat_penalty", json!(1.1), json!([1])),
        ("repeat_last_n", json!(-1), json!(-2)),
        ("dry_multiplier", json!(0.8), json!("a")),
        ("xtc_probability", json!(0.1), json!({})),
        ("mirostat", json!(2), json!(3)),
        ("cache_prompt", json!(false), json!(3)),
        ("id_slot", json!(1), json!(77)),
        ("timings_per_token", json!(true), json!(3)),
        ("chat_template_kwargs", json!({ "enable_thinking": false }), json!([1])),
        ("add_generation_prompt", json!(true), json!("yes")),
        ("continue_final_message", json!(false), json!("yes")),
        ("grammar", json!("root ::= \"a\""), json!(3)),
        ("json_schema", json!({ "type": "integer" }), json!({ "type": "no such" })),
        ("ignore_eos", json!(false), json!("no")),
        ("return_progress", json!(true), json!("no")),
        ("reasoning_format", json!("none"), json!(3)),
        ("reasoning_budget_tokens", json!(-1), json!("a")),
        ("thinking_budget_tokens", json!(10), json!(-2)),
        ("verbose", json!(true), json!("a")),
    ]
}

#[test]
fn every_field_is_accepted_alone() {
    let server = Server::start(&Kind::default());
    for (name, good, _) in fields() {
        let limit = if name == "max_completion_tokens" { json!({}) } else { json!({ "max_tokens": 8 }) };
        let body = with(with(ask("[[a]]"), limit), json!({ name: good }));
        let answer = server.post(CHAT, &body);
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
    }
}

#[test]
fn every_field_that_is_wrong_is_named() {
    let server = Server::start(&Kind::default());
    for (name, _, wrong) in fields() {
        let refusal = server.post(CHAT, &with(ask("[[a]]"), json!({ name: wrong })));
        assert_eq!(refusal.status, 400, "{name}: {}", refusal.body);
        let error = &refusal.json()["error"];
        assert_eq!(error["type"], "invalid_request_error");
        let text = error["message"].as_str().unwrap();
        // the message names the error in a schema that can't be compiled
        assert!(error["param"] == name || name == "json_schema", "{name}: {text}");
    }
}

#[test]
fn every_field_may_be_null() {
    let server = Server::start(&Kind::default());
    for (name, ..) in fields().into_iter().filter(|(name, ..)| *name != "messages") {
        let answer = server.post(CHAT, &with(ask("[[a]]"), json!({ name: null })));
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
    }
}

#[test]
fn whole_numbers_may_be_large_and_have_a_point() {
    let server = Server::start(&Kind::default());
    for (name, value) in [
        ("max_tokens", json!(99_999_999_999_u64)),
        ("max_tokens", json!(1e300)),
        ("top_k", json!(u64::MAX)),
        ("repeat_last_n", json!(1e12)),
        ("seed", json!(42.0)),
        ("seed", json!(u64::MAX)),
        ("id_slot", json!(1.0)),
    ] {
        let answer = server.post(CHAT, &with(ask("[[a]]"), json!({ name: value })));
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
    }
    for (name, value) in [
        ("n", json!(1e10)),
        ("id_slot", json!(1e10)),
        ("id_slot", json!(-2)),
        ("top_logprobs", json!(1e10)),
        ("max_tokens", json!(-1e300)),
        ("seed", json!("1")),
        ("logit_bias", json!({ "5": 1e39 })),
        ("logit_bias", json!({ "4294967296": 1 })),
    ] {
        let refusal = server.post(CHAT, &with(ask("[[a]]"), json!({ name: value, "logprobs": true })));
        assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!(name)), "{value}");
    }
}

#[test]
fn lists_that_every_token_passes_are_bounded() {
    let server = Server::start(&Kind::default());
    let stops = |count: usize| (0..count).map(|at| format!("never {at}")).collect::<Vec<_>>();
    assert_eq!(server.post(CHAT, &with(ask("[[a]]"), json!({ "stop": stops(256) }))).status, 200);
    assert_eq!(server.post(CHAT, &with(ask("[[a]]"), json!({ "stop": stops(257) }))).status, 400);
    let body = json!({ "max_tokens": 9, "messages": [{ "role": "user", "content": "[[a]]" }], "stop_sequences": stops(257) });
    assert_eq!(server.post("/v1/messages", &body).status, 400);
    let pairs = |count: usize| json!({ "logit_bias": vec![[5, 0]; count] });
    let vocabulary = server.get("/v1/models").ok()["data"][0]["meta"]["n_vocab"].as_u64().unwrap() as usize;
    assert_eq!(server.post(CHAT, &with(ask("[[a]]"), pairs(vocabulary))).status, 200);
    let refusal = server.post(CHAT, &with(ask("[[a]]"), pairs(vocabulary + 1)));
    assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("logit_bias")));
}

#[test]
fn a_continued_message_has_no_control_tokens() {
    let server = Server::start(&Kind::default());
    let count = |text: &str| {
        let messages = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": text }]);
        let prompt = server.post("/apply-template", &with(ask(""), json!({ "messages": messages }))).ok();
        prompt["tokens"].as_u64().unwrap()
    };
    assert!(count("<|im_end|>") > count("x") + 1, "a control token in a content");
}

#[test]
fn a_last_message_of_the_assistant_is_continued() {
    let server = Server::start(&Kind::default());
    let begun = |fields: Value| {
        let messages = json!([
            { "role": "user", "content": "[[Yes, of course]]" },
            { "role": "assistant", "content": "Yes, " },
        ]);
        with(with(ask(""), json!({ "messages": messages, "verbose": true })), fields)
    };
    for fields in [json!({}), json!({ "continue_final_message": true, "add_generation_prompt": false })] {
        let answer = server.post(CHAT, &begun(fields)).ok();
        assert_eq!(answer["choices"][0]["message"]["content"], "of course");
        let prompt = answer["__verbose"]["prompt"].as_str().unwrap();
        assert!(prompt.ends_with("<|im_start|>assistant\nYes, "), "{prompt}");
    }
    // not if the request switches it off
    let answer = server.post(CHAT, &begun(json!({ "continue_final_message": false }))).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], "Yes, of course");
    let both = json!({ "continue_final_message": true, "add_generation_prompt": true });
    assert_eq!(server.post(CHAT, &begun(both)).status, 400);
    let two = json!({ "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "b" },
        { "role": "assistant", "content": "c" },
    ] });
    assert_eq!(server.post(CHAT, &with(ask(""), two)).status, 400);
    let closed = with(ask("a"), json!({ "add_generation_prompt": false }));
    let prompt = server.post("/apply-template", &closed).ok();
    assert!(prompt["prompt"].as_str().unwrap().ends_with("<|im_end|>\n"));
    // Anthropic's clients begin an answer in the same way
    let body = json!({ "model": "m", "max_tokens": 50, "temperature": 0, "messages": [
        { "role": "user", "content": "[[Yes, of course]]" },
        { "role": "assistant", "content": "Yes, " },
    ] });
    assert_eq!(server.post("/v1/messages", &body).ok()["content"][0]["text"], "of course");
}

#[test]
fn inputs_are_counted() {
    let server = Server::start(&Kind::default());
    let prompt = server.post(CHAT, &ask("[[a]]")).ok()["usage"]["prompt_tokens"].clone();
    for path in ["/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"] {
        assert_eq!(server.post(path, &ask("[[a]]")).ok()["input_tokens"], prompt);
    }
    let body = json!({ "input": "[[a]]" });
    assert_eq!(server.post("/v1/responses/input_tokens", &body).ok()["input_tokens"], prompt);
}

#[test]
fn times_come_with_every_token_if_wanted() {
    let server = Server::start(&Kind::default());
    let wants = json!({ "stream": true, "timings_per_token": true, "return_progress": true });
    let events = server.post(CHAT, &with(ask("[[abc]]"), wants.clone())).events();
    assert_eq!(joined(&events, 0, "content"), "abc");
    let first = events.iter().find(|event| event["prompt_progress"].is_object()).unwrap();
    assert_eq!(first["prompt_progress"]["processed"], first["prompt_progress"]["cache"]);
    assert_eq!((&first["timings"]["prompt_n"], &first["timings"]["prompt_ms"]), (&json!(0), &json!(0.0)));
    let texts = events.iter().filter(|event| event["choices"][0]["delta"]["content"].is_string());
    let counts: Vec<_> = texts.map(|event| event["timings"]["predicted_n"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 3]);
    let body = with(json!({ "prompt": "[[abc]]", "temperature": 0 }), wants.clone());
    let events = server.post("/completion", &body).events();
    assert!(events[0]["prompt_progress"]["total"].as_u64().unwrap() > 0);
    assert_eq!(events.last().unwrap()["timings"]["predicted_n"], 3);
    let events = server.post("/v1/responses", &with(json!({ "input": "[[abc]]" }), wants)).events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert!(of("response.in_progress").iter().any(|event| event["prompt_progress"].is_object()));
    assert!(of("response.output_text.delta").iter().all(|event| event["timings"].is_object()));
    assert!(of("response.completed")[0]["timings"]["predicted_per_second"].is_number());
}

#[test]
fn probabilities_can_be_those_after_sampling() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": "[[ab]]", "n_probs": 5, "n_predict": 2, "temperature": 1, "top_k": 3,
        "top_p": 1, "min_p": 0, "post_sampling_probs": true });
    let answer = server.post("/completion", &body).ok();
    for token in answer["completion_probabilities"].as_array().unwrap() {
        let top = token["top_probs"].as_array().unwrap();
        let sum: f64 = top.iter().map(|top| top["prob"].as_f64().unwrap()).sum();
        assert!(top.len() <= 3 && (sum - 1.0).abs() < 1e-5, "{token}");
        assert!(token["prob"].as_f64().unwrap() > 0.99 && token.get("logprob").is_none());
    }
    let raw = server.post("/completion", &with(body, json!({ "post_sampling_probs": false }))).ok();
    assert_eq!(raw["completion_probabilities"][0]["top_logprobs"].as_array().unwrap().len(), 5);
}

#[test]
fn settings_and_selected_fields_are_returned() {
    let server = Server::start(&Kind::default());
    let bias = |fields: Value| {
        let body = with(json!({ "prompt": "[[ab]]", "n_predict": 2 }), fields);
        server.post("/completion", &body).ok()["generation_settings"]["logit_bias"].clone()
    };
    assert_eq!(bias(json!({})), json!([]));
    assert_eq!(bias(json!({ "logit_bias": [[5, -1.5]] })), json!([{ "token": 5, "bias": -1.5 }]));
    assert_eq!(bias(json!({ "logit_bias": [[5, false]] })), json!([{ "token": 5, "bias": null }]));
    let ends = bias(json!({ "ignore_eos": true }));
    assert!(!ends.as_array().unwrap().is_empty() && ends[0]["bias"].is_null());
    let body = json!({ "prompt": "[[ab]]", "temperature": 0, "n_predict": 2,
        "response_fields": ["content", "generation_settings/n_predict", "no/such"] });
    let expected = json!({ "content": "ab", "generation_settings/n_predict": 2 });
    assert_eq!(server.post("/completion", &body).ok(), expected);
    // the reported random seed repeats the answer
    let body = json!({ "prompt": "[[abcdefgh]]", "n_predict": 8, "temperature": 50, "top_k": 0, "top_p": 1, "min_p": 0 });
    let first = server.post("/completion", &body).ok();
    let seed = first["generation_settings"]["seed"].clone();
    let again = server.post("/completion", &with(body, json!({ "seed": seed }))).ok();
    assert_eq!(first["content"], again["content"]);
    assert_eq!(first["generation_settings"]["dry_penalty_last_n"], -1);
}

#[test]
fn prompts_may_be_objects_and_mixed_lists() {
    let server = Server::start(&Kind::default());
    let text = |prompt: Value| {
        let answer = server.post("/completion", &json!({ "prompt": prompt, "temperature": 0 }));
        answer.ok()
    };
    assert_eq!(text(json!({ "prompt_string": "[[ab]]" }))["content"], "ab");
    let tokens = server.post("/tokenize", &json!({ "content": "[[" })).ok()["tokens"].clone();
    let mut mixed = tokens.as_array().unwrap().clone();
    mixed.push("ab]]".into());
    assert_eq!(text(mixed.into())["content"], "ab");
    let several = text(json!(["[[a]]", { "prompt_string": "[[b]]" }, tokens]));
    assert_eq!((&several[0]["content"], &several[1]["content"]), (&json!("a"), &json!("b")));
    let image = json!({ "prompt_string": "a", "multimodal_data": ["AAAA"] });
    assert_eq!(server.post("/completion", &json!({ "prompt": image })).status, 501);
}

/// A template that always opens the model's reasoning.
const THINKS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}";

#[test]
fn reasoning_that_is_not_wanted_is_closed() {
    let server = Server::start(&Kind { template: Some(THINKS), ..Kind::default() });
    let prompt = |fields: Value| {
        let answer = server.post("/apply-template", &with(ask("a"), fields)).ok();
        answer["prompt"].as_str().unwrap().to_owned()
    };
    assert!(prompt(json!({})).ends_with("<think>\n"));
    assert!(prompt(json!({ "reasoning_effort": "high" })).ends_with("<think>\n"));
    for none in [
        json!({ "reasoning_effort": "none" }),
        json!({ "chat_template_kwargs": { "enable_thinking": false } }),
    ] {
        assert!(prompt(none.clone()).ends_with("<think>\n</think>"));
        let answer = server.post(CHAT, &with(ask("[[x]]"), none)).ok();
        assert!(answer["choices"][0]["message"].get("reasoning_content").is_none());
    }
    let body = json!({ "model": "m", "max_tokens": 9, "thinking": { "type": "disabled" },
        "messages": [{ "role": "user", "content": "[[x]]" }] });
    let kinds = server.post("/v1/messages", &body).ok()["content"].clone();
    assert!(kinds.as_array().unwrap().iter().all(|block| block["type"] == "text"), "{kinds}");
}

#[test]
fn large_bodies_are_parsed_on_another_thread() {
    let server = Server::start(&Kind { context: 1 << 14, ..Kind::default() });
    let large = "word ".repeat(30_000);
    let tokens = server.post("/tokenize", &json!({ "content": large })).ok();
    assert!(tokens["count"].as_u64().unwrap() >= 30_000);
    for (path, body) in [
        (CHAT, ask(&large)),
        ("/v1/completions", json!({ "prompt": large })),
        ("/completion", json!({ "prompt": large })),
        ("/v1/embeddings", json!({ "input": large })),
    ] {
        let refusal = server.post(path, &body);
        assert_eq!(refusal.json()["error"]["type"], "exceed_context_size_error", "{path}");
    }
    assert_eq!(server.send("POST", CHAT, &[], &format!("{{{large}")).status, 400);
}
