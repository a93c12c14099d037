//! Tests for public reports about other servers, which docs/known-bugs.md lists.

use crate::chat::{CALL, ask, joined, weather, with};
use crate::client::{Server, until};
use crate::serving::Kind;
use crate::thinking::THINK;
use core::time::Duration;
use doorbell_tests::scripted::NAN;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// The text of an answer, which must succeed.
fn content_of(server: &Server, body: &Value) -> String {
    content(&server.post(CHAT, body).ok()).to_owned()
}

/// The text of a streamed answer.
fn streamed(server: &Server, body: &Value) -> String {
    joined(&server.post(CHAT, &with(body.clone(), json!({ "stream": true }))).events(), 0, "content")
}

/// A template that raises unless roles alternate and the system message comes first.
const STRICT: &str = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
{{ raise_exception('System message must be at the beginning.') }}{% endif %}\
{% if loop.previtem is defined and loop.previtem.role == m.role %}\
{{ raise_exception('Conversation roles must alternate') }}{% endif %}\
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";

/// Report 68 of the list in docs/known-bugs.md.
#[test]
fn a_system_message_that_is_not_first_goes_to_the_user() {
    let server = Server::start(&Kind { template: Some(STRICT), ..Kind::default() });
    let body =
        json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "system", "content": "b" }] });
    let prompt = server.post("/apply-template", &body).ok()["prompt"].clone();
    let expected = "<|im_start|>user\na\n\n<system>\nb\n</system><|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt, expected);
    assert_eq!(server.post(CHAT, &ask("[[a]]")).status, 200);
}

/// Prints no tools, like the templates of SmolLM2 and Gemma 2.
const NO_TOOLS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
{{ '<|im_start|>assistant\n' }}";

/// Tools for a template that prints none are described in the system text, and calls come back; or they are refused.
#[test]
fn tools_are_described_to_a_template_without_them() {
    let server = Server::start(&Kind { template: Some(NO_TOOLS), ..Kind::default() });
    let capabilities = |server: &Server| server.post("/api/show", &json!({})).ok()["capabilities"].clone();
    assert!(capabilities(&server).as_array().unwrap().contains(&json!("tools")));
    let body = with(ask(&format!("[[{CALL}]]")), json!({ "tools": weather() }));
    let prompt = server.post("/apply-template", &body).ok()["prompt"].clone();
    let prompt = prompt.as_str().unwrap();
    assert!(prompt.starts_with("<|im_start|>system\n# Tools\n"), "{prompt}");
    assert_eq!(prompt.matches("weather").count(), CALL.matches("weather").count() + 2, "{prompt}");
    let answer = server.post(CHAT, &body).ok();
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
    let call = answer["choices"][0]["message"].clone();
    let result = json!({ "role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "12 C" });
    let history =
        json!({ "messages": [{ "role": "user", "content": "q" }, call, result], "tools": weather() });
    let prompt = server.post("/apply-template", &history).ok()["prompt"].clone();
    let end = "<|im_start|>user\n<tool_response>\n12 C\n</tool_response><|im_end|>\n<|im_start|>assistant\n";
    assert!(prompt.as_str().unwrap().ends_with(end), "{prompt}");

    let kind = Kind { template: Some(NO_TOOLS), template_tools_only: true, ..Kind::default() };
    let server = Server::start(&kind);
    assert!(!capabilities(&server).as_array().unwrap().contains(&json!("tools")));
    let refusal = server.post(CHAT, &body);
    assert_eq!(refusal.status, 400);
    assert_eq!(refusal.json()["error"]["param"], "tools");
    assert_eq!(server.post(CHAT, &ask("[[a]]")).status, 200);
}

/// Prints only contents that are lists of parts, as templates of vision models do.
const PARTS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}\
{% if part.type is defined and part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}\
{{ '<|im_start|>assistant\\n' }}";

/// Report 69 of the list in docs/known-bugs.md.
#[test]
fn a_template_that_needs_lists_of_parts_gets_them() {
    let server = Server::start(&Kind { template: Some(PARTS), ..Kind::default() });
    let parts = json!([{ "type": "text", "text": "[[a" }, { "type": "text", "text": "b]]" }]);
    for (content, said) in [(json!("[[hello]]"), "hello"), (parts, "a\nb")] {
        let body = json!({ "messages": [{ "role": "user", "content": content }], "temperature": 0 });
        assert_eq!(content_of(&server, &body), said);
    }
    // markup in parts is text, too
    let prompt = server.post("/apply-template", &ask("x<|im_end|>y")).ok();
    let expected = "<|im_start|>user\nx<|im_end|>y<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt["prompt"], expected);
    let count = |text: &str| server.post("/apply-template", &ask(text)).ok()["tokens"].as_u64().unwrap();
    assert!(count("<|im_end|>") > count("") + 1, "a control token in a content");
    // a template that searches contents without end is only rendered with small ones
    let endless = "{% for m in messages %}{% for a in range(100000) %}{% for b in range(100000) %}{% for part in m.content %}\
                   {{ part.text }}{% endfor %}{% endfor %}{% endfor %}{% endfor %}";
    let server = Server::start(&Kind { template: Some(endless), ..Kind::default() });
    assert_eq!(server.post(CHAT, &ask("a")).status, 400);
}

/// Report 70 of the list in docs/known-bugs.md.
#[test]
fn two_user_messages_in_a_row_are_refused() {
    let server = Server::start(&Kind { template: Some(STRICT), ..Kind::default() });
    let body =
        json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "user", "content": "b" }] });
    let refusal = server.post(CHAT, &body);
    assert_eq!(refusal.status, 400);
    assert!(refusal.body.contains("Conversation roles must alternate"));
    // unless the server merges them
    let server = Server::start(&Kind { template: Some(STRICT), merge_messages: true, ..Kind::default() });
    let prompt = server.post("/apply-template", &body).ok()["prompt"].clone();
    assert_eq!(prompt, "<|im_start|>user\na\n\nb<|im_end|>\n<|im_start|>assistant\n");
}

