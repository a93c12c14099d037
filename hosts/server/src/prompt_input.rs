//! Input texts in the forms that llama-server accepts: strings, token ids, lists of both, objects.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use crate::fields::{self, Fields};
use doorbell_core::token::{EncodeOptions, TokenId};
use serde_json::Value;

/// How a text is tokenized that is all of a prompt.
pub(crate) const WHOLE: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

/// A tokenized prompt.
pub(crate) struct Prompt {
    pub(crate) tokens: Vec<TokenId>,
    /// The text that a response repeats.
    pub(crate) text: String,
}

/// The texts of a field that is a list; `None` if it is a single text. A list with a number in it is one text, made of
/// tokens and strings.
pub(crate) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(items) if !items.iter().any(Value::is_number) => Some(items),
        _ => None,
    }
}

/// The tokens of one text.
pub(crate) fn tokens(
    app: &App,
    fields: &Fields<'_>,
    field: &str,
    text: &Value,
) -> Result<Vec<TokenId>, Failure> {
    match text {
        Value::String(text) => app.encode(text, WHOLE),
        Value::Array(parts) => {
            let mut tokens = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                match (part, fields::count(part)) {
                    (Value::String(text), _) => {
                        // special tokens are added to a text in front only
                        tokens.extend(app.encode(text, EncodeOptions { add_special: at == 0, ..WHOLE })?);
                    }
                    (_, Some(id)) => tokens.push(TokenId(id)),
                    _ => return Err(fields.wrong(field, "must be of token ids and strings")),
                }
                app.check_tokens(tokens.len().saturating_sub(1))?;
            }
            Ok(tokens)
        }
        Value::Object(_) => app.encode(&object(fields, field, text)?, WHOLE),
        _ => Err(fields.wrong(field, "must be a string, an object, or a list of strings or token ids")),
    }
}

/// The text of `{"prompt_string": "..."}` or `{"content": [{"type": "text", "text": "..."}]}`.
fn object(fields: &Fields<'_>, field: &str, value: &Value) -> Result<String, Failure> {
    if value.get("multimodal_data").is_some_and(|data| data.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(Failure::new(FailureKind::NotSupported, "multimodal_data: this model reads text only"));
    }
    if let Some(text) = value.get("prompt_string").and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    let parts = value.get("content").and_then(Value::as_array).map(|parts| {
        let text = |part: &Value| part.get("text").and_then(Value::as_str).map(ToOwned::to_owned);
        parts.iter().map(text).collect::<Option<String>>()
    });
    parts.flatten().ok_or_else(|| fields.wrong(field, "must have prompt_string, or content of texts"))
}
