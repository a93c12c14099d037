//! The keyword that makes a schema unusable, and schemas without such keywords.

use super::constraint::{GrammarSpec, Grammars};
use super::keywords::{LISTS, MAPS, SCHEMAS};
use core::fmt;
use doorbell_core::token::Tokenizer;
use serde_json::{Map, Value};

/// Bytes of schemas that a search may compile, which bounds its time: a hostile schema is long, or not worth a long search.
const COMPILED_BYTES: usize = 1 << 20;

/// Compilations that a search may take in any case, and at most. Each takes milliseconds.
const TRIALS: [usize; 2] = [8, 200];

/// Keywords that one schema may lose.
const LOST: u32 = 16;

/// The part of a schema that can't be enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// JSON pointer to the schema with the keyword; empty for the whole.
    pub path: String,
    /// The keyword; `None` if no single one is at fault.
    pub keyword: Option<String>,
    /// Reason of the parser.
    pub reason: String,
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, keyword, reason } = self;
        let path = if path.is_empty() { "/" } else { path };
        match keyword {
            Some(keyword) => write!(f, "{keyword} at {path} can't be enforced: {reason}"),
            None => write!(f, "the schema at {path} can't be enforced: {reason}"),
        }
    }
}

impl core::error::Error for SchemaFault {}

/// Compiles parts of one schema.
struct Search<'s> {
    grammars: &'s Grammars,
    tokenizer: &'s Tokenizer<'s>,
    root: Value,
    left: usize,
}

impl Search<'_> {
    /// The reason why a part can't be used; `None` if it can, or if the search has taken too long.
    fn refused(&mut self, part: &Value) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let mut part = part.clone();
        for definitions in ["$defs", "definitions"] {
            if let (Some(fields), Some(list)) = (part.as_object_mut(), self.root.get(definitions)) {
                fields.entry(definitions).or_insert_with(|| list.clone());
            }
        }
        let compiled = self.grammars.constraint(self.tokenizer, &GrammarSpec::JsonSchema(part));
        compiled.err().map(|error| error.reason())
    }

    /// The innermost part that can't be used, and its reason.
    fn innermost(&mut self, reason: String) -> (String, Value, String) {
        let (mut path, mut part, mut reason) = (String::new(), self.root.clone(), reason);
        while let Some((step, child, inner)) = children(&part)
            .into_iter()
            .find_map(|(step, child)| self.refused(&child).map(|inner| (step, child, inner)))
        {
            path.push_str(&step);
            (part, reason) = (child, inner);
        }
        (path, part, reason)
    }

    /// The keyword without which a part can be used.
    fn keyword(&mut self, part: &Value) -> Option<String> {
        let keywords: Vec<String> = part.as_object()?.keys().cloned().collect();
        keywords.into_iter().find(|keyword| {
            let mut rest = part.clone();
            rest.as_object_mut().map(|fields| fields.shift_remove(keyword));
            self.refused(&rest).is_none() && self.left > 0
        })
    }
}

impl Grammars {
    /// The part of a schema that can't be enforced; `None` if all can.
    pub fn schema_fault(&self, tokenizer: &Tokenizer<'_>, schema: &Value) -> Option<SchemaFault> {
        if schema.is_null() {
            return None;
        }
        let [least, most] = TRIALS;
        let left = (COMPILED_BYTES / schema.to_string().len().max(1)).clamp(least, most);
        let mut search = Search { grammars: self, tokenizer, root: schema.clone(), left };
        let reason = search.refused(schema)?;
        let (path, part, reason) = search.innermost(reason);
        Some(SchemaFault { path, keyword: search.keyword(&part), reason })
    }

    /// The schema without what can't be enforced. It accepts whatever the schema accepts.
    pub fn loosened(&self, tokenizer: &Tokenizer<'_>, schema: &Value) -> Value {
        let mut loose = schema.clone();
        for _ in 0..LOST {
            let Some(fault) = self.schema_fault(tokenizer, &loose) else { return loose };
            let Some(part) = loose.pointer_mut(&fault.path) else { break };
            match (part.as_object_mut(), fault.keyword) {
                (Some(fields), Some(keyword)) => _ = fields.shift_remove(&keyword),
                _ => *part = Value::Object(Map::new()),
            }
        }
        Value::Object(Map::new())
    }
}

/// The schemas in a schema, with the rest of their paths. Definitions come last: they matter only where they are used.
fn children(schema: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let Some(fields) = schema.as_object() else { return found };
    let step = |name: &str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    for (keyword, value) in fields {
        let at = step(keyword);
        if SCHEMAS.contains(&keyword.as_str()) && value.is_object() {
            found.push((at, value.clone()));
        } else if LISTS.contains(&keyword.as_str()) {
            let list = value.as_array().into_iter().flatten().enumerate();
            found.extend(list.map(|(number, value)| (format!("{at}/{number}"), value.clone())));
        } else if MAPS.contains(&keyword.as_str()) {
            let map = value.as_object().into_iter().flatten();
            found.extend(map.map(|(name, value)| (format!("{at}{}", step(name)), value.clone())));
        }
    }
    found
}
