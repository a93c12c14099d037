//! Looks for hidden arguments in a code object's MessagePack metadata. Everything else in it is read at build time.
//!
//! Source: `AMDGPUUsage.rst`, code object v5 metadata: `.args` entries whose `.value_kind` starts with `hidden_`.

/// The tokens of a MessagePack document in order; containers are only their headers, so no stack is needed.
struct Tokens<'a> {
    rest: &'a [u8],
}

enum Token<'a> {
    Text(&'a [u8]),
    Other,
}

impl<'a> Tokens<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    fn length(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width)?;
        bytes.iter().try_fold(0usize, |sum, &byte| sum.checked_mul(256)?.checked_add(usize::from(byte)))
    }

    fn text(&mut self, len: usize) -> Option<Token<'a>> {
        self.take(len).map(Token::Text)
    }

    fn skip(&mut self, len: usize) -> Option<Token<'a>> {
        self.take(len).map(|_| Token::Other)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    /// `None` at the end and where the document breaks off.
    fn next(&mut self) -> Option<Token<'a>> {
        let tag = *self.take(1)?.first()?;
        match tag {
            0xa0..=0xbf => self.text(usize::from(tag & 31)),
            0xd9..=0xdb => {
                let len = self.length(1 << (tag - 0xd9))?;
                self.text(len)
            }
            0xc4..=0xc6 => {
                let len = self.length(1 << (tag - 0xc4))?;
                self.skip(len)
            }
            0xc7..=0xc9 => {
                let len = self.length(1 << (tag - 0xc7))?;
                self.skip(len.checked_add(1)?)
            }
            0xca => self.skip(4),
            0xcb => self.skip(8),
            0xcc..=0xcf => self.skip(1 << (tag - 0xcc)),
            0xd0..=0xd3 => self.skip(1 << (tag - 0xd0)),
            0xd4..=0xd8 => self.skip((1 << (tag - 0xd4)) + 1),
            0xdc | 0xde => self.skip(2),
            0xdd | 0xdf => self.skip(4),
            _ => Some(Token::Other),
        }
    }
}

/// True if any kernel of the document has a hidden argument.
pub(super) fn has_hidden_arguments(document: &[u8]) -> bool {
    let mut is_kind = false;
    for token in (Tokens { rest: document }) {
        match token {
            Token::Text(text) if is_kind && text.starts_with(b"hidden_") => return true,
            Token::Text(text) => is_kind = text == b".value_kind",
            Token::Other => is_kind = false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_value_kinds_count() {
        let kind = |text: &[u8]| {
            let mut bytes = alloc::vec![0x82, 0xab];
            bytes.extend_from_slice(b".value_kind");
            bytes.extend_from_slice(&[0xd9, u8::try_from(text.len()).expect("short")]);
            bytes.extend_from_slice(text);
            bytes.extend_from_slice(&[0xa2, b'.', b'x', 0xcd, 1, 2]);
            bytes
        };
        assert!(has_hidden_arguments(&kind(b"hidden_block_count_x")));
        assert!(!has_hidden_arguments(&kind(b"global_buffer")));
        assert!(!has_hidden_arguments(b"\x82\xa5.name\xa8hidden_x"));
        // Cut anywhere, it ends without an answer.
        let whole = kind(b"hidden_none");
        for end in 0..whole.len() {
            let _ = has_hidden_arguments(&whole[..end]);
        }
        assert!(!has_hidden_arguments(&[0xdb, 0xff, 0xff, 0xff, 0xff, 0]));
    }
}
