//! Answers that must have a shape, from a model that would rather say something else.

use crate::chat::{ask, weather, with};
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn content(server: &Server, body: &Value) -> String {
    let answer = server.post(CHAT, body).ok();
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_schema_is_kept_whatever_the_model_wants() {
    let server = Server::start(&Kind::default());
    let schema = json!({
        "type": "object",
        "properties": { "name": { "enum": ["Ann", "Bob"] }, "age": { "type": "integer", "minimum": 0, "maximum": 9 } },
        "required": ["name", "age"], "additionalProperties": false,
    });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema } });
    for text in ["[[nothing of the kind]]", "[[]]", "[[{\"name\":\"Bob\",\"age\":7}]]", "[[{\"age\": true}]]"]
    {
        let body = with(ask(text), json!({ "response_format": format, "max_tokens": 800 }));
        let text = content(&server, &body);
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(["Ann", "Bob"].contains(&value["name"].as_str().unwrap()));
        assert!((0..10).contains(&value["age"].as_i64().unwrap()));
        assert_eq!(value.as_object().unwrap().len(), 2);
    }
}

#[test]
fn an_object_is_an_object() {
    let server = Server::start(&Kind::default());
    let wanted = "{\"a\": [1, true, null]}";
    let body = with(ask(&format!("[[{wanted}]]")), json!({ "response_format": { "type": "json_object" } }));
    assert_eq!(content(&server, &body), wanted);
}

#[test]
fn expressions_and_grammars_are_kept() {
    let server = Server::start(&Kind::default());
    let regex = with(ask("[[zzz]]"), json!({ "guided_regex": "[a-c]{3}[0-9]" }));
    let text = content(&server, &regex);
    assert_eq!(text.len(), 4, "{text}");
    assert!(text.bytes().take(3).all(|byte| (b'a'..=b'c').contains(&byte)));
    let grammar = "root ::= (\"yes\" | \"no\") rest?\nrest ::= \", \" [a-z]+ \"!\"";
    let body = |text: &str| with(ask(text), json!({ "grammar": grammar }));
    assert_eq!(content(&server, &body("[[no, really!]]")), "no, really!");
    let text = content(&server, &with(body("[[maybe]]"), json!({ "max_tokens": 9 })));
    assert!(text.starts_with("yes") || text.starts_with("no"), "{text}");
    for wrong in ["root ::= \"a", "item ::= \"a\"", "root ::= missing"] {
        assert_eq!(server.post(CHAT, &with(ask("a"), json!({ "grammar": wrong }))).status, 400, "{wrong}");
    }
    assert_eq!(server.post(CHAT, &with(ask("a"), json!({ "guided_regex": "(" }))).status, 400);
}

#[test]
fn a_call_can_be_forced() {
    let server = Server::start(&Kind::default());
    let named = json!({ "type": "function", "function": { "name": "weather" } });
    for choice in [json!("required"), named] {
        let body =
            with(ask("[[I won't]]"), json!({ "tools": weather(), "tool_choice": choice, "max_tokens": 800 }));
        let answer = server.post(CHAT, &body).ok();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "weather");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["city"].is_string());
    }
    let body =
        with(ask("a"), json!({ "tools": weather(), "tool_choice": { "function": { "name": "other" } } }));
    assert_eq!(server.post(CHAT, &body).status, 400);
}

#[test]
fn reasoning_comes_before_the_shape() {
    let template = "{# </think> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + \
                    '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let format = json!({ "response_format": { "type": "json_object" } });
    let body = with(ask("[[<think>{ what? }</think>\n{\"a\": 1}]]"), format.clone());
    let message = server.post(CHAT, &body).ok()["choices"][0]["message"].clone();
    assert_eq!(message["reasoning_content"], "{ what? }");
    assert_eq!(message["content"], "{\"a\": 1}");
    assert_eq!(content(&server, &with(ask("[[{\"b\": 2}]]"), format)), "{\"b\": 2}");
}

