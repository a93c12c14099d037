//! Renders chat templates for `tests/goldens/template/compare.py`: one JSON request a line, one answer a line.

use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, SpecialTokens, TemplateError};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, Write as _};

/// 2026-08-22 09:05:03, as in `jinja.py`.
const NOW: Moment = Moment { seconds: 1_787_389_503 };

fn render(request: &Value) -> Result<String, TemplateError> {
    let case = &request["case"];
    let text = |field: &str, absent: &str| case[field].as_str().unwrap_or(absent).to_owned();
    let special = SpecialTokens { bos: text("bos", "<s>"), eos: text("eos", "</s>") };
    let template = ChatTemplate::new(request["template"].as_str().unwrap_or_default(), special)?;
    let variables = case["variables"].as_object().cloned().unwrap_or_else(Map::new);
    let messages = case["messages"].as_array().cloned().unwrap_or_default();
    template.render(&ChatInput {
        tools: case["tools"].as_array().map(Vec::as_slice),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        ..ChatInput::new(&messages, &variables, NOW)
    })
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = match render(&serde_json::from_str(&line?)?) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
