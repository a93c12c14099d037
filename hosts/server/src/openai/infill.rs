//! Filling in: the model writes what stands between a text before and a text behind. `/infill` is llama-server's;
//! `/v1/completions` and `/api/generate` fill in beside a suffix.

use super::completions::Prompt;
use super::{options, raw};
use crate::app::App;
use crate::error::{Failure, Kind};
use crate::fields::Fields;
use crate::request_context::RequestContext;
use alloc::sync::Arc;
use axum::response::Response;
use doorbell_core::token::{EncodeOptions, Special, TokenId, Tokenizer};

/// Tokens before and behind the place together, as llama-server takes them by default: three quarters are before.
const WINDOW: usize = 2048;

/// What the project and the files are called in prompts, where nobody says it.
const REPOSITORY: &str = "myproject\n";
const FILE: &str = "filename\n";
const EXTRA_FILE: &str = "tmp";

/// What stands in front of further texts where a model has no token for that.
const SNIPPET: &str = "\n\n--- snippet ---\n\n";

/// The tokens that part a prompt.
struct Marks {
    prefix: TokenId,
    suffix: TokenId,
    middle: TokenId,
    repository: Option<TokenId>,
    separator: Option<TokenId>,
}

impl Marks {
    /// Those of the vocabulary; what asks for them is named if it has none.
    fn of(tokenizer: &Tokenizer<'_>, what: &str) -> Result<Self, Failure> {
        let special = |role, name| {
            let missing = format!("{what}: the model can't fill in, it has no token for the {name}");
            tokenizer.special(role).ok_or_else(|| Failure::new(Kind::NotSupported, missing))
        };
        Ok(Self {
            prefix: special(Special::FimPrefix, "prefix")?,
            suffix: special(Special::FimSuffix, "suffix")?,
            middle: special(Special::FimMiddle, "middle")?,
            repository: tokenizer.special(Special::FimRepository),
            separator: tokenizer.special(Special::FimSeparator),
        })
    }

    /// What is before, what is behind, and then the model's turn.
    fn around(&self, before: &[TokenId], behind: &[TokenId]) -> Vec<TokenId> {
        [&[self.prefix], before, &[self.suffix], behind, &[self.middle]].concat()
    }
}

/// Whether a model can fill in.
pub(crate) fn available(app: &App) -> bool {
    Marks::of(app.model.tokenizer, "").is_ok()
}

/// The prompt of `/v1/completions` beside a suffix.
pub(crate) fn with_suffix(app: &App, before: &str, behind: &str) -> Result<Prompt, Failure> {
    let marks = Marks::of(app.model.tokenizer, "suffix")?;
    let plain = EncodeOptions::default();
    let around = marks.around(&app.encode(before, plain)?, &app.encode(behind, plain)?);
    Ok(Prompt { tokens: begun(app, &around), text: before.to_owned() })
}

/// The tokens behind the one that begins a text, where there is one.
fn begun(app: &App, tokens: &[TokenId]) -> Vec<TokenId> {
    let tokenizer = app.model.tokenizer;
    let begin = tokenizer.bos().filter(|_| tokenizer.add_bos());
    begin.into_iter().chain(tokens.iter().copied()).collect()
}

pub(crate) async fn infill(request: RequestContext) -> Result<Response, Failure> {
    let body = Arc::new(request.json().await?);
    let prompt = request.read(&body, prompt).await?;
    raw::answer(&request, &body, vec![prompt], false).await
}

/// A further text, and the file that it's from.
struct Extra {
    file: String,
    text: String,
}

fn prompt(app: &App, fields: &Fields<'_>) -> Result<Prompt, Failure> {
    let needed = |name| fields.text(name)?.ok_or_else(|| fields.wrong(name, "is missing"));
    // the beginning of the line in which the place is
    let line = fields.text("prompt")?.unwrap_or_default();
    let before = format!("{}{line}", needed("input_prefix")?);
    let behind = needed("input_suffix")?;
    let list = fields.list("input_extra")?.unwrap_or_default().iter().enumerate();
    let extra = list.map(|(at, chunk)| {
        let path = format!("input_extra[{at}]");
        let chunk = Fields::of(chunk, &path)?;
        let text = chunk.text("text")?.ok_or_else(|| chunk.wrong("text", "is missing"))?.to_owned();
        Ok(Extra { file: chunk.text("filename")?.unwrap_or(EXTRA_FILE).to_owned(), text })
    });
    let extra = extra.collect::<Result<Vec<_>, Failure>>()?;
    let answer = options::max_tokens(fields)?.filter(|&tokens| tokens != u32::MAX);
    let marks = Marks::of(app.model.tokenizer, "/infill")?;
    let context = app.model.context as usize;
    let answer = answer.map_or(context / 4, |tokens| (tokens as usize).min(context / 2));
    // the marks and the token that begins a text
    let room = (context - answer).saturating_sub(4);
    let window = WINDOW.min(room);
    let plain = EncodeOptions::default();
    let (before, behind) = (app.encode(&before, plain)?, app.encode(behind, plain)?);
    let behind = &behind[..behind.len().min(window / 4)];
    let around = marks.around(last(&before, window / 4 * 3), behind);
    let extra = extra_tokens(app, &marks, &extra)?;
    let room = (room + 3).saturating_sub(around.len());
    let tokens = begun(app, &[last(&extra, room), &around].concat());
    let text = app.decode(&tokens);
    Ok(Prompt { tokens, text })
}

/// The last of the tokens: those that are nearest to the place.
fn last(tokens: &[TokenId], count: usize) -> &[TokenId] {
    &tokens[tokens.len().saturating_sub(count)..]
}

/// Further texts as a model has seen them in its training: files of a project, if it knows that, the one with the place
/// the last.
fn extra_tokens(app: &App, marks: &Marks, extra: &[Extra]) -> Result<Vec<TokenId>, Failure> {
    let encode = |text: &str| app.encode(text, EncodeOptions::default());
    let mut tokens = Vec::new();
    if let Some(repository) = marks.repository {
        tokens.push(repository);
        tokens.extend(encode(REPOSITORY)?);
    }
    for Extra { file, text } in extra {
        match marks.separator {
            Some(separator) => {
                tokens.push(separator);
                tokens.extend(encode(&format!("{file}\n"))?);
            }
            None => tokens.extend(encode(SNIPPET)?),
        }
        tokens.extend(encode(text)?);
    }
    if let Some(separator) = marks.separator {
        tokens.push(separator);
        tokens.extend(encode(FILE)?);
    }
    Ok(tokens)
}
