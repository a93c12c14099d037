//! `/v1/responses`

use crate::chat::CALL;
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

fn tools() -> Value {
    json!([
        { "type": "function", "name": "weather", "parameters": { "type": "object" }, "strict": false },
        { "type": "web_search" }, { "type": "namespace", "name": "other" },
    ])
}

#[test]
fn an_answer_has_items_of_parts() {
    let server = Server::start(&Kind::default());
    let body = json!({ "model": "m", "input": "[[Grüße]]", "instructions": "be brief", "temperature": 0 });
    let answer = server.post(PATH, &body).ok();
    assert_eq!((&answer["object"], &answer["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(answer["instructions"], "be brief");
    let item = &answer["output"][0];
    assert_eq!((&item["type"], &item["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(item["content"][0]["text"], "Grüße");
    assert_eq!(answer["usage"]["output_tokens"], "Grüße".len());
    assert_eq!(answer["usage"]["input_tokens_details"]["cached_tokens"], 0);
    let cut = server.post(PATH, &json!({ "input": "[[abc]]", "max_output_tokens": 1 })).ok();
    assert_eq!(cut["status"], "incomplete");
    assert_eq!(cut["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!((&cut["output"][0]["status"], &item["status"]), (&json!("incomplete"), &json!("completed")));
    let body = json!({ "input": "[[abc]]", "max_output_tokens": 1, "stream": true });
    let events = server.post(PATH, &body).events();
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["output"][0]["status"]),
        (&json!("response.incomplete"), &json!("incomplete"))
    );
}

#[test]
fn a_stream_has_every_item_and_part_with_its_index() {
    let server = Server::start(&Kind::default());
    let body =
        json!({ "input": format!("[[I ask.\n{CALL}]]"), "tools": tools(), "stream": true, "temperature": 0 });
    let events = server.post(PATH, &body).events();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let mut names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for event in &events {
        let name = event["type"].as_str().unwrap();
        if name.contains("output_text") || name.contains("content_part") {
            assert_eq!((&event["output_index"], &event["content_index"]), (&json!(0), &json!(0)), "{name}");
        }
        if name.contains("arguments") || name.contains("output_text") {
            assert!(event["item_id"].is_string(), "{name}");
        }
    }
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "I ask.");
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][1]["name"], "weather");
    assert_eq!(last["output"][1]["arguments"], "{\"city\":\"Köln\"}");
    assert!(last["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn whole_answers_have_the_items_of_streams() {
    let template = "{# </think> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + \
                    '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let item = |item: &Value| {
        let text = [&item["content"][0]["text"], &item["arguments"]]
            .map(|text| text.as_str().unwrap_or_default().to_owned());
        (item["type"].clone(), item["status"].clone(), text)
    };
    let items =
        |response: &Value| response["output"].as_array().unwrap().iter().map(item).collect::<Vec<_>>();
    for (text, limit, kinds) in [
        (
            format!("<think>hm</think>\nI ask.\n{CALL} and wait."),
            400,
            ["reasoning", "message", "function_call", "message"].as_slice(),
        ),
        (format!("<think>hm</think>\n{CALL}"), 75, &["reasoning", "function_call"]),
        ("<think>hm, hm".to_owned(), 400, &["reasoning"]),
        (String::new(), 400, &["message"]),
    ] {
        let mut body = json!({ "input": format!("[[{text}]]"), "tools": tools(), "temperature": 0,
            "max_output_tokens": limit });
        let whole = server.post(PATH, &body).ok();
        body["stream"] = true.into();
        let events = server.post(PATH, &body).events();
        assert_eq!(items(&whole), items(&events.last().unwrap()["response"]), "{text}");
        let found: Vec<_> = items(&whole).into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(found, kinds, "{text}");
    }
}

#[test]
fn calls_can_be_forced() {
    let server = Server::start(&Kind::default());
    let city = json!({ "type": "object", "properties": { "city": { "enum": ["Rom"] } }, "required": ["city"],
        "additionalProperties": false });
    let tools = json!([
        { "type": "web_search" },
        { "type": "function", "name": "other" },
        { "type": "function", "name": "weather", "parameters": city },
    ]);
    let weather = json!({ "type": "function", "name": "weather" });
    let allowed = json!({ "type": "allowed_tools", "mode": "required", "tools": [weather] });
    for choice in [weather, allowed] {
        let body = json!({ "input": "[[no]]", "tools": tools, "tool_choice": choice, "max_output_tokens": 800,
            "temperature": 0 });
        let item = server.post(PATH, &body).ok()["output"][0].clone();
        assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!("weather")));
    }
    let refusal = server.post(PATH, &json!({ "input": "a", "tool_choice": "perhaps" }));
    assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("tool_choice")));
}