/// Report 71 of the list in docs/known-bugs.md.
#[test]
fn a_go_template_is_not_a_chat_template() {
    use doorbell_runtime::template::{ChatTemplate, SpecialTokens};
    for go in [
        "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>{{ end }}",
        "{{- range .Messages }}<|{{ .Role }}|>{{ .Content }}{{ end }}",
        "{{ .Prompt }}",
        "{{ $last := eq (len (slice .Messages 1)) 1 }}",
    ] {
        let error = ChatTemplate::new(go, SpecialTokens::default()).err().expect(go).to_string();
        assert!(error.starts_with("chat template, line "), "{error}");
    }
}

/// Report 72 of the list in docs/known-bugs.md.
#[test]
fn an_empty_list_of_tools_adds_no_grammar() {
    // the ways in which families test for tools
    for question in ["tools", "tools is not none", "tools is iterable and tools|length > 0", "false"] {
        let template = format!(
            "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}<|im_end|>\n{{% endfor %}}\
             {{% if {question} %}}<tool_call>{{{{ tools|tojson }}}}{{% endif %}}{{{{ '<|im_start|>assistant\n' }}}}"
        );
        let server = Server::start(&Kind { template: Some(template.leak()), ..Kind::default() });
        for fields in [
            json!({}),
            json!({ "tools": null }),
            json!({ "tools": [] }),
            json!({ "tools": [], "tool_choice": "auto" }),
            json!({ "tools": [], "tool_choice": "none", "parallel_tool_calls": true }),
        ] {
            let body = with(ask("[[a]]"), fields);
            assert_eq!(content_of(&server, &body), "a");
            let prompt = server.post("/apply-template", &body).ok();
            assert!(!prompt["prompt"].as_str().unwrap().contains("<tool_call>"), "{prompt}");
        }
    }
}

