//! The field `prompt` of completions, which are continued as they stand.

use super::fill_in;
use crate::app::App;
use crate::error::Failure;
use crate::fields::Fields;
use crate::prompt_input::{self, Prompt};
use serde_json::Value;

/// Prompts of one request.
const MAX_PROMPTS: usize = 64;

/// The prompts of a request: a text, a list of tokens, or a list of either. With the field `suffix`, a prompt is a text,
/// and the model fills in between both.
pub(super) fn prompts(app: &App, fields: &Fields<'_>) -> Result<Vec<Prompt>, Failure> {
    let value = fields.get("prompt").ok_or_else(|| fields.wrong("prompt", "is missing"))?;
    let Some(items) = prompt_input::list(value).filter(|items| !items.is_empty()) else {
        return Ok(vec![prompt(app, fields, value)?]);
    };
    if items.len() > MAX_PROMPTS {
        return Err(fields.wrong("prompt", format_args!("must be at most {MAX_PROMPTS} prompts")));
    }
    items.iter().map(|item| prompt(app, fields, item)).collect()
}

fn prompt(app: &App, fields: &Fields<'_>, value: &Value) -> Result<Prompt, Failure> {
    if let Some(suffix) = fields.text("suffix")?.filter(|suffix| !suffix.is_empty()) {
        let text = value.as_str();
        let text = text.ok_or_else(|| fields.wrong("prompt", "must be of strings beside a suffix"))?;
        return fill_in::with_suffix(app, text, suffix);
    }
    let tokens = prompt_input::tokens(app, fields, "prompt", value)?;
    let text = value.as_str().map_or_else(|| app.decode(&tokens), ToOwned::to_owned);
    Ok(Prompt { tokens, text })
}
