//! Reasoning: switched on and off, and limited.
//!
//! The model follows a script by its position in the turn. A script therefore contains the text that the template has put
//! there, and eight bytes that the closing mark of a limit replaces.

use crate::chat::{ask, joined, with};
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

/// The marks of reasoning in files of Qwen3.
pub(crate) const THINK: &[&str] = &["<think>", "</think>"];

const CHAT: &str = "/v1/chat/completions";

/// Leaves reasoning to the model, as Qwen3's does, or closes it if it is switched off.
const CLOSES: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\
{% endfor %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and enable_thinking is false %}\
{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}";

/// Opens reasoning for the model, as Qwen3.5's does, and prints the effort.
const OPENS: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\
{% endfor %}{% if reasoning_effort is defined %}{{ '<|im_start|>effort\\n' + reasoning_effort + '<|im_end|>\\n' }}{% endif %}\
{{ '<|im_start|>assistant\\n<think>\\n' }}{% if enable_thinking is defined and enable_thinking is false %}\
{{ '\\n</think>\\n\\n' }}{% endif %}";

/// Script for a template that opens reasoning: twelve letters, eight that the mark replaces, and an answer.
const LONG: &str = "[[<think>\nabcdefghijkl========\n\nYes.]]";

/// Script for a template that opens and closes reasoning.
const SILENT: &str = "[[<think>\n\n</think>\n\nNo.]]";

fn server(template: &'static str) -> Server {
    Server::start(&Kind { template: Some(template), marks: THINK, ..Kind::default() })
}

/// The result of a request, whole and as a stream: reasoning, text, reasoning tokens, all tokens and the reason.
fn parts(server: &Server, body: &Value) -> (String, String, u64, u64, String) {
    let whole = server.post(CHAT, body).ok();
    let choice = &whole["choices"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let counts = |usage: &Value| {
        let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0);
        (reasoning, usage["completion_tokens"].as_u64().unwrap())
    };
    let (reasoning, all) = counts(&whole["usage"]);
    let message = &choice["message"];
    let found = (
        text(&message["reasoning_content"]),
        text(&message["content"]),
        reasoning,
        all,
        text(&choice["finish_reason"]),
    );
    let fields = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let events = server.post(CHAT, &with(body.clone(), fields)).events();
    let (usage, chunks) = events.split_last().unwrap();
    let (reasoning, all) = counts(&usage["usage"]);
    let streamed = (
        joined(chunks, 0, "reasoning_content"),
        joined(chunks, 0, "content"),
        reasoning,
        all,
        text(&chunks.last().unwrap()["choices"][0]["finish_reason"]),
    );
    assert_eq!(streamed, found, "the stream says the same");
    found
}

fn expected(reasoning: &str, text: &str, counts: [u64; 2]) -> (String, String, u64, u64, String) {
    (reasoning.into(), text.into(), counts[0], counts[1], "stop".into())
}

#[test]
fn reasoning_ends_at_the_budget_and_the_answer_follows() {
    let server = server(OPENS);
    for name in ["thinking_budget_tokens", "reasoning_budget_tokens"] {
        let body = with(ask(LONG), json!({ name: 12 }));
        // twelve letters, the mark, two line ends and four letters
        assert_eq!(parts(&server, &body), expected("abcdefghijkl", "Yes.", [12, 19]));
    }
    let cut = with(ask("[[<think>\nabcd========\n\nNo.]]"), json!({ "thinking_budget_tokens": 4 }));
    assert_eq!(parts(&server, &cut), expected("abcd", "No.", [4, 10]));
    let none = with(ask("[[<think>\n========\n\nNo.]]"), json!({ "thinking_budget_tokens": 0 }));
    assert_eq!(parts(&server, &none), expected("", "No.", [0, 6]));
}

#[test]
fn without_a_budget_reasoning_goes_on() {
    let server = server(OPENS);
    let all = "abcdefghijkl========\n\nYes.";
    for fields in
        [json!({}), json!({ "thinking_budget_tokens": -1 }), json!({ "thinking_budget_tokens": 100 })]
    {
        let found = parts(&server, &with(ask(LONG), fields));
        assert_eq!(found, expected(all, "", [all.len() as u64; 2]));
    }
    // a budget that is not used up changes nothing
    let body = with(ask("[[<think>\nhm\n</think>\n\nYes.]]"), json!({ "thinking_budget_tokens": 4 }));
    assert_eq!(parts(&server, &body), expected("hm", "Yes.", [3, 10]));
}

