//! Rust source text as tokens: identifiers, `::`, and single other characters. Comments and literals are left out.

/// A token and its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) text: &'t str,
    pub(super) line: usize,
}

/// The tokens of a source text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if let Some(length) = literal(rest) {
            (length, false)
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            (end.unwrap_or(rest.len()), true)
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), !first.is_whitespace())
        };
        if kept {
            tokens.push(Token { text: &rest[..length], line });
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The length of the text, character or lifetime at the start, if there is one.
fn literal(text: &str) -> Option<usize> {
    if let Some(raw) = text.strip_prefix("br").or_else(|| text.strip_prefix('r')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let before = text.len() - raw.len() + hashes + 1;
            return Some(text[before..].find(&end).map_or(text.len(), |at| before + at + end.len()));
        }
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    let character = text.strip_prefix('\'')?;
    let mut after = character.chars();
    let first = after.next()?;
    // A lifetime has no quote at its end.
    Some(if first == '\\' || after.next() == Some('\'') { quoted(text, '\'') } else { 1 })
}

/// The length of a literal between quotes, the quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if !escaped && character == quote {
            return at + 1;
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "/* a\n */ fn f<'x>(s: &'x str) { // b\n let c = ['{', '\\'', '\"']; r#\"d \" e\"#; a::b \"f\\\"\" }";
        let found: Vec<_> = tokens(text).into_iter().filter(|token| token.text.len() > 1).collect();
        let token = |text, line| Token { text, line };
        assert_eq!(found, [token("fn", 2), token("str", 2), token("let", 3), token("::", 3)]);
    }
}