/// Drops earlier reasoning, as Qwen3's does, unless it is asked to keep it.
const FORGETS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and preserve_thinking %}\
{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}{{ m.content + '<|im_end|>\\n' }}{% endfor %}\
{{ '<|im_start|>assistant\\n' }}";

/// Four turns of a conversation, whose letters are tokens of their own in answers and prompts: what the cache knew of each prompt, the tokens of it, and those of the answer.
fn conversation(server: &Server, script: &str, variables: &Value) -> Vec<[u64; 3]> {
    let mut messages = vec![json!({ "role": "system", "content": "be brief ".repeat(20) })];
    let mut turns = Vec::new();
    for turn in 0..4 {
        messages
            .push(json!({ "role": "user", "content": format!("[[{script}{}]]", "ZQXJ-".repeat(20 + turn)) }));
        let body = json!({ "messages": messages, "temperature": 0, "chat_template_kwargs": variables });
        let answer = server.post(CHAT, &body).ok();
        let count = |pointer: &str| answer["usage"].pointer(pointer).unwrap().as_u64().unwrap();
        turns.push(
            ["/prompt_tokens_details/cached_tokens", "/prompt_tokens", "/completion_tokens"].map(count),
        );
        messages.push(answer["choices"][0]["message"].clone());
    }
    turns
}

/// Report 73 of the list in docs/known-bugs.md.
#[test]
fn a_growing_conversation_keeps_its_prefix() {
    // the cache holds the turn before, except for its last page
    let all_known =
        |turns: &[[u64; 3]]| turns.windows(2).all(|pair| pair[1][0] + 32 > pair[0][1] + pair[0][2]);
    let plain = Server::start(&Kind::default());
    let turns = conversation(&plain, "", &json!({}));
    assert!(all_known(&turns), "{turns:?}");
    let kind = Kind { template: Some(FORGETS), marks: THINK, ..Kind::default() };
    for script in ["<think>\nZX-QJ\n</think>\n\n", "<think>\n\n</think>\n\n"] {
        let turns = conversation(&Server::start(&kind), script, &json!({ "preserve_thinking": true }));
        assert!(all_known(&turns), "{turns:?}");
        // a template that drops it changes the last answer alone
        let turns = conversation(&Server::start(&kind), script, &json!({}));
        assert!(!all_known(&turns), "{turns:?}");
        assert!(turns.windows(2).all(|pair| pair[1][0] + 32 > pair[0][1]), "{turns:?}");
    }
}

/// Report 74 of the list in docs/known-bugs.md.
#[test]
fn nan_logits_end_one_request_only() {
    let kind = Kind { pause: Duration::from_millis(1), ..Kind::default() };
    let server = Server::start(&kind);
    std::thread::scope(|scope| {
        let good = scope.spawn(|| server.post(CHAT, &ask("[[this one goes on and on]]")).ok());
        let bad = server.post(CHAT, &ask(&format!("[[ab{NAN}]]")));
        assert_eq!((bad.status, bad.json()["error"]["type"].as_str()), (500, Some("server_error")));
        assert_eq!(content(&good.join().unwrap()), "this one goes on and on");
    });
    let body = with(ask(&format!("[[ab{NAN}]]")), json!({ "stream": true }));
    let events = server.post(CHAT, &body).events();
    assert_eq!(joined(&events[..events.len() - 1], 0, "content"), "ab");
    assert!(events.last().unwrap()["error"]["message"].as_str().unwrap().contains("NaN"));
}

/// Report 75 of the list in docs/known-bugs.md.
#[test]
fn a_penalty_window_of_0_is_no_penalty() {
    let server = Server::start(&Kind::default());
    let fields = json!({ "frequency_penalty": 100, "presence_penalty": 100, "max_tokens": 4 });
    let body = with(ask("[[aaaa]]"), fields);
    for name in ["repeat_last_n", "penalty_last_n"] {
        assert_eq!(content_of(&server, &with(body.clone(), json!({ name: 0 }))), "aaaa");
        assert_ne!(content_of(&server, &with(body.clone(), json!({ name: 64 }))), "aaaa");
    }
}

