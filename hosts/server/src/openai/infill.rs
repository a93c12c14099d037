//! `/infill`: llama-server's fill-in-the-middle with further files as context.

use super::fill_in::{FimTokens, with_bos};
use super::{llama_completion, options};
use crate::app::App;
use crate::error::Failure;
use crate::fields::Fields;
use crate::prompt_input::Prompt;
use crate::request_context::RequestContext;
use axum::response::Response;
use doorbell_core::token::{EncodeOptions, TokenId};

/// Tokens of prefix and suffix together, three quarters of them for the prefix; llama-server's default.
const WINDOW: usize = 2048;

/// Names of the repository and the files in prompts, if the request has none.
const REPOSITORY: &str = "myproject\n";
const FILE: &str = "filename\n";
const EXTRA_FILE: &str = "tmp";

/// Text before each further file if the model has no token for that.
const SNIPPET: &str = "\n\n--- snippet ---\n\n";

pub(crate) async fn infill(request: RequestContext) -> Result<Response, Failure> {
    let body = request.json().await?;
    let prompt = request.read(&body, prompt).await?;
    llama_completion::respond(&request, &body, vec![prompt], false).await
}

/// A further file.
struct ExtraFile {
    name: String,
    text: String,
}

impl ExtraFile {
    /// The files of the field `input_extra`.
    fn list(fields: &Fields<'_>) -> Result<Vec<Self>, Failure> {
        let list = fields.list("input_extra")?.unwrap_or_default().iter().enumerate();
        let file = list.map(|(at, chunk)| {
            let path = format!("input_extra[{at}]");
            let chunk = Fields::of(chunk, &path)?;
            let text = chunk.text("text")?.ok_or_else(|| chunk.wrong("text", "is missing"))?.to_owned();
            Ok(Self { name: chunk.text("filename")?.unwrap_or(EXTRA_FILE).to_owned(), text })
        });
        file.collect()
    }
}

fn prompt(app: &App, fields: &Fields<'_>) -> Result<Prompt, Failure> {
    let needed = |name| fields.text(name)?.ok_or_else(|| fields.wrong(name, "is missing"));
    // the beginning of the line that is filled in
    let line = fields.text("prompt")?.unwrap_or_default();
    let prefix = format!("{}{line}", needed("input_prefix")?);
    let suffix = needed("input_suffix")?;
    let extra = ExtraFile::list(fields)?;
    let answer = options::max_tokens(fields)?.filter(|&tokens| tokens != u32::MAX);
    let fim = FimTokens::of(app.model.tokenizer, "/infill")?;
    let context = app.model.context as usize;
    let answer = answer.map_or(context / 4, |tokens| (tokens as usize).min(context / 2));
    // four tokens for the marks and BOS
    let room = (context - answer).saturating_sub(4);
    let window = WINDOW.min(room);
    let plain = EncodeOptions::default();
    // the rest of a text that can't fit is cut in any case
    let (prefix, suffix) = (app.encode(app.end(&prefix), plain)?, app.encode(app.beginning(suffix), plain)?);
    let suffix = &suffix[..suffix.len().min(window / 4)];
    let filled = fim.prompt(last(&prefix, window / 4 * 3), suffix);
    let extra = extra_tokens(app, &fim, &extra)?;
    let room = (room + 3).saturating_sub(filled.len());
    let tokens = with_bos(app, &[last(&extra, room), &filled].concat());
    let text = app.decode(&tokens);
    Ok(Prompt { tokens, text })
}

/// The last tokens, which are the nearest to the gap.
fn last(tokens: &[TokenId], count: usize) -> &[TokenId] {
    &tokens[tokens.len().saturating_sub(count)..]
}

/// Further files in the form of the model's training: files of a repository if the vocabulary has tokens for that, the
/// file with the gap last.
fn extra_tokens(app: &App, fim: &FimTokens, extra: &[ExtraFile]) -> Result<Vec<TokenId>, Failure> {
    let encode = |text: &str| app.encode(text, EncodeOptions::default());
    let mut tokens = Vec::new();
    if let Some(repository) = fim.repository {
        tokens.push(repository);
        tokens.extend(encode(REPOSITORY)?);
    }
    for ExtraFile { name, text } in extra {
        match fim.separator {
            Some(separator) => {
                tokens.push(separator);
                tokens.extend(encode(app.end(&format!("{name}\n")))?);
            }
            None => tokens.extend(encode(SNIPPET)?),
        }
        tokens.extend(encode(app.end(text))?);
    }
    if let Some(separator) = fim.separator {
        tokens.push(separator);
        tokens.extend(encode(FILE)?);
    }
    Ok(tokens)
}
