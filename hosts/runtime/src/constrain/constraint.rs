//! From a grammar specification to a parser that follows one answer and gives the mask of allowed next tokens.
//!
//! Not here: GBNF (`gbnf`), and the vocabulary as a trie (`vocabulary`).

use super::error::GrammarError;
use super::gbnf;
use super::keywords;
use super::vocabulary;
use alloc::sync::Arc;
use doorbell_core::sample::TokenMask;
use doorbell_core::token::{TokenId, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// A grammar for an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GrammarSpec {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema accepts.
    JsonSchema(Value),
    /// Text that a regular expression matches as a whole.
    Regex(String),
    /// Text of a GBNF grammar, as llama.cpp reads it.
    Gbnf(String),
    /// Text of a Lark grammar, as llguidance reads it.
    Lark(String),
}

/// Compiles constraints for one vocabulary. The vocabulary's trie is built on first use.
#[derive(Default)]
pub struct Grammars {
    factory: OnceLock<Result<ParserFactory, GrammarError>>,
}

impl Grammars {
    /// A compiler without a trie; every call must pass the same tokenizer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Compiles a constraint for the beginning of an answer. This takes milliseconds, more for large schemas.
    ///
    /// # Errors
    /// [`GrammarError`], which names an unsupported feature.
    pub fn constraint(
        &self,
        tokenizer: &Tokenizer<'_>,
        shape: &GrammarSpec,
    ) -> Result<Constraint, GrammarError> {
        let factory = self.factory.get_or_init(|| factory(tokenizer)).as_ref().map_err(Clone::clone)?;
        let grammar = match shape {
            GrammarSpec::JsonObject => {
                TopLevelGrammar::from_json_schema(spaced(&json!({ "type": "object" })))
            }
            GrammarSpec::JsonSchema(schema) => TopLevelGrammar::from_json_schema(spaced(schema)),
            GrammarSpec::Regex(regex) => TopLevelGrammar::from_regex(regex),
            GrammarSpec::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
            GrammarSpec::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        };
        let mut matcher = Matcher::new(factory.create_parser(grammar));
        // a grammar without any text would otherwise fail only at the first token
        let first = matcher.compute_mask_or_eos();
        match first {
            Ok(mask) if mask.is_zero() => Err(GrammarError::Unusable { reason: "no text matches it".into() }),
            Ok(mask) => Ok(Constraint { matcher, mask, failure: None }),
            Err(error) => Err(GrammarError::Unusable { reason: first_line(&error.to_string()) }),
        }
    }
}

/// Regular expression of the white space between parts of a JSON document: two line ends, then an indentation of
/// twenty. Without a limit small models print blank lines until their answer's end.
pub const BLANK: &str = "(\\r?\\n){0,2}[ \\t]{0,20}";

/// A schema whose documents have bounded white space, without keywords that allow every value. Parser options in the
/// schema are removed, since they could make the parser ignore unsupported keywords.
#[must_use]
pub fn spaced(schema: &Value) -> Value {
    let mut schema = schema.clone();
    keywords::remove_idle(&mut schema);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("x-guidance".into(), json!({ "whitespace_pattern": BLANK }));
    }
    schema
}

fn factory(tokenizer: &Tokenizer<'_>) -> Result<ParserFactory, GrammarError> {
    let none = || GrammarError::Vocabulary { reason: "no token ends a turn".into() };
    let trie = vocabulary::trie(tokenizer).ok_or_else(none)?;
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    // without forced tokens: the model chooses every token among the allowed ones
    let mut factory = ParserFactory::new(
        &environment,
        InferenceCapabilities::default(),
        &llguidance::earley::SlicedBiasComputer::general_slices(),
    )
    .map_err(|error| GrammarError::Vocabulary { reason: error.to_string() })?;
    factory.quiet();
    factory.limits_mut().verbose_errors = false;
    Ok(factory)
}

/// The cause in the parser's error, in one line and without internals.
fn first_line(reason: &str) -> String {
    if reason.starts_with("panic: ") {
        return "a keyword has a value of the wrong type".into();
    }
    // the parser of regular expressions shows the expression first
    let cause = reason.lines().find_map(|line| line.strip_prefix("error: "));
    let cause = cause.filter(|_| reason.contains("regex parse error"));
    let line = cause.or_else(|| reason.lines().next()).unwrap_or_default();
    // names of options are internals, too
    line.split(". Enable '").next().unwrap_or_default().to_owned()
}

/// A parser that follows one answer.
pub struct Constraint {
    matcher: Matcher,
    mask: SimpleVob,
    failure: Option<String>,
}

impl Constraint {
    /// The mask of allowed next tokens. A failed grammar allows none.
    pub fn mask(&mut self) -> Option<TokenMask<'_>> {
        match self.matcher.compute_mask_or_eos() {
            Ok(mask) => self.mask = mask,
            Err(error) => {
                self.failure.get_or_insert_with(|| first_line(&error.to_string()));
                self.mask = SimpleVob::new();
            }
        }
        Some(TokenMask::new(self.mask.as_slice()))
    }

    /// Advances by the sampled token.
    pub fn accept(&mut self, token: TokenId) {
        if let Err(error) = self.matcher.consume_token(token.0) {
            self.failure.get_or_insert_with(|| first_line(&error.to_string()));
        }
    }

    /// True if no token may follow.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.failure.is_none() && self.matcher.is_stopped()
    }

    /// Reason of the failure, if the grammar has failed.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
