//! Translation of GBNF, the grammar notation of llama.cpp, to the Lark notation that llguidance reads.
//!
//! Supported: literals, character classes, `.`, groups, repetition and comments. Not here: token terminals `<[id]>`.

use super::error::GrammarError;
use core::fmt::Write as _;

/// The same grammar in Lark. Rules keep their names, in lower case, with `_` for `-`, and with the prefix `r_`.
pub(super) fn to_lark(text: &str) -> Result<String, GrammarError> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1, depth: 0 };
    let mut out = String::new();
    let mut root = false;
    reader.blank(true);
    while !reader.ended() {
        let name = reader.name().ok_or_else(|| reader.error("expected the name of a rule"))?;
        root |= name == "root";
        reader.blank(true);
        reader.expect("::=")?;
        reader.blank(true);
        let body = reader.alternatives()?;
        _ = writeln!(out, "{}: {body}", rule(&name));
        reader.blank(true);
    }
    if !root {
        return Err(GrammarError::Gbnf { line: 1, reason: "there is no rule \"root\"" });
    }
    Ok(format!("start: r_root\n{out}"))
}

fn rule(name: &str) -> String {
    let mut out = String::from("r_");
    for c in name.chars() {
        match c {
            '-' => out.push('_'),
            // distinct names stay distinct
            '_' => out.push_str("__"),
            'A'..='Z' => {
                out.push_str("_u");
                out.push(c.to_ascii_lowercase());
            }
            c => out.push(c),
        }
    }
    out
}

/// Limit of nested groups; the reader recurses for each.
const DEEPEST: usize = 64;

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    depth: usize,
}

impl Reader {
    fn ended(&self) -> bool {
        self.at >= self.chars.len()
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn error(&self, reason: &'static str) -> GrammarError {
        GrammarError::Gbnf { line: self.line, reason }
    }

    /// Skips blanks and comments, and line ends if `lines` is true.
    fn blank(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\n' | '\r' if lines => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            name.push(c);
            self.next();
        }
        (!name.is_empty()).then_some(name)
    }

    fn expect(&mut self, text: &'static str) -> Result<(), GrammarError> {
        for c in text.chars() {
            if self.next() != Some(c) {
                return Err(self.error("expected \"::=\" after the name of a rule"));
            }
        }
        Ok(())
    }

    fn alternatives(&mut self) -> Result<String, GrammarError> {
        let mut out = self.sequence()?;
        loop {
            // the next line may continue with another alternative
            let (at, line) = (self.at, self.line);
            self.blank(true);
            if self.peek() != Some('|') {
                (self.at, self.line) = (at, line);
                return Ok(out);
            }
            self.next();
            self.blank(true);
            let next = self.sequence()?;
            _ = write!(out, " | {next}");
        }
    }

    fn sequence(&mut self) -> Result<String, GrammarError> {
        let mut items = Vec::new();
        loop {
            self.blank(self.depth > 0);
            let Some(item) = self.item()? else { break };
            let count = self.repetition()?;
            items.push(format!("{item}{count}"));
        }
        Ok(if items.is_empty() { "\"\"".into() } else { items.join(" ") })
    }

