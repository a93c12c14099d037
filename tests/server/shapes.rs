//! Answers with a required format, from a model that would write something else.

use crate::chat::{ask, weather, with};
use crate::client::{Answer, Server};
use crate::serving::Kind;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn content(server: &Server, body: &Value) -> String {
    let answer = server.post(CHAT, body).ok();
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_schema_is_enforced_whatever_the_model_writes() {
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
fn expressions_and_grammars_are_enforced() {
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

/// Templates that show a style, and the text that the model would write without a grammar.
const STYLES: [&str; 9] = [
    "<tool_call>",
    "<|python_tag|>",
    "<tool_call><function=",
    "<arg_key>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS][ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<|channel|>",
    "<|tool_call>",
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
        // as pydantic writes nested models
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
            // it may reason first, but begins the call, whose channel begins the same way
            ask(if sign == "<|channel|>" { "[[<|channel|>c]]" } else { "[[I won't]]" }),
            json!({ "tools": tools, "tool_choice": { "function": { "name": "weather" } }, "max_tokens": 1500 }),
        );
        let answer = server.post(CHAT, &body).ok();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{sign}: {choice}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "weather", "{sign}");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "city": "Rom" }), "{sign}");
    }
}

/// A template that shows a style.
fn showing(sign: &str) -> &'static str {
    let template = format!(
        "{{# {sign} #}}{{% for m in messages %}}{{{{ '<|im_start|>' + m.role + '\\n' + m.content + \
         '<|im_end|>\\n' }}}}{{% endfor %}}{{{{ '<|im_start|>assistant\\n' }}}}"
    );
    Box::leak(template.into_boxed_str())
}

/// A strict tool with two parameters.
fn strict() -> Value {
    let schema = json!({ "type": "object", "properties": { "city": { "enum": ["Rom"] }, "days": { "$ref": "#/$defs/few" } },
        "required": ["city", "days"], "additionalProperties": false, "$defs": { "few": { "enum": [3] } } });
    json!([{ "type": "function", "function": { "name": "weather", "strict": true, "parameters": schema } }])
}

/// For each style, the beginning of a call and the text that the model would write then.
const BEGINNINGS: [(&str, &str, &str); 9] = [
    ("<tool_call>", "I ask. ", "<tool_call>\n{\"name\": \"other\"}"),
    ("<tool_call><function=", "I ask. ", "<tool_call>\n<function=weather>\n<parameter=country>"),
    ("<arg_key>", "I ask. ", "<tool_call>other"),
    ("[TOOL_CALLS]", "I ask. ", "[TOOL_CALLS]none"),
    ("[TOOL_CALLS][ARGS]", "I ask. ", "[TOOL_CALLS]other[ARGS]{}"),
    ("<｜tool▁calls▁begin｜>", "I ask. ", "<｜tool▁calls▁begin｜>other"),
    ("<|python_tag|>", "", "{\"name\": \"other\"}"),
    ("<|tool_call>", "I ask. ", "<|tool_call>call:weather{country:"),
    ("<|channel|>", "", "<|channel|>commentary to=functions.other<|message|>{}"),
];

#[test]
fn calls_of_strict_tools_keep_to_their_schemas_where_the_model_begins_them() {
    for (sign, before, call) in BEGINNINGS {
        let server = Server::start(&Kind { template: Some(showing(sign)), ..Kind::default() });
        let body = |text: &str| {
            with(
                ask(&format!("[[{text}]]")),
                json!({ "tools": strict(), "parallel_tool_calls": false, "max_tokens": 1500 }),
            )
        };
        let choice = server.post(CHAT, &body(&format!("{before}{call}"))).ok()["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "tool_calls", "{sign}: {choice}");
        let message = &choice["message"];
        let function = &message["tool_calls"][0]["function"];
        assert_eq!(function["name"], "weather", "{sign}");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "city": "Rom", "days": 3 }), "{sign}");
        assert_eq!(message["content"].as_str().unwrap_or_default(), before.trim_end(), "{sign}");
        // without a call, the text is free
        let prose = "a < b {} <tool> [TOOL";
        let text =
            if sign == "<|channel|>" { format!("<|channel|>final<|message|>{prose}") } else { prose.into() };
        assert_eq!(content(&server, &body(&text)), prose, "{sign}");
        // a strict schema that can't be enforced is refused
        let odd = |strict: bool| {
            let function = json!({ "name": "f", "strict": strict, "parameters": { "properties": { "a": { "not": {} } } } });
            let tools = json!([{ "type": "function", "function": function }]);
            server.post(CHAT, &with(ask("[[a]]"), json!({ "tools": tools }))).status
        };
        assert_eq!((odd(true), odd(false)), (400, 200), "{sign}");
    }
}

