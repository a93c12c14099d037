//! `/v1/embeddings` and its other forms. The scripted model's hidden state is one-hot at the token's byte.

use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

/// Components of the two bytes of "ab": equal parts of a vector of length 1.
fn is_ab(vector: &Value) -> bool {
    let vector: Vec<f64> = vector.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    let width = vector.len();
    let half = 0.5_f64.sqrt();
    let expected = |at: usize| if at == 97 % width || at == 98 % width { half } else { 0.0 };
    vector.iter().enumerate().all(|(at, x)| (x - expected(at)).abs() < 1e-6)
}

#[test]
fn texts_become_the_mean_of_their_tokens() {
    let server = Server::start(&Kind::default());
    let answer = server.post("/v1/embeddings", &json!({ "model": "m", "input": ["ab", "abab"] })).ok();
    assert_eq!((answer["object"].as_str(), answer["model"].as_str()), (Some("list"), Some("m")));
    assert_eq!(answer["data"][1]["index"], 1);
    // the vector is a mean, so repeating the text changes nothing
    assert!(is_ab(&answer["data"][0]["embedding"]) && is_ab(&answer["data"][1]["embedding"]), "{answer}");
    assert_eq!(answer["usage"]["prompt_tokens"], 6);
    let tokens = server.post("/tokenize", &json!({ "content": "ab" })).ok()["tokens"].clone();
    for input in [json!("ab"), tokens.clone(), json!([tokens.clone()])] {
        let answer = server.post("/v1/embeddings", &json!({ "input": input })).ok();
        assert!(is_ab(&answer["data"][0]["embedding"]));
    }
    // tokens and text may be mixed
    let first = tokens[0].clone();
    for input in [json!([first, "b"]), json!([[first, "b"]]), json!([["ab"]])] {
        let answer = server.post("/v1/embeddings", &json!({ "input": input })).ok();
        assert!(is_ab(&answer["data"][0]["embedding"]), "{input}");
    }
    let long = "ab".repeat(500);
    let answer = server.post("/v1/embeddings", &json!({ "input": long })).ok();
    assert!(is_ab(&answer["data"][0]["embedding"]));
}

#[test]
fn base64_holds_little_endian_floats() {
    let server = Server::start(&Kind::default());
    let body = json!({ "input": "a", "encoding_format": "base64" });
    let text = server.post("/v1/embeddings", &body).ok()["data"][0]["embedding"].as_str().unwrap().to_owned();
    // 1.0 is 00 00 80 3f; all other bytes are zero
    assert!(
        text.len().is_multiple_of(4) && text.bytes().filter(|&byte| byte != b'A' && byte != b'=').count() > 0
    );
}

#[test]
fn llama_server_has_a_form_of_its_own() {
    let server = Server::start(&Kind::default());
    for (path, body) in [
        ("/embedding", json!({ "content": "ab" })),
        ("/embeddings", json!({ "content": ["ab"] })),
        ("/embeddings", json!({ "input": "ab" })),
    ] {
        let answer = server.post(path, &body).ok();
        assert!(is_ab(&answer[0]["embedding"][0]) && answer[0]["index"] == 0, "{path}: {answer}");
    }
    assert_eq!(server.post("/embedding", &json!({})).status, 400);
}

#[test]
fn ollama_has_two_forms_of_it() {
    let server = Server::start(&Kind::default());
    let answer = server.post("/api/embed", &json!({ "model": "m", "input": ["ab"] })).ok();
    assert!(is_ab(&answer["embeddings"][0]) && answer["prompt_eval_count"] == 2, "{answer}");
    let answer = server.post("/api/embeddings", &json!({ "model": "m", "prompt": "ab" })).ok();
    assert!(is_ab(&answer["embedding"]));
    let long = server.post("/api/embed", &json!({ "input": "ab".repeat(2000) })).ok();
    assert_eq!(long["prompt_eval_count"], 2047);
    let whole = server.post("/api/embed", &json!({ "input": "ab".repeat(2000), "truncate": false }));
    assert_eq!(whole.status, 400);
}

#[test]
fn refusals_name_what_is_wrong() {
    let server = Server::start(&Kind::default());
    let too_long = "ab".repeat(2000);
    for (body, field) in [
        (json!({}), Some("input")),
        (json!({ "input": [] }), Some("input")),
        (json!({ "input": "" }), Some("input")),
        (json!({ "input": [[true]] }), Some("input")),
        (json!({ "input": [1, {}] }), Some("input")),
        (json!({ "input": { "a": 1 } }), Some("input")),
        (json!({ "input": [1, 99999] }), None),
        (json!({ "input": "a", "encoding_format": "hex" }), Some("encoding_format")),
        (json!({ "input": "a", "dimensions": 7 }), Some("dimensions")),
        (json!({ "input": too_long }), None),
    ] {
        let answer = server.post("/v1/embeddings", &body);
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"]["param"].as_str(), field, "{body}");
    }
}
