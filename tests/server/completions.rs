//! `/v1/completions`

use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

fn text(answer: &Value, index: usize) -> &str {
    answer["choices"][index]["text"].as_str().unwrap()
}

#[test]
fn prompts_are_texts_tokens_or_lists_of_them() {
    let server = Server::start(&Kind::default());
    let complete =
        |prompt: Value| server.post("/v1/completions", &json!({ "prompt": prompt, "temperature": 0 })).ok();
    let answer = complete(json!("[[abc]]"));
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(text(&answer, 0), "abc");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let tokens = server.post("/tokenize", &json!({ "content": "[[tok]]" })).ok()["tokens"].clone();
    assert_eq!(text(&complete(tokens.clone()), 0), "tok");
    let both = complete(json!(["[[one]]", "[[two]]"]));
    assert_eq!((text(&both, 0), text(&both, 1)), ("one", "two"));
    assert_eq!(both["choices"][1]["index"], 1);
    assert_eq!(text(&complete(json!([tokens, "[[mixed]]"])), 1), "mixed");
    assert_eq!(both["usage"]["completion_tokens"], 6);
    for (prompts, n) in [(65, 1), (52, 5)] {
        let body = json!({ "prompt": vec!["[[a]]"; prompts], "n": n });
        assert_eq!(server.post("/v1/completions", &body).status, 400, "{prompts} prompts, {n} answers");
    }
}

#[test]
fn a_prompt_is_echoed() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": "[[abc]]", "echo": true, "temperature": 0 });
    assert_eq!(text(&server.post("/v1/completions", &body).ok(), 0), "[[abc]]abc");
    let body = json!({ "prompt": "[[abc]]", "echo": true, "temperature": 0, "stream": true });
    let events = server.post("/v1/completions", &body).events();
    let texts: String = events.iter().map(|event| text(event, 0)).collect();
    assert_eq!(texts, "[[abc]]abc");
}

