//! Filling in: `/infill`, and `/v1/completions` with a suffix.

use crate::chat::with;
use crate::client::Server;
use crate::serving::Kind;
use serde_json::{Value, json};

const MARKS: [&str; 3] = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];
const PROJECT: [&str; 5] = [MARKS[0], MARKS[1], MARKS[2], "<|repo_name|>", "<|file_sep|>"];

/// The end of the prompt. The script has the last mark in it, which comes before the model's turn.
const BEHIND: &str = "}\n[[<|fim_middle|>filled in]]";

fn server(marks: &'static [&'static str]) -> Server {
    Server::start(&Kind { marks, ..Kind::default() })
}

fn request() -> Value {
    json!({ "input_prefix": "int main() {\n", "prompt": "    int n =", "input_suffix": BEHIND, "temperature": 0 })
}

fn extra() -> Value {
    json!([{ "filename": "a.h", "text": "int a();\n" }, { "text": "b" }])
}

#[test]
fn a_gap_is_filled_in() {
    let server = server(&MARKS);
    let answer = server.post("/infill", &request()).ok();
    let around = format!("<|fim_prefix|>int main() {{\n    int n =<|fim_suffix|>{BEHIND}<|fim_middle|>");
    assert_eq!((&answer["content"], &answer["prompt"]), (&json!("filled in"), &json!(around)));
    assert_eq!(answer["stop_type"], "eos");
    let streamed = server.post("/infill", &with(request(), json!({ "stream": true }))).events();
    let text: String = streamed.iter().filter_map(|event| event["content"].as_str()).collect();
    assert_eq!(text, "filled in");
    let short = server.post("/infill", &with(request(), json!({ "n_predict": 3 }))).ok();
    assert_eq!((&short["content"], &short["stop_type"]), (&json!("fil"), &json!("limit")));
    // a model without repository tokens gets further files first
    let answer = server.post("/infill", &with(request(), json!({ "input_extra": extra() }))).ok();
    let snippet = "\n\n--- snippet ---\n\n";
    assert_eq!(answer["prompt"], format!("{snippet}int a();\n{snippet}b{around}"));
    let body = json!({ "prompt": "int n =", "suffix": BEHIND, "temperature": 0 });
    let answer = server.post("/v1/completions", &body).ok();
    assert_eq!(answer["choices"][0]["text"], "filled in");
}

#[test]
fn a_model_with_repository_tokens_gets_a_repository() {
    let server = server(&PROJECT);
    let answer = server.post("/infill", &with(request(), json!({ "input_extra": extra() }))).ok();
    let prompt = answer["prompt"].as_str().unwrap();
    let expected = "<|repo_name|>myproject\n<|file_sep|>a.h\nint a();\n<|file_sep|>tmp\nb<|file_sep|>filename\n\
                    <|fim_prefix|>int main() {\n    int n =<|fim_suffix|>}\n";
    assert!(prompt.starts_with(expected), "{prompt}");
    assert_eq!(answer["content"], "filled in");
}

/// The text far from the gap is dropped first; there is room for an answer.
#[test]
fn long_texts_are_cut_far_from_the_gap() {
    let server = server(&PROJECT);
    let long = |name: &str| (0..3000).map(|number| format!("{name}{number}\n")).collect::<String>();
    // a quarter of the context is left for the answer, and a quarter of the rest is for the suffix
    let behind = format!("{BEHIND}{}", long("z"));
    let body = json!({ "input_prefix": long("y"), "input_suffix": behind, "n_predict": 8,
        "input_extra": [{ "text": long("x") }] });
    let answer = server.post("/infill", &body).ok();
    let prompt = answer["prompt"].as_str().unwrap();
    assert!(answer["tokens_evaluated"].as_u64().unwrap() <= 2048 - 8);
    let (before, behind) = prompt.split_once("<|fim_suffix|>").unwrap();
    assert!(before.ends_with("y2998\ny2999\n") && !before.contains("y0\n"), "{before}");
    assert!(behind.starts_with("}\n[[") && behind.ends_with("<|fim_middle|>") && !behind.contains("z2999"));
    // short texts leave room for the others
    let body = with(body, json!({ "input_prefix": "y\n", "input_suffix": "}" }));
    let answer = server.post("/infill", &body).ok();
    let prompt = answer["prompt"].as_str().unwrap();
    assert!(prompt.contains("x2999\n<|file_sep|>filename\n<|fim_prefix|>y\n<|fim_suffix|>}<|fim_middle|>"));
    assert!(!prompt.contains("x0\n"));
}

#[test]
fn what_cannot_be_filled_in_is_refused() {
    let able = server(&MARKS);
    let unable = Server::start(&Kind::default());
    for (fields, field) in [
        (json!({ "input_prefix": null }), "input_prefix"),
        (json!({ "input_suffix": 1 }), "input_suffix"),
        (json!({ "prompt": ["a"] }), "prompt"),
        (json!({ "input_extra": {} }), "input_extra"),
        (json!({ "input_extra": [{}] }), "input_extra[0].text"),
        (
            json!({ "input_extra": [{ "text": "a" }, { "filename": 1, "text": "a" }] }),
            "input_extra[1].filename",
        ),
    ] {
        for server in [&able, &unable] {
            let refusal = server.post("/infill", &with(request(), fields.clone()));
            assert_eq!(refusal.status, 400);
            assert_eq!(refusal.json()["error"]["param"], field, "{}", refusal.body);
        }
    }
    let refusal = unable.post("/infill", &request());
    assert_eq!(refusal.status, 501);
    assert!(refusal.body.contains("it has no token for the prefix"), "{}", refusal.body);
    assert_eq!(server(&MARKS[..2]).post("/infill", &request()).status, 501);
    assert_eq!(able.post("/infill", &request()).status, 200);
}