#[test]
fn hostile_schemas_end_in_an_answer() {
    let server = Server::start(&Kind::default());
    let mut deep = json!({ "type": "string" });
    for _ in 0..40 {
        deep = json!({ "type": "array", "items": deep });
    }
    let long = json!({ "enum": ["ü".repeat(200)] });
    let odd = json!({ "type": "string", "pattern": "(((((a{1,1000}){1,1000}){1,1000})))" });
    let wrong = json!({ "type": "ünknown ".repeat(40) });
    // llguidance cuts its message about these in the middle of a character
    let cut = json!({ "type": "object", "required": "ü".repeat(120) });
    let inner = json!({ "allOf": [{ "minimum": 1 }, { "maximum": "ü".repeat(120) }] });
    for schema in [
        deep,
        long,
        odd,
        wrong,
        cut,
        inner,
        json!(true),
        json!(3),
        json!({ "minLength": -1, "type": "string" }),
    ] {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let answer =
            server.post(CHAT, &with(ask("[[x]]"), json!({ "response_format": format, "max_tokens": 3 })));
        assert!([200, 400].contains(&answer.status), "{}: {schema}", answer.body);
    }
    assert_eq!(server.post(CHAT, &ask("[[a]]")).status, 200);
}

/// The templates that show a style, and what the model would say instead.
const STYLES: [&str; 8] = [
    "<tool_call>",
    "<|python_tag|>",
    "<tool_call><function=",
    "<arg_key>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS][ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<|channel|>",
];

#[test]
fn calls_can_be_forced_in_every_style() {
    for sign in STYLES {
        let template: &'static str = Box::leak(
            format!(
                "{{# {sign} #}}{{% for m in messages %}}{{{{ '<|im_start|>' + m.role + '\\n' + m.content + \
                 '<|im_end|>\\n' }}}}{{% endfor %}}{{{{ '<|im_start|>assistant\\n' }}}}"
            )
            .into_boxed_str(),
        );
        let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
        // as pydantic writes the models in a model
        let city = json!({ "$defs": { "City": { "enum": ["Rom"] } }, "type": "object",
            "properties": { "city": { "$ref": "#/$defs/City" } }, "required": ["city"], "additionalProperties": false });
        let tools = json!([
            { "type": "function", "function": { "name": "now", "parameters": { "type": "object", "properties": {}, "additionalProperties": false } } },
            { "type": "function", "function": { "name": "weather", "parameters": city } },
        ]);
        let any =
            with(ask("[[I won't]]"), json!({ "tools": tools, "tool_choice": "required", "max_tokens": 1 }));
        assert_eq!(server.post(CHAT, &any).status, 200, "{sign}");
        let body = with(
            // where it may reason first, it goes straight to the call, whose channel has this beginning
            ask(if sign == "<|channel|>" { "[[<|channel|>c]]" } else { "[[I won't]]" }),
            json!({ "tools": tools, "tool_choice": { "function": { "name": "weather" } }, "max_tokens": 1500 }),
        );
        let answer = server.post(CHAT, &body).ok();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{sign}: {choice}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "weather", "{sign}");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        // styles that are not JSON leave the parameters to the model
        assert!(arguments.is_object(), "{sign}: {arguments}");
        if !["<tool_call><function=", "<arg_key>"].contains(&sign) {
            assert_eq!(arguments, json!({ "city": "Rom" }), "{sign}");
        }
    }
}

#[test]
fn channels_have_room_for_a_shape() {
    let template = "{# <|channel|> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + \
                    '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let format = json!({ "response_format": { "type": "json_object" } });
    let script = "[[<|channel|>analysis<|message|>{ what? }<|end|><|start|>assistant<|channel|>final<|message|>{\"a\": 1}]]";
    let message = server.post(CHAT, &with(ask(script), format.clone())).ok()["choices"][0]["message"].clone();
    assert_eq!(
        (message["reasoning_content"].as_str(), message["content"].as_str()),
        (Some("{ what? }"), Some("{\"a\": 1}"))
    );
    let text = content(&server, &with(ask("[[<|channel|>final<|message|>{\"b\": 2}]]"), format));
    assert_eq!(text, "{\"b\": 2}");
}
