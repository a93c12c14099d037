//! Log-probabilities in the two forms of `OpenAI`'s API, and in llama-server's.

use crate::app::App;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::TokenReport;
use serde_json::{Map, Value, json};

/// JSON has no infinity; the bound is far below anything a model computes.
fn finite(log_prob: f32) -> f32 {
    log_prob.max(-9999.0)
}

fn entry(app: &App, token: TokenId, log_prob: f32) -> Map<String, Value> {
    let bytes = app.piece(token);
    let mut entry = Map::new();
    entry.insert("id".into(), token.0.into());
    entry.insert("token".into(), String::from_utf8_lossy(&bytes).into());
    entry.insert("logprob".into(), json!(finite(log_prob)));
    entry.insert("bytes".into(), json!(bytes));
    entry
}

/// The `logprobs` of a chat choice; `None` if no token has any.
pub(super) fn chat(app: &App, tokens: &[TokenReport]) -> Option<Value> {
    entries(app, tokens).map(|content| json!({ "content": content, "refusal": null }))
}

/// An entry for each token; `None` if no token has any.
pub(crate) fn entries(app: &App, tokens: &[TokenReport]) -> Option<Vec<Value>> {
    let entries = tokens.iter().filter_map(|report| {
        let (log_prob, top) = report.log_probs.as_ref()?;
        let mut chosen = entry(app, report.token, *log_prob);
        let top: Vec<_> = top.iter().map(|&(token, log_prob)| entry(app, token, log_prob)).collect();
        chosen.insert("top_logprobs".into(), json!(top));
        Some(Value::Object(chosen))
    });
    let entries: Vec<Value> = entries.collect();
    (!entries.is_empty()).then_some(entries)
}

/// As [`chat`], with probabilities after sampling under llama-server's names.
pub(super) fn after_sampling(app: &App, tokens: &[TokenReport]) -> Option<Value> {
    let entry = |token: TokenId, log_prob: f32| {
        let mut entry = entry(app, token, log_prob);
        entry.remove("logprob");
        entry.insert("prob".into(), json!(log_prob.exp()));
        entry
    };
    let content = tokens.iter().filter_map(|report| {
        let (log_prob, top) = report.log_probs.as_ref()?;
        let mut chosen = entry(report.token, *log_prob);
        let top: Vec<_> = top.iter().map(|&(token, log_prob)| entry(token, log_prob)).collect();
        chosen.insert("top_probs".into(), json!(top));
        Some(Value::Object(chosen))
    });
    let content: Vec<Value> = content.collect();
    (!content.is_empty()).then(|| json!({ "content": content }))
}

/// The `logprobs` of a text completion; `None` if no token has any. The text begins at `offset` characters, which grows
/// by the text's length.
pub(super) fn completion(app: &App, tokens: &[TokenReport], offset: &mut usize) -> Option<Value> {
    let (mut texts, mut own, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if tokens.iter().all(|report| report.log_probs.is_none()) {
        return None;
    }
    for report in tokens {
        let text = String::from_utf8_lossy(&app.piece(report.token)).into_owned();
        offsets.push(*offset);
        *offset += text.chars().count();
        texts.push(text);
        // the first token of a prompt has no log-probability
        let Some((log_prob, top)) = &report.log_probs else {
            own.push(Value::Null);
            tops.push(Value::Null);
            continue;
        };
        own.push(json!(finite(*log_prob)));
        let mut map = Map::new();
        for &(token, log_prob) in top {
            let text = String::from_utf8_lossy(&app.piece(token)).into_owned();
            // of two tokens with the same text, the likelier one
            map.entry(text).or_insert_with(|| json!(finite(log_prob)));
        }
        // the sampled token is always listed
        if let Some(text) = texts.last() {
            map.entry(text.as_str()).or_insert_with(|| json!(finite(*log_prob)));
        }
        tops.push(Value::Object(map));
    }
    Some(json!({ "tokens": texts, "token_logprobs": own, "top_logprobs": tops, "text_offset": offsets }))
}
