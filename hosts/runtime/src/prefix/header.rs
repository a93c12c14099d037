//! The header of a prefix file: its format, its model, and the number of tokens and bytes that follow.
//!
//! All numbers are little-endian. After the header come the tokens (four bytes each) and their checksum, then the parts of
//! the prefix in the engine's order, each with its checksum: pages of keys and values, and a recurrent state if the model
//! has one. Of layers with a window there are only the pages that the next token sees.

use super::checksum::Checksum;
use super::error::PrefixError;
use doorbell_core::backend::PageFormat;
use doorbell_core::plan::PAGE_TOKENS;

const MAGIC: [u8; 8] = *b"DBPREFX2";

/// Bytes of a header, checksum included.
pub(super) const BYTES: usize = 64;

/// Bytes of a checksum.
pub(super) const SUM: usize = 8;

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) model: u64,
    /// Names of the page layout and the KV type, padded with zeros.
    pub(super) form: [u8; 24],
    pub(super) tokens: u32,
    /// Bytes of a page of every group and of a state.
    pub(super) unit_bytes: u64,
}

/// The names of a page format, padded with zeros.
pub(super) fn names(form: &PageFormat) -> [u8; 24] {
    let mut names = [0; 24];
    let text = format!("{} {}", form.layout, form.kv.name());
    let len = text.len().min(names.len());
    names[..len].copy_from_slice(&text.as_bytes()[..len]);
    names
}

/// The names as text.
pub(super) fn display_names(names: &[u8; 24]) -> String {
    let end = names.iter().position(|&byte| byte == 0).unwrap_or(names.len());
    names[..end].escape_ascii().to_string()
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.model.to_le_bytes());
        bytes[16..40].copy_from_slice(&self.form);
        bytes[40..44].copy_from_slice(&(PAGE_TOKENS as u32).to_le_bytes());
        bytes[44..48].copy_from_slice(&self.tokens.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.unit_bytes.to_le_bytes());
        let sum = Checksum::of(0, &bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header. Its fields are not yet checked against the file.
    pub(super) fn parse(bytes: &[u8; BYTES]) -> Result<Self, PrefixError> {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        if bytes[..8] != MAGIC {
            return Err(PrefixError::Foreign);
        }
        if word(56) != Checksum::of(0, &bytes[..56]) {
            return Err(PrefixError::Damaged { part: "header" });
        }
        if half(40) as usize != PAGE_TOKENS {
            return Err(PrefixError::Foreign);
        }
        let form = core::array::from_fn(|i| bytes[16 + i]);
        Ok(Self { model: word(8), form, tokens: half(44), unit_bytes: word(48) })
    }

    /// Number of pages of the prefix.
    pub(super) fn pages(&self) -> u64 {
        u64::from(self.tokens) / PAGE_TOKENS as u64
    }

    /// Bytes of the whole file, with this number of parts and bytes of all of them; `None` on overflow.
    pub(super) fn file_bytes(&self, (parts, bytes): (u64, u64)) -> Option<u64> {
        let tokens = u64::from(self.tokens) * 4 + SUM as u64;
        let parts = parts.checked_mul(SUM as u64)?.checked_add(bytes)?;
        parts.checked_add(tokens)?.checked_add(BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        model: 0x0102_0304_0506_0708,
        form: *b"cpu f16\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        tokens: 64,
        unit_bytes: 100,
    };

    #[test]
    fn a_written_header_is_read_back() {
        let bytes = HEADER.to_bytes();
        assert_eq!(Header::parse(&bytes).unwrap(), HEADER);
        assert_eq!(display_names(&HEADER.form), "cpu f16");
        assert_eq!(HEADER.file_bytes((2, 200)), Some(64 + 64 * 4 + 8 + 2 * 108));
        assert_eq!(HEADER.file_bytes((2, u64::MAX - 20)), None);
        assert_eq!(HEADER.file_bytes((u64::MAX / 8 + 1, 200)), None);
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let bytes = HEADER.to_bytes();
        for bit in 0..8 * BYTES {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&changed).is_err(), "bit {bit}");
        }
    }
}