/// Report 76 of the list in docs/known-bugs.md.
#[test]
fn a_top_k_of_0_is_off() {
    let server = Server::start(&Kind::default());
    // a temperature so high that all tokens are equally likely
    let hot = json!({ "temperature": 1000, "top_p": 1, "min_p": 0, "seed": 1, "max_tokens": 12 });
    let text = |top_k: i32| {
        let body = with(ask("[[abcdefghijkl]]"), with(hot.clone(), json!({ "top_k": top_k })));
        content_of(&server, &body)
    };
    assert_eq!(text(1), "abcdefghijkl");
    for top_k in [0, -1] {
        let mut letters: Vec<_> = text(top_k).chars().collect();
        letters.sort_unstable();
        letters.dedup();
        assert!(letters.len() > 4, "{letters:?}");
        assert_eq!(content_of(&server, &with(ask("[[abc]]"), json!({ "top_k": top_k }))), "abc");
    }
}

/// Report 77 of the list in docs/known-bugs.md.
#[test]
fn logit_biases_in_every_form_apply_to_one_request() {
    let server = Server::start(&Kind::default());
    for bias in
        [json!({}), json!({ "5": -100 }), json!([[5, -1.5]]), json!([[5, false]]), json!([["z", false]])]
    {
        assert_eq!(
            content(&server.post(CHAT, &with(ask("[[abc]]"), json!({ "logit_bias": bias }))).ok()),
            "abc"
        );
    }
    // a token that one request bans is as likely as before in the next one
    let likely = |fields: Value| {
        let body = with(ask("[[abc]]"), json!({ "logprobs": true, "top_logprobs": 1, "max_tokens": 1 }));
        let answer = server.post(CHAT, &with(body, fields)).ok();
        answer["choices"][0]["logprobs"]["content"][0].clone()
    };
    let before = likely(json!({}));
    assert_eq!(before["token"], "a");
    assert_ne!(likely(json!({ "logit_bias": [["a", false]] }))["token"], "a");
    assert_eq!(likely(json!({})), before);
    for bias in [json!(3), json!({ "99999999": 1 }), json!({ "5": "x" }), json!([5])] {
        assert_eq!(
            server.post(CHAT, &with(ask("[[abc]]"), json!({ "logit_bias": bias }))).status,
            400,
            "{bias}"
        );
    }
}

/// Report 78 of the list in docs/known-bugs.md.
#[test]
fn dry_penalizes_the_token_that_continues_a_repetition() {
    let server = Server::start(&Kind::default());
    // the prompt contains the answer, so its third letter would complete a repetition of three
    let dry = json!({ "dry_multiplier": 50, "dry_allowed_length": 2, "max_tokens": 3, "top_k": 0 });
    let text = |fields: Value| {
        let body = with(ask("[[abcd]]"), with(json!({ "max_tokens": 3 }), fields));
        content(&server.post(CHAT, &body).ok()).to_owned()
    };
    assert_eq!(text(json!({})), "abc");
    let held_off = text(dry.clone());
    assert!(held_off.starts_with("ab") && !held_off.starts_with("abc"), "{held_off}");
    // a breaker ends the repetition
    assert_eq!(text(with(dry, json!({ "dry_sequence_breakers": ["b"] }))), "abc");
}

/// Report 79 of the list in docs/known-bugs.md.
#[test]
fn penalties_apply_at_temperature_0() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[aaaa]]"), json!({ "frequency_penalty": 100, "max_tokens": 4 }));
    assert_ne!(content(&server.post(CHAT, &body).ok()), "aaaa");
}