#[test]
fn a_budget_counts_from_the_mark_that_the_model_writes() {
    let server = server(CLOSES);
    let body = with(ask("[[<think>\nabcd========\n\nYes.]]"), json!({ "thinking_budget_tokens": 5 }));
    assert_eq!(parts(&server, &body), expected("abcd", "Yes.", [5, 13]));
    // it has no effect without reasoning
    let body = with(ask("[[just an answer]]"), json!({ "thinking_budget_tokens": 0 }));
    assert_eq!(parts(&server, &body), expected("", "just an answer", [0, 14]));
}

#[test]
fn each_of_several_answers_has_the_budget() {
    let server = server(OPENS);
    let answer = server.post(CHAT, &with(ask(LONG), json!({ "thinking_budget_tokens": 12, "n": 3 }))).ok();
    for choice in answer["choices"].as_array().unwrap() {
        assert_eq!(choice["message"]["reasoning_content"], "abcdefghijkl");
        assert_eq!(choice["message"]["content"], "Yes.");
    }
    assert_eq!(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 36);
}

#[test]
fn a_schema_is_kept_behind_reasoning_that_a_budget_ends() {
    let server = server(OPENS);
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["red", "blue"] } },
        "required": ["a"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let script = "[[<think>\nabcdefghijkl========{\"a\":\"red\"}]]";
    let body = with(ask(script), json!({ "thinking_budget_tokens": 12, "response_format": format }));
    let (reasoning, text, count, ..) = parts(&server, &body);
    assert_eq!((reasoning.as_str(), text.as_str(), count), ("abcdefghijkl", "{\"a\":\"red\"}", 12));
}

#[test]
fn reasoning_can_be_turned_off_in_every_way() {
    for template in [CLOSES, OPENS] {
        let server = server(template);
        for fields in [
            json!({ "chat_template_kwargs": { "enable_thinking": false } }),
            json!({ "reasoning_effort": "none" }),
        ] {
            assert_eq!(parts(&server, &with(ask(SILENT), fields)), expected("", "No.", [0, 3]));
        }
        let answer =
            server.post("/api/chat", &with(ask(SILENT), json!({ "think": false, "stream": false }))).ok();
        assert_eq!(answer["message"]["content"], "No.");
    }
}

#[test]
fn an_effort_reaches_the_template() {
    let server = server(OPENS);
    let prompt =
        |fields: Value| server.post("/apply-template", &with(ask("q"), fields)).ok()["prompt"].clone();
    let text = prompt(json!({ "reasoning_effort": "low" }));
    assert!(text.as_str().unwrap().contains("<|im_start|>effort\nlow<|im_end|>"), "{text}");
    let text = prompt(json!({ "reasoning_effort": "none" }));
    assert!(text.as_str().unwrap().ends_with("<think>\n\n</think>\n\n"), "{text}");
}

#[test]
fn anthropics_budget_is_kept() {
    let server = server(OPENS);
    let thinking = json!({ "type": "enabled", "budget_tokens": 12 });
    let body = with(ask(LONG), json!({ "max_tokens": 100, "thinking": thinking }));
    let answer = server.post("/v1/messages", &body).ok();
    assert_eq!(answer["content"][0]["type"], "thinking");
    assert_eq!(answer["content"][0]["thinking"], "abcdefghijkl");
    assert_eq!(answer["content"][1]["text"], "Yes.");
    assert_eq!(answer["usage"]["output_tokens"], 19);
    assert_eq!(answer["usage"]["output_tokens_details"], json!({ "thinking_tokens": 12 }));
    let disabled = with(ask(SILENT), json!({ "max_tokens": 100, "thinking": { "type": "disabled" } }));
    let answer = server.post("/v1/messages", &disabled).ok();
    assert_eq!(answer["content"], json!([{ "type": "text", "text": "No." }]));
}

/// gpt-oss: channels in place of marks; the answer begins after the name of the role.
const CHANNELS: &str = "{# <|channel|> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + \
'<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";