#[test]
fn an_echo_has_log_probabilities_of_the_prompt() {
    let server = Server::start(&Kind::default());
    let mut body =
        json!({ "prompt": "[[ab]]a", "echo": true, "logprobs": 2, "temperature": 0, "max_tokens": 8 });
    let answer = server.post("/v1/completions", &body).ok();
    assert_eq!(text(&answer, 0), "[[ab]]ab");
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["[", "[", "a", "b", "]", "]", "a", "b"]));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 2, 3, 4, 5, 6, 7]));
    let own = logprobs["token_logprobs"].as_array().unwrap();
    assert!(own[0].is_null() && logprobs["top_logprobs"][0].is_null());
    // after the closing marks the script is "a", then "b"
    assert!(own[6].as_f64().unwrap() > -1e-3 && own[7].as_f64().unwrap() > -1e-3, "{own:?}");
    assert!(own[3].as_f64().unwrap() < -1.0, "{own:?}");
    assert!(logprobs["top_logprobs"][7].get("b").is_some());
    body["max_tokens"] = 0.into();
    let answer = server.post("/v1/completions", &body).ok();
    assert_eq!(answer["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len(), 7);
    body["stream"] = true.into();
    let events = server.post("/v1/completions", &body).events();
    assert_eq!(events[0]["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len(), 7);
}

#[test]
fn log_probabilities_are_in_the_older_shape() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": "[[ab]]", "logprobs": 2, "temperature": 0 });
    let answer = server.post("/v1/completions", &body).ok();
    let logprobs = &answer["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["a", "b"]));
    assert_eq!(logprobs["text_offset"], json!([0, 1]));
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
    assert_eq!(logprobs["token_logprobs"].as_array().unwrap().len(), 2);
}

#[test]
fn llama_servers_form_has_the_stop_type() {
    let server = Server::start(&Kind::default());
    let complete = |body: Value| {
        let answer = server.post("/completion", &body).ok();
        assert!(server.post("/completions", &body).ok().pointer("/choices").is_none());
        answer
    };
    let answer =
        complete(json!({ "prompt": "[[ab\n]]", "temperature": 0, "return_tokens": true, "n_probs": 2 }));
    assert_eq!((answer["content"].as_str(), answer["stop_type"].as_str()), (Some("ab\n"), Some("eos")));
    assert_eq!((answer["has_new_line"].as_bool(), answer["stop"].as_bool()), (Some(true), Some(true)));
    assert_eq!(
        (answer["tokens_predicted"].as_u64(), answer["tokens_evaluated"].as_u64()),
        (Some(3), Some(7))
    );
    assert_eq!(answer["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(answer["completion_probabilities"][1]["top_logprobs"].as_array().unwrap().len(), 2);
    let answer = complete(json!({ "prompt": "[[abc]]", "temperature": 0, "n_predict": 2 }));
    assert_eq!((answer["content"].as_str(), answer["stop_type"].as_str()), (Some("ab"), Some("limit")));
    assert_eq!(
        (answer["tokens"].clone(), answer["generation_settings"]["n_predict"].as_i64()),
        (json!([]), Some(2))
    );
    let answer = complete(json!({ "prompt": ["[[abc]]", "[[d]]"], "temperature": 0, "stop": "c" }));
    assert_eq!((answer[0]["stopping_word"].as_str(), answer[1]["content"].as_str()), (Some("c"), Some("d")));
    assert_eq!(answer[1]["index"], 1);
    let events = server
        .post("/completion", &json!({ "prompt": "[[abc]]", "temperature": 0, "stream": true }))
        .events();
    let content: String = events.iter().map(|event| event["content"].as_str().unwrap()).collect();
    assert_eq!(content, "abc");
    let stops: Vec<bool> = events.iter().map(|event| event["stop"].as_bool().unwrap()).collect();
    assert_eq!(stops.iter().filter(|&&stop| stop).count(), 1);
    assert!(stops.last().unwrap() & events.last().unwrap()["timings"].is_object());
}

#[test]
fn the_sampled_token_is_among_the_likeliest() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": "[[ab]]", "logprobs": 0, "temperature": 0 });
    let logprobs = server.post("/v1/completions", &body).ok()["choices"][0]["logprobs"].clone();
    for (at, token) in ["a", "b"].iter().enumerate() {
        assert_eq!(logprobs["top_logprobs"][at], json!({ *token: logprobs["token_logprobs"][at] }));
    }
}

#[test]
fn the_best_answers_are_returned() {
    let server = Server::start(&Kind::default());
    let ask = |fields: Value| {
        // logits so flat that answers differ
        let mut body = json!({ "prompt": "[[abcdefgh]]", "seed": 3, "temperature": 50, "top_k": 0, "top_p": 1,
            "min_p": 0, "max_tokens": 8 });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.post("/v1/completions", &body)
    };
    let all = ask(json!({ "n": 6, "logprobs": 0 })).ok();
    let mean = |choice: &Value| {
        let own = choice["logprobs"]["token_logprobs"].as_array().unwrap();
        own.iter().map(|log_prob| log_prob.as_f64().unwrap()).sum::<f64>() / own.len() as f64
    };
    let mut choices = all["choices"].as_array().unwrap().clone();
    choices.sort_by(|one, other| mean(other).total_cmp(&mean(one)));
    assert_ne!(choices[0]["text"], choices[5]["text"]);
    let best = ask(json!({ "n": 2, "best_of": 6 })).ok();
    assert_eq!(best["choices"].as_array().unwrap().len(), 2);
    for (at, choice) in best["choices"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&choice["index"], &choice["text"]), (&json!(at), &choices[at]["text"]));
        assert!(choice["logprobs"].is_null());
    }
    assert_eq!(best["usage"], all["usage"]);
    for wrong in
        [json!({ "n": 2, "best_of": 1 }), json!({ "best_of": 65 }), json!({ "best_of": 2, "stream": true })]
    {
        let refusal = ask(wrong.clone());
        assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("best_of")), "{wrong}");
    }
}

#[test]
fn without_a_limit_there_are_sixteen_tokens() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": format!("[[{}]]", "x".repeat(40)), "temperature": 0 });
    let answer = server.post("/v1/completions", &body).ok();
    assert_eq!(text(&answer, 0), "x".repeat(16));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn end_tokens_can_be_ignored() {
    let server = Server::start(&Kind::default());
    let body = json!({ "prompt": "[[ab]]", "ignore_eos": true, "max_tokens": 9, "temperature": 0 });
    let answer = server.post("/v1/completions", &body).ok();
    assert_eq!(answer["usage"]["completion_tokens"], 9);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_suffix_needs_a_model_that_fills_in() {
    let server = Server::start(&Kind::default());
    for (prompt, status) in [(json!("a"), 501), (json!(["a", "b"]), 501), (json!([1, 2]), 400)] {
        let refusal = server.post("/v1/completions", &json!({ "prompt": prompt, "suffix": "b" }));
        assert_eq!(refusal.status, status, "{prompt}");
    }
}
