//! Character classes of Unicode text that need not be valid UTF-8.
//!
//! The table itself is generated (`class_table.rs`); the classes are used in `split`.

use super::class_table::{BLOCKS, LEAVES};

/// The character classes in pre-tokenizers' regular expressions.
///
/// General categories of Unicode, joined if no rule distinguishes them; `Space` is the property White_Space
/// and wins over the category. The discriminants are those of the generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Controls, formats, private use, surrogates, unassigned code points and bytes that are not UTF-8.
    Other = 0,
    /// `\p{Lu}`
    Upper = 1,
    /// `\p{Ll}`
    Lower = 2,
    /// `\p{Lt}`
    Title = 3,
    /// `\p{Lm}`
    Modifier = 4,
    /// `\p{Lo}`
    OtherLetter = 5,
    /// `\p{M}`
    Mark = 6,
    /// `\p{N}`
    Number = 7,
    /// `\p{P}`
    Punctuation = 8,
    /// `\p{S}`
    Symbol = 9,
    /// `\s`: the 25 code points with White_Space
    Space = 10,
}

const BY_CODE: [Class; 16] = [
    Class::Other,
    Class::Upper,
    Class::Lower,
    Class::Title,
    Class::Modifier,
    Class::OtherLetter,
    Class::Mark,
    Class::Number,
    Class::Punctuation,
    Class::Symbol,
    Class::Space,
    Class::Other,
    Class::Other,
    Class::Other,
    Class::Other,
    Class::Other,
];

/// The class of a code point; `Other` beyond U+10FFFF.
pub fn class(code: u32) -> Class {
    let low = (code & 0xff) as usize;
    let Some(&leaf) = usize::try_from(code >> 8).ok().and_then(|block| BLOCKS.get(block)) else {
        return Class::Other;
    };
    let word = LEAVES[usize::from(leaf)][low >> 4];
    BY_CODE[(word >> ((low & 15) * 4)) as usize & 15]
}

const ASCII: [Class; 128] = {
    let mut table = [Class::Other; 128];
    let mut code = 0;
    while code < 128 {
        let word = LEAVES[BLOCKS[0] as usize][code >> 4];
        table[code] = BY_CODE[(word >> ((code & 15) * 4)) as usize & 15];
        code += 1;
    }
    table
};

/// A set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set(u16);

impl Set {
    /// The set of these classes.
    pub const fn of(classes: &[Class]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < classes.len() {
            bits |= 1 << classes[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// The union.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The complement.
    pub const fn not(self) -> Self {
        Self(!self.0)
    }

    /// True if the class is in the set.
    pub const fn has(self, class: Class) -> bool {
        self.0 >> class as u16 & 1 == 1
    }
}

/// `\p{L}`
pub const LETTER: Set =
    Set::of(&[Class::Upper, Class::Lower, Class::Title, Class::Modifier, Class::OtherLetter]);
/// `\p{M}`
pub const MARK: Set = Set::of(&[Class::Mark]);
/// `\p{N}`
pub const NUMBER: Set = Set::of(&[Class::Number]);
/// `\s`
pub const SPACE: Set = Set::of(&[Class::Space]);
/// `\p{P}`
pub const PUNCTUATION: Set = Set::of(&[Class::Punctuation]);
/// `\p{S}`
pub const SYMBOL: Set = Set::of(&[Class::Symbol]);

/// One character of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Char {
    /// The code point, or [`Char::BAD`] for a byte that is no part of valid UTF-8.
    pub code: u32,
    /// Its class.
    pub class: Class,
    /// Its length in bytes, 1..=4.
    pub len: usize,
}

impl Char {
    /// The code of a byte that is not part of valid UTF-8: such a byte is a character of its own.
    pub const BAD: u32 = u32::MAX;

    /// The character that starts at byte `at`, if the text is long enough.
    pub fn at(text: &[u8], at: usize) -> Option<Self> {
        let first = *text.get(at)?;
        if let Some(&class) = ASCII.get(usize::from(first)) {
            return Some(Self { code: u32::from(first), class, len: 1 });
        }
        Some(match decode(&text[at..]) {
            Some((code, len)) => Self { code, class: class(code), len },
            None => Self { code: Self::BAD, class: Class::Other, len: 1 },
        })
    }
}

/// The code point at the front of `bytes`, of two bytes or more, and its length.
fn decode(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    let (len, least) = match first {
        0xc2..=0xdf => (2, 0x80),
        0xe0..=0xef => (3, 0x800),
        0xf0..=0xf4 => (4, 0x1_0000),
        _ => return None,
    };
    let mut code = u32::from(first) & (0x7f >> len);
    for &byte in bytes.get(1..len)? {
        if byte & 0xc0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3f);
    }
    (code >= least && char::from_u32(code).is_some()).then_some((code, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// White_Space has 25 members, and U+001C..U+001F are not among them.
    #[test]
    fn whitespace_is_the_property() {
        let spaces: usize = (0..=0x10_ffff).filter(|&code| class(code) == Class::Space).count();
        assert_eq!(spaces, 25);
        for code in 0..=0x10_ffff {
            let expected = char::from_u32(code).is_some_and(char::is_whitespace);
            assert_eq!(class(code) == Class::Space, expected, "U+{code:04X}");
        }
    }

    #[test]
    fn classes_of_known_characters() {
        let known = [
            ('A', Class::Upper),
            ('ß', Class::Lower),
            ('ǅ', Class::Title),
            ('ʰ', Class::Modifier),
            ('中', Class::OtherLetter),
            ('\u{301}', Class::Mark),
            ('Ⅷ', Class::Number),
            ('_', Class::Punctuation),
            ('€', Class::Symbol),
            ('\u{85}', Class::Space),
            ('\u{200d}', Class::Other),
            ('\u{e000}', Class::Other),
        ];
        for (char, expected) in known {
            assert_eq!(class(char as u32), expected, "{char:?}");
        }
        assert_eq!(class(0x11_0000), Class::Other);
        assert_eq!(class(u32::MAX), Class::Other);
    }

    /// Valid text decodes as Rust decodes it; every other byte stands alone.
    #[test]
    fn characters_agree_with_the_standard_decoder() {
        let mut buffer = [0; 4];
        for char in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = char.encode_utf8(&mut buffer).as_bytes();
            let found = Char::at(text, 0).unwrap();
            assert_eq!((found.code, found.len), (char as u32, text.len()));
            if text.len() > 1 {
                assert_eq!(Char::at(&text[..text.len() - 1], 0).unwrap().code, Char::BAD);
            }
        }
        for bad in [
            &[0x80][..],
            &[0xc0, 0x80],
            &[0xc1, 0xbf],
            &[0xe0, 0x9f, 0xbf],
            &[0xed, 0xa0, 0x80],
            &[0xf0, 0x8f, 0xbf, 0xbf],
            &[0xf4, 0x90, 0x80, 0x80],
            &[0xf5, 0x80, 0x80, 0x80],
            &[0xff],
        ] {
            assert_eq!(Char::at(bad, 0), Some(Char { code: Char::BAD, class: Class::Other, len: 1 }));
        }
        assert_eq!(Char::at(b"a", 1), None);
    }
}
