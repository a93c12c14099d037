//! `/v1/embeddings`, and its forms of llama-server and Ollama: each text becomes the mean of its hidden states, scaled to
//! length 1.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use crate::fields::Fields;
use crate::pooling::pool;
use crate::prompt_input;
use crate::request_context::RequestContext;
use crate::stream::json;
use axum::http::StatusCode;
use axum::response::Response;
use core::fmt::Write as _;
use doorbell_core::engine::SubmitError;
use doorbell_core::token::TokenId;
use doorbell_runtime::serve::{PoolingResult, PoolingTask};
use serde_json::{Value, json};
use std::time::Instant;

/// Texts of one request.
const MAX_TEXTS: usize = 2048;

pub(crate) async fn embeddings(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let base64 = match fields.text("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(fields.wrong("encoding_format", "must be float or base64")),
    };
    let texts = request.read(&body, |app, fields| texts(app, fields, "input", false)).await?;
    let tokens: usize = texts.iter().map(Vec::len).sum();
    let vectors = vectors(&request.app, &fields, texts).await?;
    let data = vectors.iter().enumerate().map(|(index, vector)| {
        let vector = if base64 { Value::from(base64_of(vector)) } else { json!(vector) };
        json!({ "object": "embedding", "index": index, "embedding": vector })
    });
    let document = json!({
        "object": "list",
        "data": data.collect::<Vec<Value>>(),
        "model": fields.model(&request.app.model.name)?,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    });
    Ok(json(StatusCode::OK, &document))
}

/// llama-server's own form, without a version in the path: each text has a list of vectors.
pub(crate) async fn embedding(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let field = if fields.get("content").is_some() { "content" } else { "input" };
    let texts = request.read(&body, move |app, fields| texts(app, fields, field, false)).await?;
    let vectors = vectors(&request.app, &fields, texts).await?;
    let entry = |(index, vector)| json!({ "index": index, "embedding": [vector] });
    Ok(json(StatusCode::OK, &vectors.iter().enumerate().map(entry).collect()))
}

/// Ollama's `/api/embed`.
pub(crate) async fn embed(request: RequestContext) -> Result<Response, Failure> {
    let start = Instant::now();
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let truncate = fields.flag("truncate")?.unwrap_or(true);
    let texts = match fields.get("input") {
        // a request without texts loads the model, which is always loaded
        None => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::Array(texts)) if texts.is_empty() => Vec::new(),
        Some(_) => request.read(&body, move |app, fields| texts(app, fields, "input", truncate)).await?,
    };
    let tokens: usize = texts.iter().map(Vec::len).sum();
    let vectors = vectors(&request.app, &fields, texts).await?;
    let document = json!({
        "model": fields.model(&request.app.model.name)?,
        "embeddings": vectors,
        "total_duration": u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        "load_duration": 0,
        "prompt_eval_count": tokens,
    });
    Ok(json(StatusCode::OK, &document))
}

/// Ollama's older `/api/embeddings`.
pub(crate) async fn embed_prompt(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let fields = Fields::of_request(&body)?;
    let texts = request.read(&body, |app, fields| texts(app, fields, "prompt", true)).await?;
    let mut vectors = vectors(&request.app, &fields, texts).await?;
    Ok(json(StatusCode::OK, &json!({ "embedding": vectors.pop().unwrap_or_default() })))
}

/// The tokens of the texts of a field. Texts that are too long are cut if `truncate`, else refused.
fn texts(app: &App, fields: &Fields<'_>, field: &str, truncate: bool) -> Result<Vec<Vec<TokenId>>, Failure> {
    let value = fields.get(field).ok_or_else(|| fields.wrong(field, "is missing"))?;
    let items = prompt_input::list(value).unwrap_or(core::slice::from_ref(value));
    if items.is_empty() {
        return Err(fields.wrong(field, "must not be empty"));
    }
    if items.len() > MAX_TEXTS {
        return Err(fields.wrong(field, format_args!("must be at most {MAX_TEXTS} texts")));
    }
    let context = app.model.context;
    let max_tokens = context.saturating_sub(1) as usize;
    let text = |item: &Value| {
        // the rest of a text that can't fit is cut in any case
        let mut tokens = match item.as_str().filter(|_| truncate) {
            Some(text) => app.encode(app.beginning(text), prompt_input::WHOLE)?,
            None => prompt_input::tokens(app, fields, field, item)?,
        };
        if tokens.is_empty() {
            return Err(fields.wrong(field, "must not have empty texts"));
        }
        if truncate {
            tokens.truncate(max_tokens);
        } else if tokens.len() > max_tokens {
            let tokens = tokens.len();
            let mut failure = Failure::from(SubmitError::PromptTooLong { tokens, context });
            failure.message =
                format!("{field}: a text of {tokens} tokens is too large for the context of {context}");
            return Err(failure);
        }
        Ok(tokens)
    };
    items.iter().map(text).collect()
}

/// The vectors of texts.
async fn vectors(app: &App, fields: &Fields<'_>, texts: Vec<Vec<TokenId>>) -> Result<Vec<Vec<f32>>, Failure> {
    let width = app.model.info.embedding;
    if fields.count("dimensions")?.is_some_and(|dimensions| dimensions != width) {
        return Err(fields.wrong("dimensions", format_args!("must be {width}, which is what this model has")));
    }
    let mut vectors = Vec::new();
    for tokens in texts {
        match pool(app, tokens, PoolingTask::Embedding).await? {
            PoolingResult::Embedding(vector) if vector.iter().all(|x| x.is_finite()) => vectors.push(vector),
            _ => return Err(Failure::new(FailureKind::Internal, "the model gave no numbers for this text")),
        }
    }
    Ok(vectors)
}

/// Little-endian floats in base64, as `OpenAI`'s clients ask for.
fn base64_of(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at| u32::from(group.get(at).copied().unwrap_or(0));
        let word = (0..3).fold(0, |word, at| word << 8 | byte(at));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            _ = text.write_char(if at <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_little_endian_in_base64() {
        // Python: base64.b64encode(struct.pack("<ff", 1, -2.5))
        assert_eq!(base64_of(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(base64_of(&[1.0]), "AACAPw==");
        assert_eq!(base64_of(&[]), "");
    }
}
