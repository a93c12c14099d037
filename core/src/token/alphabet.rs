//! The spelling of bytes and blanks in vocabularies: the 256 printable characters of byte-level BPE, U+2581, `<0xNN>`.

/// U+2581, which stands for a blank in SPM vocabularies.
pub(super) const BLANK: &[u8] = "\u{2581}".as_bytes();

/// The character of each byte: itself if it is printable Latin-1; the other 68 bytes follow from U+0100 on.
const SPELLING: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    let mut free = 0x100;
    while byte < 256 {
        table[byte as usize] = if matches!(byte, 33..=126 | 161..=172 | 174..=255) {
            byte
        } else {
            free += 1;
            free - 1
        };
        byte += 1;
    }
    table
};

/// The byte of each character below U+0144, or 256.
const MEANING: [u16; 0x144] = {
    let mut table = [256; 0x144];
    let mut byte = 0;
    while byte < 256 {
        table[SPELLING[byte as usize] as usize] = byte;
        byte += 1;
    }
    table
};

/// The character that stands for a byte in byte-level BPE.
pub(super) fn spell(byte: u8) -> char {
    char::from_u32(SPELLING[usize::from(byte)].into()).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for in byte-level BPE.
pub(super) fn meaning(code: u32) -> Option<u8> {
    let byte = *MEANING.get(usize::try_from(code).ok()?)?;
    u8::try_from(byte).ok()
}

/// `<0xNN>`
pub(super) fn hexadecimal(byte: u8) -> [u8; 6] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'<', b'0', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)], b'>']
}

/// The byte of a text `<0xNN>`, in either case.
pub(super) fn from_hexadecimal(text: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = text else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_a_bijection() {
        for byte in 0..=255 {
            assert_eq!(meaning(spell(byte).into()), Some(byte));
            assert_eq!(from_hexadecimal(&hexadecimal(byte)), Some(byte));
        }
        assert_eq!((spell(b' '), spell(b'\n'), spell(0), spell(0xad)), ('Ġ', 'Ċ', 'Ā', 'Ń'));
        assert_eq!(meaning(0x20), None);
        assert_eq!(meaning(0x144), None);
        assert_eq!(from_hexadecimal(b"<0x0g>"), None);
        assert_eq!(from_hexadecimal(b"<0x0>"), None);
    }
}
