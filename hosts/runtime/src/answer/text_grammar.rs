//! Rules for texts that are written without quotes, between tags: what their schema says about them as regular
//! expressions.

use super::tools::Parameter;
use crate::constrain::ANNOTATIONS;

/// Regular expressions of `format` (JSON Schema 2020-12, validation, section 7.3; RFC 3339, RFC 4122, RFC 2673).
const FORMATS: [(&str, &str); 6] = [
    ("date", r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
    (
        "time",
        r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([zZ]|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])",
    ),
    (
        "date-time",
        r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[tT]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([zZ]|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])",
    ),
    ("uuid", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    (
        "ipv4",
        r"((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
    ),
    ("email", r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\-]+@[A-Za-z0-9]([A-Za-z0-9.\-]*[A-Za-z0-9])?"),
];

/// Limit of nested `allOf` and references.
const DEEPEST: u32 = 8;

/// The limits that a schema sets for a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TextLimits {
    /// Regular expressions that match the whole text.
    patterns: Vec<String>,
    /// Least number of characters.
    shortest: u64,
    /// Greatest number of characters.
    longest: Option<u64>,
}

impl TextLimits {
    /// Reads a schema; the error is a keyword that can't be enforced on an unquoted text.
    pub(super) fn new(parameter: Parameter<'_>) -> Result<Self, String> {
        let mut limits = Self::default();
        limits.read(parameter, 0)?;
        Ok(limits)
    }

    fn read(&mut self, parameter: Parameter<'_>, depth: u32) -> Result<(), String> {
        let Some(fields) = parameter.schema().as_object() else { return Ok(()) };
        for (keyword, value) in fields {
            let refused = || Err(keyword.clone());
            match keyword.as_str() {
                "type" | "$defs" | "definitions" | "$schema" | "$id" => {}
                "minLength" => {
                    self.shortest = self.shortest.max(value.as_u64().ok_or_else(|| keyword.clone())?)
                }
                "maxLength" => {
                    let longest = value.as_u64().ok_or_else(|| keyword.clone())?;
                    self.longest = Some(self.longest.map_or(longest, |other| other.min(longest)));
                }
                "pattern" => match value.as_str().and_then(whole) {
                    Some(pattern) => self.patterns.push(pattern),
                    None => return refused(),
                },
                "format" => match FORMATS.iter().find(|(name, _)| value == name) {
                    Some((_, pattern)) => self.patterns.push((*pattern).to_owned()),
                    None => return refused(),
                },
                "allOf" if depth < DEEPEST => {
                    for schema in value.as_array().into_iter().flatten() {
                        self.read(parameter.part(schema), depth + 1)?;
                    }
                }
                annotation if ANNOTATIONS.contains(&annotation) => {}
                _ => return refused(),
            }
        }
        Ok(())
    }

    /// True if every text is allowed.
    pub(super) fn is_free(&self) -> bool {
        *self == Self::default()
    }

    /// The part of a rule after its name that matches an allowed text and the closing mark behind it, which is not in the
    /// text. `closing` is a regular expression as it stands between slashes.
    pub(super) fn lazy_rule(&self, closing: &str) -> String {
        let slashes = |pattern: &str| pattern.replace('/', "\\/");
        let mut terms: Vec<String> =
            self.patterns.iter().map(|pattern| format!("/{}/", slashes(pattern))).collect();
        if self.shortest > 0 || self.longest.is_some() {
            let longest = self.longest.map(|longest| longest.to_string()).unwrap_or_default();
            terms.push(format!("/(.|\\n){{{},{longest}}}/", self.shortest));
        }
        terms.push(format!("~/(.|\\n)*{}(.|\\n)*/", closing));
        format!("({}) /{}/", terms.join(" & "), closing)
    }
}

/// A regular expression that matches a whole text where `pattern` is found in it; `None` if it has an anchor within.
fn whole(pattern: &str) -> Option<String> {
    let begins = pattern.starts_with('^');
    let body = pattern.strip_prefix('^').unwrap_or(pattern);
    let escaped = body.len() - body.trim_end_matches('$').len() == 1
        && body[..body.len() - 1].bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1;
    let ends = body.ends_with('$') && !escaped;
    let body = if ends { &body[..body.len() - 1] } else { body };
    let (mut class, mut escape, mut depth, mut alternatives) = (false, false, 0_u32, false);
    for c in body.chars() {
        match c {
            _ if escape => {
                // \b and \B are anchors, too
                if !class && matches!(c, 'b' | 'B' | 'A' | 'z' | 'Z') {
                    return None;
                }
                escape = false;
                continue;
            }
            '\\' => {
                escape = true;
                continue;
            }
            '[' => class = true,
            ']' => class = false,
            _ if class => {}
            '^' | '$' => return None,
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '|' => alternatives |= depth == 0,
            _ => {}
        }
    }
    // an anchor belongs to one alternative only
    if escape || class || depth > 0 || body.contains("(?") || alternatives && (begins || ends) {
        return None;
    }
    let any = "(.|\\n)*";
    let (before, behind) = (if begins { "" } else { any }, if ends { "" } else { any });
    Some(format!("{before}({}){behind}", body.replace('\n', "\\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn limits(schema: &Value) -> Result<TextLimits, String> {
        TextLimits::new(Parameter::new(schema, schema))
    }

    #[test]
    fn annotations_leave_a_text_free() {
        let schema = json!({ "type": "string", "description": "x", "default": "y", "title": "z" });
        assert!(limits(&schema).unwrap().is_free());
        assert!(limits(&Value::Null).unwrap().is_free());
    }

    #[test]
    fn keywords_are_read_or_named() {
        let schema = json!({ "type": "string", "minLength": 2,
            "allOf": [{ "maxLength": 9 }, { "maxLength": 7, "pattern": "^a/b$" }], "format": "date" });
        let found = limits(&schema).unwrap();
        assert_eq!((found.shortest, found.longest, found.patterns.len()), (2, Some(7), 2));
        assert!(found.lazy_rule("END").contains(r"/(a\/b)/"), "{}", found.lazy_rule("END"));
        for (schema, keyword) in [
            (json!({ "not": { "const": "a" } }), "not"),
            (json!({ "format": "uri-template" }), "format"),
            (json!({ "pattern": "a(?=b)" }), "pattern"),
            (json!({ "pattern": "^a|b$" }), "pattern"),
            (json!({ "pattern": "(^a)" }), "pattern"),
            (json!({ "maxLength": -1 }), "maxLength"),
            (json!({ "allOf": [{ "if": {} }] }), "if"),
        ] {
            assert_eq!(limits(&schema).unwrap_err(), keyword, "{schema}");
        }
    }

    #[test]
    fn patterns_are_searched_for() {
        assert_eq!(whole("^a$").as_deref(), Some("(a)"));
        assert_eq!(whole("a|b").as_deref(), Some("(.|\\n)*(a|b)(.|\\n)*"));
        assert_eq!(whole("^a\\$").as_deref(), Some("(a\\$)(.|\\n)*"));
        assert_eq!(whole("[$^]").as_deref(), Some("(.|\\n)*([$^])(.|\\n)*"));
    }
}