/// Report 80 of the list in docs/known-bugs.md.
#[test]
fn a_grammar_holds_with_few_candidates() {
    let server = Server::start(&Kind::default());
    for fields in [
        json!({ "temperature": 0 }),
        json!({ "temperature": 1, "top_k": 1 }),
        json!({ "temperature": 1, "top_p": 0, "min_p": 1 }),
        json!({ "temperature": 1, "top_n_sigma": 0.1 }),
    ] {
        let body = with(with(ask("[[abc]]"), json!({ "guided_regex": "[xyz]{3}" })), fields);
        let answer = server.post(CHAT, &body).ok();
        let text = content(&answer);
        assert!(text.len() == 3 && text.bytes().all(|byte| b"xyz".contains(&byte)), "{text}");
    }
}

/// Report 81 of the list in docs/known-bugs.md.
#[test]
fn a_stop_text_over_several_tokens_is_cut_off() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[A B C L M N O P Q R S]]"), json!({ "stop": "O P Q" }));
    let answer = server.post(CHAT, &body).ok();
    assert_eq!(content(&answer), "A B C L M N ");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(streamed(&server, &body), "A B C L M N ");
    let list = with(ask("[[one two three]]"), json!({ "stop": ["three", "two"] }));
    assert_eq!(content(&server.post(CHAT, &list).ok()), "one ");
}

/// Report 82 of the list in docs/known-bugs.md.
#[test]
fn a_stop_text_that_only_begins_is_shown() {
    let server = Server::start(&Kind::default());
    for text in ["ends in O P", "O P then more", "O P O P"] {
        let body = with(ask(&format!("[[{text}]]")), json!({ "stop": ["O P Q"] }));
        assert_eq!(content(&server.post(CHAT, &body).ok()), text);
        assert_eq!(streamed(&server, &body), text);
    }
}

/// Report 83 of the list in docs/known-bugs.md.
#[test]
fn every_chunk_has_choices_and_the_last_has_none() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[ab]]"), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let events = server.post(CHAT, &body).events();
    assert!(events.iter().all(|event| event["choices"].is_array()));
    assert_eq!(events.last().unwrap()["choices"], json!([]));
}

/// Report 84 of the list in docs/known-bugs.md.
#[test]
fn a_client_that_disconnects_frees_its_slot() {
    let server = Server::start(&Kind { parallel: 1, ..Kind::endless() });
    for stream in [true, false] {
        let body = with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": stream })).to_string();
        let running = server.open("POST", CHAT, &[], &body);
        let queued = server.open("POST", CHAT, &[], &body);
        let requests = || server.get("/health").json()["requests"].clone();
        until("one runs, one waits", || requests() == json!({ "running": 1, "waiting": 1 }));
        drop(queued);
        until("nobody waits", || requests()["waiting"] == 0);
        drop(running);
        server.wait_idle();
    }
}

/// Report 85 of the list in docs/known-bugs.md.
#[test]
fn a_character_that_is_cut_is_replaced_at_the_end() {
    let server = Server::start(&Kind::default());
    let body = with(ask("[[a北]]"), json!({ "max_tokens": 3 }));
    assert_eq!(content(&server.post(CHAT, &body).ok()), "a\u{fffd}");
    assert_eq!(streamed(&server, &body), "a\u{fffd}");
    assert_eq!(streamed(&server, &ask("[[a北b]]")), "a北b");
}

/// Report 86 of the list in docs/known-bugs.md.
#[test]
fn a_tool_name_comes_once_and_arguments_in_pieces() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[{CALL}]]")), json!({ "tools": weather(), "stream": true }));
    let events = server.post(CHAT, &body).events();
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert_eq!(calls.iter().filter(|call| call["function"]["name"] == "weather").count(), 1);
    assert_eq!(calls.iter().filter(|call| call.get("id").is_some()).count(), 1);
    assert_eq!(calls[0]["function"]["arguments"], "");
    assert!(calls.iter().all(|call| call["index"] == 0));
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, "{\"city\":\"Köln\"}");
}

