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
        { "type": "item_of_another_server" },
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
    assert_eq!(ask(json!({ "type": "item_of_another_server" })), "thought");
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