#[test]
fn a_shape_leaves_room_for_calls() {
    for (sign, _, call) in BEGINNINGS {
        let server = Server::start(&Kind { template: Some(showing(sign)), ..Kind::default() });
        let schema = json!({ "type": "object", "properties": { "a": { "enum": [1] } }, "required": ["a"],
            "additionalProperties": false });
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let fields = json!({ "tools": strict(), "response_format": format, "parallel_tool_calls": false,
            "max_tokens": 1500 });
        let said = |text: &str| server.post(CHAT, &with(ask(&format!("[[{text}]]")), fields.clone())).ok();
        let choice = said(call)["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "tool_calls", "{sign}: {choice}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "city": "Rom", "days": 3 }), "{sign}");
        let head = if sign == "<|channel|>" { "<|channel|>final<|message|>" } else { "" };
        let choice = said(&format!("{head}{{\"a\": 2}}"))["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop", "{sign}: {choice}");
        let answer: Value = serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
        assert_eq!(answer, json!({ "a": 1 }), "{sign}");
    }
}

#[test]
fn parameters_in_tags_are_forced_by_their_schema() {
    for sign in ["<tool_call><function=", "<arg_key>"] {
        let server = Server::start(&Kind { template: Some(showing(sign)), ..Kind::default() });
        let schema = json!({ "type": "object", "properties": {
            "count": { "type": "integer", "minimum": 5, "maximum": 5 }, "free": { "type": "boolean" } },
            "required": ["count"] });
        let tools = json!([{ "type": "function", "function": { "name": "f", "parameters": schema } }]);
        let fields = json!({ "tools": tools, "tool_choice": "required", "parallel_tool_calls": false });
        let answer = server.post(CHAT, &with(ask("[[I won't]]"), fields)).ok();
        let function = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["count"], 5, "{sign}: {arguments}");
        assert!(arguments["free"].is_null() || arguments["free"].is_boolean(), "{sign}: {arguments}");
    }
}

/// A server whose model writes a call of the tool `f` with one parameter `a` between tags.
struct TaggedCall {
    server: Server,
    open: &'static str,
    close: &'static str,
}

impl TaggedCall {
    fn both() -> [Self; 2] {
        [
            (
                "<tool_call><function=",
                "<tool_call>\n<function=f>\n<parameter=a>\n",
                "\n</parameter>\n</function>\n</tool_call>",
            ),
            ("<arg_key>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"),
        ]
        .map(|(sign, open, close)| {
            let server = Server::start(&Kind { template: Some(showing(sign)), ..Kind::default() });
            Self { server, open, close }
        })
    }

    /// The answer of a model that wants to write `text`.
    fn call(&self, property: &Value, strict: bool, text: &str) -> Answer {
        let schema = json!({ "type": "object", "properties": { "a": property }, "required": ["a"],
            "$defs": { "short": { "type": "string", "maxLength": 3 } } });
        let function = json!({ "name": "f", "strict": strict, "parameters": schema });
        let fields = json!({ "tools": [{ "type": "function", "function": function }], "tool_choice": "required",
            "max_tokens": 1500 });
        let Self { server, open, close } = self;
        server.post(CHAT, &with(ask(&format!("[[{open}{text}{close}]]")), fields))
    }

    /// The value that comes out.
    fn value(&self, property: &Value, strict: bool, text: &str) -> Value {
        let answer = self.call(property, strict, text).ok()["choices"][0].clone();
        assert_eq!(answer["finish_reason"], "tool_calls", "{property}: {answer}");
        let arguments = &answer["message"]["tool_calls"][0]["function"]["arguments"];
        serde_json::from_str::<Value>(arguments.as_str().unwrap()).unwrap()["a"].clone()
    }
}

#[test]
fn texts_in_tags_that_fit_their_schema_come_out_as_they_are() {
    for tagged in TaggedCall::both() {
        for (property, text) in [
            (json!({ "type": "string", "pattern": "^[a-z]+$" }), "abc"),
            (json!({ "type": "string", "pattern": "b" }), "abc</x>"),
            (json!({ "type": "string", "minLength": 2, "maxLength": 5 }), "a\n<b"),
            (json!({ "type": "string", "format": "date" }), "2026-02-28"),
            (json!({ "allOf": [{ "type": "string", "minLength": 1 }, { "maxLength": 4 }] }), "abcd"),
            (json!({ "anyOf": [{ "type": "string", "maxLength": 2 }, { "type": "null" }] }), "ab"),
            (json!({ "$ref": "#/$defs/short" }), "abc"),
        ] {
            assert_eq!(tagged.value(&property, true, text), text, "{property}");
            assert_eq!(tagged.value(&property, false, text), text, "{property}");
        }
        let nullable = json!({ "type": ["string", "null"], "maxLength": 3 });
        assert_eq!(tagged.value(&nullable, true, "null"), Value::Null);
    }
}