#[test]
fn channels_of_reasoning_share_the_budget() {
    let marks = &["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>"];
    let server = Server::start(&Kind { template: Some(CHANNELS), marks, ..Kind::default() });
    let limit = |tokens: u32| json!({ "thinking_budget_tokens": tokens });
    // the mark that ends the message replaces the last seven letters
    let long =
        "<|channel|>analysis<|message|>abcdefgh=======<|start|>assistant<|channel|>final<|message|>Yes.";
    let (reasoning, text, count, ..) = parts(&server, &with(ask(&format!("[[{long}]]")), limit(8)));
    assert_eq!((reasoning.as_str(), text.as_str(), count), ("abcdefgh", "Yes.", 8));
    // without a limit there is no answer in it
    let (reasoning, text, count, ..) = parts(&server, &ask(&format!("[[{long}]]")));
    assert_eq!((reasoning.as_str(), text.as_str(), count), ("abcdefgh=======", "Yes.", 15));
    let twice = "<|channel|>analysis<|message|>abcd<|end|><|start|>assistant<|channel|>analysis<|message|>efgh\
                 =======<|start|>assistant<|channel|>analysis<|message|>more";
    let (reasoning, text, count, _, reason) = parts(&server, &with(ask(&format!("[[{twice}]]")), limit(8)));
    assert_eq!(
        (reasoning.as_str(), text.as_str(), count),
        ("abcdefgh", "more", 8),
        "the third is no analysis"
    );
    assert_eq!(reason, "stop");
    let none = "<|channel|>analysis<|message|>ab";
    let (reasoning, text, count, ..) = parts(&server, &with(ask(&format!("[[{none}]]")), limit(0)));
    assert_eq!((reasoning.as_str(), text.as_str(), count), ("", "ab", 0));
    // a tool call is not reasoning
    let call = "<|channel|>commentary to=functions.weather<|message|>{\"city\": \"Rom\"}<|call|>";
    let body = with(with(ask(&format!("[[{call}]]")), limit(0)), json!({ "tools": crate::chat::weather() }));
    let choice = server.post(CHAT, &body).ok()["choices"][0].clone();
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"city\": \"Rom\"}");
}

#[test]
fn a_shape_is_kept_behind_channels_that_a_budget_ends() {
    let marks = &["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>"];
    let server = Server::start(&Kind { template: Some(CHANNELS), marks, ..Kind::default() });
    let script =
        "<|channel|>analysis<|message|>abcd=======<|start|>assistant<|channel|>final<|message|>{\"a\": 1}";
    let fields = json!({ "thinking_budget_tokens": 4, "response_format": { "type": "json_object" } });
    let (reasoning, text, count, ..) = parts(&server, &with(ask(&format!("[[{script}]]")), fields));
    assert_eq!((reasoning.as_str(), text.as_str(), count), ("abcd", "{\"a\": 1}", 4));
}

#[test]
fn responses_count_what_was_reasoned() {
    let server = server(OPENS);
    let body = json!({ "model": "scripted", "input": LONG, "temperature": 0, "thinking_budget_tokens": 12 });
    let answer = server.post("/v1/responses", &body).ok();
    assert_eq!(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 12);
    let kinds: Vec<_> =
        answer["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["reasoning", "message"]);
}

#[test]
fn a_message_in_channels_is_continued_where_it_ends() {
    let marks = &["<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>", "<|call|>"];
    let server = Server::start(&Kind { template: Some(CHANNELS), marks, ..Kind::default() });
    let body = |script: &str, begun: Value| {
        let messages = json!([{ "role": "user", "content": format!("[[{script}]]") }, begun]);
        with(ask(""), json!({ "messages": messages, "tools": crate::chat::weather() }))
    };
    // no message is continued: channels are parsed as usual
    let whole = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes";
    let (reasoning, text, ..) = parts(&server, &body(whole, json!({ "role": "assistant", "content": "" })));
    assert_eq!((reasoning.as_str(), text.as_str()), ("hm", "Yes"));
    let thought = json!({ "role": "assistant", "content": "", "reasoning_content": "so" });
    let rest = "me<|end|><|start|>assistant<|channel|>final<|message|>Yes";
    let script = format!("<|channel|>analysis<|message|>so{rest}");
    let (reasoning, text, ..) = parts(&server, &body(&script, thought));
    assert_eq!((reasoning.as_str(), text.as_str()), ("me", "Yes"));
    let answered = json!({ "role": "assistant", "content": "He" });
    let rest = "llo<|end|><|start|>assistant<|channel|>commentary to=functions.weather<|message|>{}<|call|>";
    let script = format!("<|channel|>final<|message|>He{rest}");
    let choice = server.post(CHAT, &body(&script, answered)).ok()["choices"][0].clone();
    assert_eq!(choice["message"]["content"], "llo");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "weather", "{choice}");
}