#[test]
fn conversations_come_back_as_items() {
    let server = Server::start(&Kind::default());
    let input = json!([
        { "role": "user", "content": [{ "type": "input_text", "text": "q" }] },
        { "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "t" }] },
        { "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}" },
        { "type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c1", "output": "sunny" },
        { "type": "web_search_call" },
        { "role": "user", "content": "[[thanks]]" },
    ]);
    let answer = server.post(PATH, &json!({ "input": input, "temperature": 0 })).ok();
    assert_eq!(answer["output"][0]["content"][0]["text"], "thanks");
}

#[test]
fn reasoning_belongs_to_the_answer_after_it() {
    let template = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.reasoning_content or '') + m.content + \
                    '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let server = Server::start(&Kind { template: Some(template), ..Kind::default() });
    let ask = |between: Value| {
        let thought = json!({ "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "[[thought]]" }] });
        let said = json!({ "role": "assistant", "content": "a" });
        let input = json!([thought, between, said, { "role": "user", "content": "go" }]);
        let answer = server.post(PATH, &json!({ "input": input, "temperature": 0 })).ok();
        answer["output"][0]["content"][0]["text"].clone()
    };
    // the scripted model repeats the last text between its marks
    assert_eq!(ask(json!({ "role": "user", "content": "[[asked]]" })), "asked");
    assert_eq!(ask(json!({ "type": "web_search_call" })), "thought");
}

/// A template that prints tools and calls, so that a script may stand in any text of theirs.
const PRINTING: &str = "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}{# <tool_call> #}{% for m in messages %}\
{{ '<|im_start|>' + m.role + '\n' + (m.reasoning_content or '') + m.content }}{% for call in m.tool_calls or [] %}\
{{ call.function.name + ' ' + (call.function.arguments | tojson) }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}\
{{ '<|im_start|>assistant\n' }}";

fn printing() -> Server {
    Server::start(&Kind { template: Some(PRINTING), ..Kind::default() })
}

/// The only item of an answer, whole and as a stream.
fn only_item(server: &Server, body: &Value) -> Value {
    let without_ids = |response: &Value| {
        let mut item = response["output"][0].clone();
        assert_eq!(response["output"].as_array().unwrap().len(), 1, "{response}");
        for id in ["id", "call_id"] {
            assert!(item[id].as_str().is_some_and(|id| id.len() > 8));
            item[id] = Value::Null;
        }
        item
    };
    let whole = without_ids(&server.post(PATH, body).ok());
    let mut body = body.clone();
    body["stream"] = true.into();
    let events = server.post(PATH, &body).events();
    assert_eq!(without_ids(&events.last().unwrap()["response"]), whole);
    let done = events.iter().find(|event| event["type"] == "response.output_item.done").unwrap();
    for field in ["type", "namespace", "name", "arguments", "input"] {
        assert_eq!(done["item"][field], whole[field], "{field}");
    }
    whole
}

fn call(name: &str, arguments: &Value) -> String {
    format!("[[<tool_call>{}</tool_call>]]", json!({ "name": name, "arguments": arguments }))
}

#[test]
fn functions_of_a_namespace_are_offered_and_their_calls_name_it() {
    let server = printing();
    let inner = |name: &str| {
        json!({ "type": "function", "name": name, "description": format!("does {name}"),
        "parameters": { "type": "object", "properties": { "x": { "enum": [name] } }, "required": ["x"],
            "additionalProperties": false } })
    };
    let tools = json!([
        { "type": "namespace", "name": "mcp__w__", "description": "of w", "tools": [inner("get"), inner("put")] },
        { "type": "namespace", "name": "mcp__v", "tools": [inner("get")] },
    ]);
    for (offered, namespace, name) in [
        ("mcp__w__put", "mcp__w__", "put"),
        ("mcp__v__get", "mcp__v", "get"),
        ("mcp__w__get", "mcp__w__", "get"),
    ] {
        let body = json!({ "input": call(offered, &json!({ "x": name })), "tools": tools, "temperature": 0 });
        let item = only_item(&server, &body);
        let named = [&item["type"], &item["namespace"], &item["name"], &item["arguments"]];
        let arguments = json!({ "x": name }).to_string();
        assert_eq!(named, [&json!("function_call"), &json!(namespace), &json!(name), &json!(arguments)]);
    }
    // a forced function, by its own name if that is unique, or with its namespace
    for choice in [
        json!({ "type": "function", "name": "put" }),
        json!({ "type": "function", "name": "put", "namespace": "mcp__w__" }),
        json!({ "type": "allowed_tools", "mode": "required", "tools": [{ "type": "function", "name": "mcp__w__put" }] }),
    ] {
        let body = json!({ "input": "[[no]]", "tools": tools, "tool_choice": choice, "temperature": 0,
            "max_output_tokens": 400 });
        let item = only_item(&server, &body);
        assert_eq!((&item["namespace"], &item["name"]), (&json!("mcp__w__"), &json!("put")), "{choice}");
    }
    // every description is in the prompt: the scripted model repeats the last text between its marks
    let said = |tools: Value| {
        let body = json!({ "input": "q", "tools": tools, "temperature": 0 });
        server.post(PATH, &body).ok()["output"][0]["content"][0]["text"].clone()
    };
    let space = |all: &str, one: &str| {
        json!([{ "type": "namespace", "name": "n", "description": all,
        "tools": [{ "type": "function", "name": "f", "description": one }] }])
    };
    assert_eq!(said(space("[[all]]", "")), "all");
    assert_eq!(said(space("", "[[one]]")), "one");
}

#[test]
fn custom_tools_take_a_text() {
    let server = printing();
    let tools = json!([{ "type": "custom", "name": "patch", "description": "edits" }]);
    let input = "*** Begin\n-\"a\"\\\n+ü\n";
    let body =
        json!({ "input": call("patch", &json!({ "input": input })), "tools": tools, "temperature": 0 });
    let item = only_item(&server, &body);
    assert_eq!(
        [&item["type"], &item["name"], &item["input"], &item["status"]],
        [&json!("custom_tool_call"), &json!("patch"), &json!(input), &json!("completed")]
    );
    assert!(item.get("arguments").is_none() && item.get("namespace").is_none());
    let events = server
        .post(PATH, &{
            let mut body = body.clone();
            body["stream"] = true.into();
            body
        })
        .events();
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
    let deltas = of("response.custom_tool_call_input.delta");
    assert_eq!(deltas.iter().filter_map(|event| event["delta"].as_str()).collect::<String>(), input);
    assert_eq!(of("response.custom_tool_call_input.done")[0]["input"], input);
    assert!(of("response.function_call_arguments.delta").is_empty());
    // grammars are described, and regular expressions hold
    let said = |format: Value| {
        let tools = json!([{ "type": "custom", "name": "patch", "format": format }]);
        let body = json!({ "input": "q", "tools": tools, "temperature": 0 });
        server.post(PATH, &body).ok()["output"][0]["content"][0]["text"].clone()
    };
    assert_eq!(said(json!({ "type": "grammar", "syntax": "lark", "definition": "start: [[A]]" })), "A");
    let tools = json!([{ "type": "custom", "name": "patch",
        "format": { "type": "grammar", "syntax": "regex", "definition": "ab|cd" } }]);
    let body = json!({ "input": call("patch", &json!({ "input": "xx" })), "tools": tools, "temperature": 0,
        "tool_choice": { "type": "custom", "name": "patch" }, "max_output_tokens": 400 });
    let item = only_item(&server, &body);
    assert!(["ab", "cd"].contains(&item["input"].as_str().unwrap()), "{item}");
}

#[test]
fn calls_of_all_forms_come_back() {
    let server = printing();
    let said = |input: Value| {
        let answer = server.post(PATH, &json!({ "input": input, "temperature": 0 })).ok();
        answer["output"][0]["content"][0]["text"].clone()
    };
    let user = json!({ "role": "user", "content": "go" });
    let thought = |text: &str| json!({ "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": text }] });
    let plain =
        json!({ "type": "function_call", "call_id": "c", "namespace": "n", "name": "f", "arguments": "{}" });
    for (item, text) in [
        (json!({ "type": "custom_tool_call", "call_id": "c", "name": "p", "input": "[[in]]" }), "in"),
        (json!({ "type": "custom_tool_call_output", "call_id": "c", "output": "[[out]]" }), "out"),
        (
            json!({ "type": "function_call", "call_id": "c", "namespace": "[[n", "name": "f]]", "arguments": "{}" }),
            "n__f",
        ),
    ] {
        assert_eq!(said(json!([user, item, user])), text);
    }
    // reasoning in several items, also between calls
    assert_eq!(said(json!([user, thought("[[one"), thought("two]]"), plain, user])), "one\ntwo");
    assert_eq!(said(json!([user, thought("[[one"), plain, thought("two]]"), plain, user])), "one\ntwo");
}