#[test]
fn texts_in_tags_that_break_their_schema_do_not_come_out() {
    for tagged in TaggedCall::both() {
        for (property, text) in [
            (json!({ "type": "string", "pattern": "^[a-z]{3}$" }), "ABC"),
            (json!({ "type": "string", "maxLength": 3 }), "abcdef"),
            (json!({ "type": ["string", "null"], "maxLength": 3 }), "abcdef"),
            (json!({ "$ref": "#/$defs/short" }), "abcdef"),
        ] {
            let found = tagged.value(&property, true, text);
            let found = found.as_str().unwrap();
            assert!(found != text && found.chars().count() <= 3, "{property}: {found}");
            let fits = found.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(property.get("pattern").is_none() || fits, "{found}");
        }
    }
}

/// The keyword is named, or dropped where it need not hold.
#[test]
fn keywords_that_can_not_be_enforced_in_tags_are_named() {
    for tagged in TaggedCall::both() {
        for (keyword, property) in [
            ("pattern", json!({ "type": "string", "pattern": "^a(?=b)" })),
            ("format", json!({ "type": "string", "format": "iri-reference" })),
            ("not", json!({ "type": "string", "not": { "const": "b" } })),
        ] {
            let refusal = tagged.call(&property, true, "ab");
            assert_eq!(refusal.status, 400, "{keyword}");
            for part in ["tool f", keyword, "/properties/a"] {
                assert!(refusal.body.contains(part), "{}", refusal.body);
            }
            assert_eq!(tagged.value(&property, false, "ab"), "ab", "{keyword}");
        }
    }
}

/// A tool that need not be strict does not keep others from being called by what can't be enforced in it.
#[test]
fn tools_that_need_not_be_strict_lose_what_can_not_be_enforced() {
    // zod's e-mail address and record
    let email = "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
    let schema = json!({ "type": "object", "required": ["to", "tags", "count"],
        "additionalProperties": false, "properties": {
        "to": { "type": "string", "pattern": email },
        "tags": { "type": "object", "propertyNames": { "pattern": "^(?!x)" }, "additionalProperties": { "type": "string" } },
        "count": { "type": "integer", "minimum": 5, "maximum": 5 } } });
    let server = Server::start(&Kind::default());
    let send = |strict: bool| {
        let function = json!({ "name": "send", "strict": strict, "parameters": schema });
        let call = "<tool_call>\n{\"name\": \"send\", \"arguments\": {\"to\": \"a@b.c\", \"tags\": {\"x\": \"y\"}, \"count\": 7}}\n</tool_call>";
        let fields = json!({ "tools": [{ "type": "function", "function": function }], "tool_choice": "required",
            "max_tokens": 1500 });
        server.post(CHAT, &with(ask(&format!("[[{call}]]")), fields))
    };
    let answer = send(false).ok();
    let arguments = &answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
    let arguments: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
    assert_eq!(
        arguments,
        json!({ "to": "a@b.c", "tags": { "x": "y" }, "count": 5 }),
        "what can be enforced is"
    );
    let refusal = send(true);
    assert_eq!(refusal.status, 400);
    for part in ["tool send", "pattern at /properties/to", "look-ahead"] {
        assert!(refusal.body.contains(part), "{}", refusal.body);
    }
}

#[test]
fn refusals_name_the_keyword_and_no_option() {
    let server = Server::start(&Kind::default());
    let said = |schema: Value| {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let answer = server.post(CHAT, &with(ask("[[x]]"), json!({ "response_format": format })));
        assert_eq!(answer.status, 400);
        answer.json()["error"]["message"].as_str().unwrap().to_owned()
    };
    let one = said(json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }));
    assert!(one.contains("oneOf") && !one.contains("option"), "{one}");
    for keyword in ["not", "if", "uniqueItems", "contains", "patternProperties"] {
        let value = match keyword {
            "uniqueItems" => json!(true),
            "patternProperties" => json!({ "a": { "not": {} } }),
            _ => json!({}),
        };
        let message = said(json!({ keyword: value }));
        let named = if keyword == "patternProperties" { "not" } else { keyword };
        assert!(message.contains(named), "{keyword}: {message}");
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
