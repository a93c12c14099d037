//! A cursor over the file's bytes that cannot pass their end.

use super::Fault;

/// The longest string, in bytes, and the longest array, in elements.
pub(super) const LENGTH_LIMIT: u64 = 1 << 30;

/// Bytes and a position in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The position in bytes from the start.
    pub(super) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        let truncated = Fault::Truncated { needed: count, present: self.left() };
        let count = usize::try_from(count).map_err(|_| truncated)?;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (taken, _) = rest.split_at_checked(count).ok_or(truncated)?;
        self.at += count;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        Ok(*self.take(N as u64)?.first_chunk().unwrap_or(&[0; N]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.fixed().map(u64::from_le_bytes)
    }

    pub(super) fn magic(&mut self) -> Result<[u8; 4], Fault> {
        self.fixed()
    }

    /// A length and that many bytes.
    pub(super) fn string(&mut self) -> Result<&'a [u8], Fault> {
        let mut ahead = *self;
        let found = ahead.u64()?;
        if found > LENGTH_LIMIT {
            return Err(Fault::TooLong { found, limit: LENGTH_LIMIT });
        }
        let string = ahead.take(found)?;
        *self = ahead;
        Ok(string)
    }
}
