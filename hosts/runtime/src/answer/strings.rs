//! Repair of the string literals in JSON that a model has written: what JSON forbids inside quotes is escaped.
//!
//! Raw control characters become escapes, a backslash before a character that JSON does not escape is doubled (`\d` is
//! `\\d`), and half of a surrogate pair becomes U+FFFD. Valid JSON stays as it is. Not here: everything outside of quotes.

use core::fmt::Write as _;

/// Bytes of the longest escape: two `\uXXXX`.
const LONGEST: usize = 12;

/// State of a text that arrives in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strings {
    in_string: bool,
    /// An escape that is not complete yet.
    held: [u8; LONGEST],
    /// Number of bytes of it.
    len: usize,
}

/// The beginning of an escape, judged.
enum Escape {
    Partial,
    Valid,
    /// The first bytes are replaced by this text; the rest is read again.
    Bad(usize, &'static str),
}

impl Strings {
    /// True if the next character is inside of quotes.
    pub(super) fn inside(&self) -> bool {
        self.in_string
    }

    /// Reads a character and appends what is decided to `out`. An escape is held back until it is complete.
    pub(super) fn push(&mut self, character: char, out: &mut String) {
        if !self.in_string {
            self.in_string = character == '"';
            return out.push(character);
        }
        if self.len == 0 {
            match character {
                '\\' => self.hold('\\'),
                '"' => {
                    self.in_string = false;
                    out.push('"');
                }
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
                c => out.push(c),
            }
            return;
        }
        let mut text: String = self.held[..self.len].iter().map(|&byte| char::from(byte)).collect();
        text.push(character);
        match escape(text.as_bytes()) {
            Escape::Partial => self.hold(character),
            Escape::Valid => {
                self.len = 0;
                out.push_str(&text);
            }
            Escape::Bad(bytes, replacement) => {
                self.len = 0;
                out.push_str(replacement);
                text[bytes..].chars().for_each(|character| self.push(character, out));
            }
        }
    }

    /// Holds a character of an incomplete escape, which is ASCII.
    fn hold(&mut self, character: char) {
        if let (Some(slot), Ok(byte)) = (self.held.get_mut(self.len), u8::try_from(character)) {
            *slot = byte;
            self.len += 1;
        }
    }
}

/// The value of four hexadecimal digits; `None` if there is another character, and `Some(None)` if some are missing.
fn digits(text: &[u8]) -> Option<Option<u32>> {
    let mut value = 0;
    for &byte in text.iter().take(4) {
        value = value * 16 + char::from(byte).to_digit(16)?;
    }
    Some((text.len() >= 4).then_some(value))
}

/// Judges a text that begins with a backslash.
fn escape(text: &[u8]) -> Escape {
    const LOST: &str = "\\ufffd";
    match text.get(1) {
        None => return Escape::Partial,
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Escape::Valid,
        Some(b'u') => {}
        Some(_) => return Escape::Bad(1, "\\\\"),
    }
    match digits(&text[2..]) {
        None => Escape::Bad(1, "\\\\"),
        Some(None) => Escape::Partial,
        Some(Some(0xd800..=0xdbff)) => match &text[6..] {
            [] | [b'\\'] => Escape::Partial,
            [b'\\', b'u', low @ ..] => match digits(low) {
                Some(None) => Escape::Partial,
                Some(Some(0xdc00..=0xdfff)) => Escape::Valid,
                _ => Escape::Bad(6, LOST),
            },
            _ => Escape::Bad(6, LOST),
        },
        Some(Some(0xdc00..=0xdfff)) => Escape::Bad(6, LOST),
        Some(Some(_)) => Escape::Valid,
    }
}

/// A whole text with its string literals repaired. An escape that the text's end cuts off is dropped.
pub(super) fn repaired(text: &str) -> String {
    let (mut strings, mut out) = (Strings::default(), String::with_capacity(text.len()));
    text.chars().for_each(|character| strings.push(character, &mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_valid_and_valid_ones_stay() {
        for valid in [r#"{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 ß"}"#, "[1, {}]\n\t", "\"\""] {
            assert_eq!(repaired(valid), valid);
        }
        for (bad, good) in [
            ("\"a\nb\tc\rd\u{1}\"", r#""a\nb\tc\rd\u0001""#),
            (r#""\d+\.\s""#, r#""\\d+\\.\\s""#),
            (r#""\u12""#, r#""\\u12""#),
            (r#""\uzz\n""#, r#""\\uzz\n""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00x""#, r#""\ufffdx""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            ("\"\\\n\"", r#""\\\n""#),
            ("\"\\é\"", r#""\\é""#),
        ] {
            assert_eq!(repaired(bad), good, "{bad}");
            assert!(serde_json::from_str::<serde_json::Value>(good).is_ok(), "{good}");
        }
    }
}
