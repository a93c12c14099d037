//! Lone surrogates in JSON: clients that cut texts between the two escapes of a character send them, and parsers refuse
//! them. They are read as U+FFFD.

use alloc::borrow::Cow;

/// The text with `\ufffd` in place of each escape of a surrogate that has no partner. Copied only if there is one.
pub(crate) fn replace_lone(text: &[u8]) -> Cow<'_, [u8]> {
    let mut text = Cow::Borrowed(text);
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' {
            at += 1;
            continue;
        }
        match escaped_unit(&text[at..]) {
            Some(0xd800..=0xdbff) if matches!(escaped_unit(&text[at + ESCAPE..]), Some(0xdc00..=0xdfff)) => {
                at += 2 * ESCAPE;
            }
            Some(0xd800..=0xdfff) => {
                text.to_mut()[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                at += ESCAPE;
            }
            // Whatever is escaped: a backslash begins no escape of its own.
            _ => at += 2,
        }
    }
    text
}

/// Bytes of `\uXXXX`.
const ESCAPE: usize = 6;

/// The UTF-16 unit of an escape at the start of the text.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_surrogates_without_a_partner_are_replaced() {
        for (text, expected) in [
            (r#"["cut \ud83d"]"#, r#"["cut \ufffd"]"#),
            (r#"["\ude00\ud83d\ud83d\uDE00"]"#, r#"["\ufffd\ufffd\ud83d\uDE00"]"#),
            (r#"["\\ud83d", "\\\ud83d", "\n\"\u00e9"]"#, r#"["\\ud83d", "\\\ufffd", "\n\"\u00e9"]"#),
            (r#"["\ud83d\u0041", "\ud8", "\"#, r#"["\ufffd\u0041", "\ud8", "\"#),
        ] {
            assert_eq!(replace_lone(text.as_bytes()), expected.as_bytes(), "{text}");
        }
        assert!(matches!(replace_lone(br#"{"a": "\ud83d\ude00 b"}"#), Cow::Borrowed(_)));
    }
}