#[test]
fn unknown_tools_and_items_are_refused_by_name() {
    let server = Server::start(&Kind::default());
    let function = json!({ "type": "function", "name": "n__f" });
    for (field, value, param, word) in [
        ("tools", json!([{ "type": "web_search" }, { "type": "sorcery" }]), "tools[1].type", "sorcery"),
        (
            "tools",
            json!([{ "type": "namespace", "name": "n", "tools": [{ "type": "web_search" }] }]),
            "tools[0].tools[0].type",
            "web_search",
        ),
        ("tools", json!([{ "type": "custom" }]), "tools[0].name", "missing"),
        (
            "tools",
            json!([function, { "type": "namespace", "name": "n", "tools": [{ "type": "function", "name": "f" }] }]),
            "tools[1].tools[0].name",
            "n__f",
        ),
        ("input", json!([{ "type": "local_shell_call" }]), "input[0].type", "local_shell_call"),
    ] {
        let mut body = json!({ "input": "a" });
        body[field] = value;
        let refusal = server.post(PATH, &body);
        let error = &refusal.json()["error"];
        assert_eq!((refusal.status, &error["param"]), (400, &json!(param)));
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
}

#[test]
fn probes_are_answered_and_memory_is_refused() {
    let server = Server::start(&Kind::default());
    for input in [json!(""), json!([])] {
        assert_eq!(server.post(PATH, &json!({ "input": input, "max_output_tokens": 1 })).status, 200);
    }
    for (field, value, param) in [
        ("previous_response_id", json!("resp_1"), "previous_response_id"),
        ("conversation", json!("conv_1"), "conversation"),
        ("prompt", json!({ "id": "pmpt_1" }), "prompt"),
        (
            "input",
            json!([{ "role": "user", "content": "a" }, { "type": "item_reference", "id": "m" }]),
            "input[1]",
        ),
    ] {
        let mut body = json!({ "input": "a" });
        body[field] = value;
        let refusal = server.post(PATH, &body);
        assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!(param)));
    }
    assert_eq!(
        server.post(PATH, &json!({ "input": "a", "truncation": "auto" })).ok()["truncation"],
        "disabled"
    );
}

#[test]
fn a_format_is_enforced() {
    let server = Server::start(&Kind::default());
    let schema = json!({ "type": "object", "properties": { "a": { "type": "boolean" } }, "required": ["a"],
        "additionalProperties": false });
    let text = json!({ "format": { "type": "json_schema", "name": "x", "schema": schema } });
    let answer = server
        .post(PATH, &json!({ "input": "[[no]]", "text": text, "max_output_tokens": 800, "temperature": 0 }))
        .ok();
    let value: Value =
        serde_json::from_str(answer["output"][0]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(value["a"].is_boolean());
}
