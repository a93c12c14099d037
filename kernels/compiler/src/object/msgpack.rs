//! The part of MessagePack that code object metadata needs: maps, arrays, strings, unsigned numbers, booleans.

use alloc::vec::Vec;

/// Writes MessagePack.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn map(&mut self, entries: u32) -> &mut Self {
        self.header(entries, 0x80, 16, 0xde)
    }

    pub(super) fn array(&mut self, items: u32) -> &mut Self {
        self.header(items, 0x90, 16, 0xdc)
    }

    /// A short header, or the 16-bit form.
    fn header(&mut self, count: u32, short: u8, limit: u32, long: u8) -> &mut Self {
        if count < limit {
            self.bytes.push(short | count as u8);
        } else {
            self.bytes.push(long);
            self.bytes.extend_from_slice(&(count as u16).to_be_bytes());
        }
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        let length = text.len();
        match length {
            0..=31 => self.bytes.push(0xa0 | length as u8),
            32..=255 => self.bytes.extend_from_slice(&[0xd9, length as u8]),
            _ => {
                self.bytes.push(0xda);
                self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(super) fn number(&mut self, value: u32) -> &mut Self {
        match value {
            0..=127 => self.bytes.push(value as u8),
            _ => {
                self.bytes.push(0xce);
                self.bytes.extend_from_slice(&value.to_be_bytes());
            }
        }
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
