//! The bytes that one token adds to a text.

use super::alphabet::{self, BLANK};
use super::class::Char;
use super::pre::Alphabet;
use super::tokenizer::Model;
use super::vocabulary::Kind;
use super::{TokenId, Tokenizer};

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
    pub(super) fn new(tokenizer: &Tokenizer<'a>, id: TokenId, special: bool) -> Self {
        let text = tokenizer.text(id).unwrap_or_default();
        let normal = match tokenizer.model {
            Model::Bpe(pre) if pre.alphabet == Alphabet::Bytes => {
                // Added tokens that are typed as normal are not always spelt.
                if is_spelt(text) { Spelling::Bytes(text) } else { Spelling::Plain(text) }
            }
            _ => Spelling::Blanks(text),
        };
        Self(match tokenizer.kind(id) {
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

fn is_spelt(text: &[u8]) -> bool {
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