    fn item(&mut self) -> Result<Option<String>, GrammarError> {
        match self.peek() {
            Some('"') => self.literal().map(Some),
            Some('[') => self.class().map(Some),
            Some('.') => {
                self.next();
                Ok(Some("/(?s:.)/".into()))
            }
            Some('(') => {
                self.next();
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(self.error("groups are nested too deeply"));
                }
                self.blank(true);
                let inner = self.alternatives()?;
                self.blank(true);
                if self.next() != Some(')') {
                    return Err(self.error("expected \")\""));
                }
                self.depth -= 1;
                Ok(Some(format!("({inner})")))
            }
            Some('<' | '!') => Err(self.error("token terminals are not supported")),
            Some(c) if c.is_ascii_alphanumeric() => Ok(self.reference()),
            _ => Ok(None),
        }
    }

    /// The name of a rule; `None` if it begins the next rule.
    fn reference(&mut self) -> Option<String> {
        let (at, line) = (self.at, self.line);
        let name = self.name()?;
        let behind = (self.at, self.line);
        self.blank(true);
        let rest = self.chars.get(self.at..).unwrap_or_default();
        if rest.starts_with(&[':', ':', '=']) {
            (self.at, self.line) = (at, line);
            return None;
        }
        (self.at, self.line) = behind;
        Some(rule(&name))
    }

    fn repetition(&mut self) -> Result<String, GrammarError> {
        match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.next();
                Ok(c.into())
            }
            Some('{') => {
                let mut out = String::new();
                while let Some(c) = self.next() {
                    match c {
                        '{' | '}' | ',' | '0'..='9' => out.push(c),
                        ' ' => {}
                        _ => return Err(self.error("expected {n}, {n,} or {n,m}")),
                    }
                    if c == '}' {
                        return Ok(out);
                    }
                }
                Err(self.error("expected \"}\""))
            }
            _ => Ok(String::new()),
        }
    }

    /// One character of a literal or class, escapes resolved.
    fn character(&mut self) -> Result<char, GrammarError> {
        let c = self.next().ok_or_else(|| self.error("the text ends inside quotes or brackets"))?;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self.next().ok_or_else(|| self.error("the text ends inside an escape"))?;
        let digits = match escape {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '"' | '\\' | '[' | ']' | '-' | '^' | '/' | '.' => return Ok(escape),
            _ => return Err(self.error("an unknown escape")),
        };
        let mut code = 0;
        for _ in 0..digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.error("expected hexadecimal digits"))?;
        }
        char::from_u32(code).ok_or_else(|| self.error("not a character"))
    }

    fn literal(&mut self) -> Result<String, GrammarError> {
        self.next();
        let mut text = String::new();
        while self.peek() != Some('"') {
            text.push(self.character()?);
        }
        self.next();
        // JSON's escapes are Lark's
        Ok(serde_json::Value::from(text).to_string())
    }

    fn class(&mut self) -> Result<String, GrammarError> {
        self.next();
        let mut out = String::from("/[");
        if self.peek() == Some('^') {
            self.next();
            out.push('^');
        }
        while self.peek() != Some(']') {
            if self.peek() == Some('-') && out.len() > 2 && self.chars.get(self.at + 1) != Some(&']') {
                self.next();
                out.push('-');
                continue;
            }
            let c = self.character()?;
            _ = write!(out, "\\x{{{:X}}}", u32::from(c));
        }
        self.next();
        out.push_str("]/");
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_classes_and_repetitions_are_translated() {
        let text = "# a list\nroot ::= \"[\" item (\",\" item)* \"]\"\nitem ::= [a-z_]+ |\n  [^\\n]{1,3} | sub-rule?\n\
                    sub-rule ::= .";
        let lark = "start: r_root\nr_root: \"[\" r_item (\",\" r_item)* \"]\"\n\
                    r_item: /[\\x{61}-\\x{7A}\\x{5F}]/+ | /[^\\x{A}]/{1,3} | r_sub_rule?\nr_sub_rule: /(?s:.)/\n";
        assert_eq!(to_lark(text).unwrap(), lark);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, reason) in [
            ("item ::= \"a\"", 1, "there is no rule \"root\""),
            ("root ::= \"a\"\nroot2 = x", 2, "expected \"::=\" after the name of a rule"),
            ("root ::= \"a", 1, "the text ends inside quotes or brackets"),
            ("root ::= (\"a\"", 1, "expected \")\""),
            ("root ::= <[1]>", 1, "token terminals are not supported"),
        ] {
            assert_eq!(to_lark(text), Err(GrammarError::Gbnf { line, reason }), "{text}");
        }
        assert!(to_lark(&format!("root ::= {}", "(".repeat(100_000))).is_err());
    }
}