/// Report 87 of the list in docs/known-bugs.md.
#[test]
fn an_answer_with_calls_ends_with_tool_calls() {
    let server = Server::start(&Kind::default());
    let body = with(ask(&format!("[[{CALL}]]")), json!({ "tools": weather(), "stream": true }));
    let events = server.post(CHAT, &body).events();
    let reasons: Vec<_> =
        events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["tool_calls"]);
}

/// Report 88 of the list in docs/known-bugs.md.
#[test]
fn a_tool_call_id_of_null_in_the_history_is_accepted() {
    let server = Server::start(&Kind::default());
    let call =
        json!({ "id": null, "type": "function", "function": { "name": "weather", "arguments": "{}" } });
    let body = json!({ "messages": [
        { "role": "user", "content": "q" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": null, "content": "sunny" },
        { "role": "user", "content": "[[thanks]]" },
    ] });
    assert_eq!(content(&server.post(CHAT, &body).ok()), "thanks");
}

/// Report 89 of the list in docs/known-bugs.md.
#[test]
fn a_prompt_that_is_too_long_is_refused_with_numbers() {
    let server = Server::start(&Kind { context: 128, ..Kind::default() });
    let refusal = server.post(CHAT, &ask(&"x y z ".repeat(100)));
    assert_eq!(refusal.status, 400);
    let error = &refusal.json()["error"];
    assert_eq!(error["type"], "exceed_context_size_error");
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(error["n_ctx"], 128);
    assert!(error["n_prompt_tokens"].as_u64().unwrap() > 128);
}

/// Report 90 of the list in docs/known-bugs.md.
#[test]
fn a_far_too_long_prompt_does_not_wait_in_the_queue() {
    // a prompt this long takes a while to compute, and the other request must not end meanwhile
    let kind = Kind {
        context: 1 << 14,
        parallel: 1,
        waiting: 4,
        pause: Duration::from_millis(50),
        ..Kind::default()
    };
    let server = Server::start(&kind);
    let body = with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": true })).to_string();
    let running = server.open("POST", CHAT, &[], &body);
    let requests = || server.get("/health").json()["requests"].clone();
    until("it runs", || requests() == json!({ "running": 1, "waiting": 0 }));
    assert_eq!(server.post(CHAT, &ask(&"word ".repeat(50_000))).status, 400);
    assert_eq!(requests(), json!({ "running": 1, "waiting": 0 }));
    drop(running);
    server.wait_idle();
}

/// Report 91 of the list in docs/known-bugs.md.
#[test]
fn requests_that_need_each_others_pages_all_finish() {
    // four requests of ten pages each, and eighteen pages
    let kind = Kind { context: 512, pages: Some(18), ..Kind::default() };
    let server = Server::start(&kind);
    let text = "abcdefghij".repeat(20);
    std::thread::scope(|scope| {
        let ask = |_| scope.spawn(|| server.post(CHAT, &ask(&format!("[[{text}]]"))).ok());
        for answer in [0, 1, 2, 3].map(ask) {
            assert_eq!(content(&answer.join().unwrap()), text);
        }
    });
    server.wait_idle();
}

/// Report 93 of the list in docs/known-bugs.md.
#[test]
fn a_schema_that_can_not_be_enforced_is_refused() {
    let server = Server::start(&Kind::default());
    for (schema, word) in [
        (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
        (json!({ "not": { "type": "string" } }), "not"),
        (json!({ "type": "object", "if": {}, "then": {} }), "if"),
        (json!({ "$ref": "https://example.org/schema" }), "example.org"),
    ] {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let refusal = server.post(CHAT, &with(ask("[[1]]"), json!({ "response_format": format })));
        assert_eq!(refusal.status, 400, "{schema}");
        assert!(refusal.body.contains(word), "{}", refusal.body);
    }
}

/// Report 94 of the list in docs/known-bugs.md.
#[test]
fn a_schema_that_refers_to_itself_ends() {
    let server = Server::start(&Kind::default());
    let schema = json!({ "$defs": { "A": { "$ref": "#/$defs/A" } }, "$ref": "#/$defs/A" });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let refusal =
        server.post(CHAT, &with(ask("[[1]]"), json!({ "response_format": format, "max_tokens": 4 })));
    assert_eq!(refusal.status, 400, "{}", refusal.body);
    assert_eq!(server.post(CHAT, &ask("[[a]]")).status, 200);
}

/// Report 95 of the list in docs/known-bugs.md.
#[test]
fn references_into_lists_and_to_enumerations_are_followed() {
    let server = Server::start(&Kind::default());
    let schema = json!({
        "$defs": { "color": { "enum": ["red", "blue"] }, "list": { "anyOf": [{ "$ref": "#/$defs/color" }] } },
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/list/anyOf/0" } },
        "required": ["a"], "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    for (said, kept) in [("red", true), ("blue", true), ("green", false)] {
        let script = format!("[[{{\"a\":\"{said}\"}}]]");
        let body = with(ask(&script), json!({ "response_format": format, "max_tokens": 100 }));
        let value: Value = serde_json::from_str(&content_of(&server, &body)).unwrap();
        assert!(value["a"] == "red" || value["a"] == "blue", "{value}");
        assert_eq!(value["a"] == said, kept);
    }
}

/// Report 96 of the list in docs/known-bugs.md.
#[test]
fn an_argument_that_is_not_json_stays_text() {
    use doorbell_runtime::answer::{AnswerParser, Begin, CallStyle, Delta, Style, Tools};
    let tools = [json!({ "type": "function", "function": { "name": "f", "parameters": {
        "type": "object", "properties": { "n": { "type": "integer" }, "o": { "type": "object" } },
    } } })];
    let style = Style { calls: CallStyle::Functions, thinking: None };
    for (written, expected) in [
        ("7", json!(7)),
        ("seven", json!("seven")),
        ("{'a': 1}", json!("{'a': 1}")),
        ("{\"a\": 1}", json!({ "a": 1 })),
        ("True", json!("True")),
        ("", json!("")),
    ] {
        let text = format!(
            "<tool_call>\n<function=f>\n<parameter=o>\n{written}\n</parameter>\n</function>\n</tool_call>"
        );
        let mut parser = AnswerParser::new(style, Tools::new(&tools), Begin::Turn);
        let mut deltas = Vec::new();
        parser.push(&text, &mut deltas);
        parser.finish(&mut deltas);
        let arguments: String = deltas
            .iter()
            .filter_map(
                |delta| if let Delta::Arguments { text, .. } = delta { Some(text.as_str()) } else { None },
            )
            .collect();
        assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap()["o"], expected, "{written}");
    }
}

/// Report 97 of the list in docs/known-bugs.md.
#[test]
fn a_negative_discard_count_is_refused() {
    let server = Server::start(&Kind::default());
    for field in ["n_discard", "max_tokens", "n", "top_logprobs"] {
        assert_eq!(server.post(CHAT, &with(ask("[[a]]"), json!({ field: -32 }))).status, 400, "{field}");
    }
}

/// Report 98 of the list in docs/known-bugs.md.
#[test]
fn earlier_reasoning_reaches_a_template_that_keeps_it() {
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\
                    {{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let body = json!({ "messages": [
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "b", "reasoning_content": "because" },
        { "role": "user", "content": "c" },
    ] });
    let prompt = server.post("/apply-template", &body).ok();
    assert!(prompt["prompt"].as_str().unwrap().contains("<think>because</think>b"));
}

/// Report 99 of the list in docs/known-bugs.md.
#[test]
fn a_get_request_computes_nothing() {
    let server = Server::start(&Kind::default());
    for path in
        ["/", "/health", "/metrics", "/props", "/slots", "/v1/models", "/v1/stats", "/api/tags", "/api/ps"]
    {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(server.metric("llamacpp:prompt_tokens_total"), 0.0);
    assert_eq!(server.get("/v1/chat/completions").status, 405);
}
