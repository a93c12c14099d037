//! Prompts for fill-in-the-middle: the model writes the text between a prefix and a suffix.
//!
//! `/v1/completions` and `/api/generate` use it if a request has a suffix; `/infill` adds further files.

use crate::app::App;
use crate::error::{Failure, FailureKind};
use crate::prompt_input::Prompt;
use doorbell_core::token::{EncodeOptions, Special, TokenId, Tokenizer};

/// The fill-in-the-middle tokens of a vocabulary.
pub(super) struct FimTokens {
    prefix: TokenId,
    suffix: TokenId,
    middle: TokenId,
    /// Begins the name of the repository.
    pub(super) repository: Option<TokenId>,
    /// Begins the name of a file.
    pub(super) separator: Option<TokenId>,
}

impl FimTokens {
    /// The tokens of a vocabulary. If it has none, the failure names `what`, which asked for them.
    pub(super) fn of(tokenizer: &Tokenizer<'_>, what: &str) -> Result<Self, Failure> {
        let special = |role, name| {
            let missing = format!("{what}: the model can't fill in, it has no token for the {name}");
            tokenizer.special(role).ok_or_else(|| Failure::new(FailureKind::NotSupported, missing))
        };
        Ok(Self {
            prefix: special(Special::FimPrefix, "prefix")?,
            suffix: special(Special::FimSuffix, "suffix")?,
            middle: special(Special::FimMiddle, "middle")?,
            repository: tokenizer.special(Special::FimRepository),
            separator: tokenizer.special(Special::FimSeparator),
        })
    }

    /// A prompt of prefix and suffix, at whose end the model writes the middle.
    pub(super) fn prompt(&self, prefix: &[TokenId], suffix: &[TokenId]) -> Vec<TokenId> {
        [&[self.prefix], prefix, &[self.suffix], suffix, &[self.middle]].concat()
    }
}

/// True if a model can fill in.
pub(crate) fn available(app: &App) -> bool {
    FimTokens::of(app.model.tokenizer, "").is_ok()
}

/// The prompt of a request with a suffix.
pub(crate) fn with_suffix(app: &App, prefix: &str, suffix: &str) -> Result<Prompt, Failure> {
    let fim = FimTokens::of(app.model.tokenizer, "suffix")?;
    let plain = EncodeOptions::default();
    let tokens = fim.prompt(&app.encode(prefix, plain)?, &app.encode(suffix, plain)?);
    Ok(Prompt { tokens: with_bos(app, &tokens), text: prefix.to_owned() })
}

/// The tokens after the BOS token, if the model's texts begin with one.
pub(super) fn with_bos(app: &App, tokens: &[TokenId]) -> Vec<TokenId> {
    let tokenizer = app.model.tokenizer;
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    bos.into_iter().chain(tokens.iter().copied()).collect()
}
