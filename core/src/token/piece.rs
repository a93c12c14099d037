//! The bytes that one token adds to a text.

use super::alphabet::{self, BLANK};
use super::class::Char;
use super::vocabulary::Kind;

/// The bytes of a token, one after the other.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(Spelling<'a>);

#[derive(Clone, Debug)]
enum Spelling<'a> {
    /// As it stands.
    Plain(&'a [u8]),
    /// With U+2581 for a blank.
    Blanks(&'a [u8]),
    /// In the 256 characters of byte-level BPE.
    Bytes(&'a [u8]),
    /// One byte or none.
    Single(Option<u8>),
}

impl<'a> Bytes<'a> {
    /// The bytes of a token by its text in the file and its kind; `byte_level` is true if the vocabulary is spelled in the
    /// characters of byte-level BPE, `special` if control tokens have bytes.
    pub(super) fn new(text: &'a [u8], kind: Kind, byte_level: bool, special: bool) -> Self {
        let normal = match byte_level {
            // Added tokens that are typed as normal are not always spelled so.
            true if is_byte_level(text) => Spelling::Bytes(text),
            true => Spelling::Plain(text),
            false => Spelling::Blanks(text),
        };
        Self(match kind {
            Kind::Normal => normal,
            Kind::UserDefined => Spelling::Plain(text),
            Kind::Byte => {
                alphabet::from_hexadecimal(text).map_or(normal, |byte| Spelling::Single(Some(byte)))
            }
            _ if special => Spelling::Plain(text),
            _ => Spelling::Single(None),
        })
    }
}

/// True if all characters are among the 256 of byte-level BPE.
fn is_byte_level(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(char) = Char::at(text, at) {
        if alphabet::meaning(char.code).is_none() {
            return false;
        }
        at += char.len;
    }
    true
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        match &mut self.0 {
            Spelling::Plain(rest) => {
                let (first, behind) = rest.split_first()?;
                *rest = behind;
                Some(*first)
            }
            Spelling::Blanks(rest) => {
                if let Some(behind) = rest.strip_prefix(BLANK) {
                    *rest = behind;
                    return Some(b' ');
                }
                let (first, behind) = rest.split_first()?;
                *rest = behind;
                Some(*first)
            }
            Spelling::Bytes(rest) => {
                let char = Char::at(rest, 0)?;
                *rest = &rest[char.len..];
                alphabet::meaning(char.code)
            }
            Spelling::Single(byte) => byte.take(),
        }
    }
}
