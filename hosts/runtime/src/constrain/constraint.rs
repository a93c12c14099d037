//! From a wanted shape to a parser that follows one answer and says which tokens may come next.

use super::error::GrammarError;
use super::gbnf;
use super::vocabulary;
use alloc::sync::Arc;
use doorbell_core::sample::TokenMask;
use doorbell_core::token::{TokenId, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shape {
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

/// Makes constraints for one vocabulary. The search tree is made when it is first needed.
#[derive(Default)]
pub struct Grammars {
    factory: OnceLock<Result<ParserFactory, GrammarError>>,
}

impl Grammars {
    /// For one vocabulary, always the same one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A constraint at the beginning of an answer. Takes milliseconds, more for large schemas.
    ///
    /// # Errors
    /// [`GrammarError`], which names what is not supported.
    pub fn constraint(&self, tokenizer: &Tokenizer<'_>, shape: &Shape) -> Result<Constraint, GrammarError> {
        let factory = self.factory.get_or_init(|| factory(tokenizer)).as_ref().map_err(Clone::clone)?;
        let grammar = match shape {
            Shape::JsonObject => TopLevelGrammar::from_json_schema(spaced(&json!({ "type": "object" }))),
            Shape::JsonSchema(schema) => TopLevelGrammar::from_json_schema(spaced(schema)),
            Shape::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Shape::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
            Shape::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        };
        let mut matcher = Matcher::new(factory.create_parser(grammar));
        // a shape that nothing has would otherwise show only with the first token
        let first = matcher.compute_mask_or_eos();
        match first {
            Ok(mask) if mask.is_zero() => {
                Err(GrammarError::Unusable { reason: "no text has this shape".into() })
            }
            Ok(mask) => Ok(Constraint { matcher, mask, failure: None }),
            Err(error) => Err(GrammarError::Unusable { reason: first_line(&error.to_string()) }),
        }
    }
}

/// White space between the parts of a JSON document, as a regular expression: enough for any layout, not enough to go on for ever.
pub const BLANK: &str = "[ \\n\\r\\t]{0,32}";

/// A schema whose documents have bounded white space. Options that came with it are dropped, as they could make the
/// parser overlook what it doesn't know.
#[must_use]
pub fn spaced(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("x-guidance".into(), json!({ "whitespace_pattern": BLANK }));
    }
    schema
}

fn factory(tokenizer: &Tokenizer<'_>) -> Result<ParserFactory, GrammarError> {
    let none = || GrammarError::Vocabulary { reason: "no token ends a turn".into() };
    let trie = vocabulary::trie(tokenizer).ok_or_else(none)?;
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    // without forced tokens: every token is the model's own choice among those allowed
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

/// The parser's reason, without its inner life.
fn first_line(reason: &str) -> String {
    if reason.starts_with("panic: ") {
        return "a keyword has a value of the wrong type".into();
    }
    let line = reason.lines().next().unwrap_or_default();
    // options are the parser's inner life, too
    line.split(". Enable '").next().unwrap_or_default().to_owned()
}

/// A parser that follows one answer.
pub struct Constraint {
    matcher: Matcher,
    mask: SimpleVob,
    failure: Option<String>,
}

impl Constraint {
    /// Which tokens may come next. A failed grammar allows none.
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

    /// Follows the token that was picked.
    pub fn accept(&mut self, token: TokenId) {
        if let Err(error) = self.matcher.consume_token(token.0) {
            self.failure.get_or_insert_with(|| first_line(&error.to_string()));
        }
    }

    /// Whether nothing can follow any more.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.failure.is_none() && self.matcher.is_stopped()
    }

    /// Why the grammar failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
