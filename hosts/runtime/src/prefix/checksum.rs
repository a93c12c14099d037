//! A checksum against accidental changes of a file. It does not protect from deliberate ones.

/// Running checksum over words of eight bytes.
///
/// Each step is a bijection of the state for a given word, so two inputs of equal length that differ in one word never
/// have the same checksum; others collide with a chance of 2^-64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksum(u64);

impl Checksum {
    /// A checksum that differs from those of other seeds.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6a09_e667_f3bc_c909)
    }

    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Adds bytes; the last word is padded with zeros, and the length is added, too.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| self.word(u64::from_le_bytes(word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }

    /// The checksum of one piece.
    pub(super) fn of(seed: u64, bytes: &[u8]) -> u64 {
        let mut sum = Self::new(seed);
        sum.update(bytes);
        sum.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_shows() {
        let bytes: Vec<u8> = (0..77_u8).collect();
        let sum = Checksum::of(1, &bytes);
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::of(1, &changed), sum, "bit {bit}");
        }
        assert_ne!(Checksum::of(2, &bytes), sum);
        assert_ne!(Checksum::of(1, &bytes[..76]), sum);
        assert_ne!(Checksum::of(1, &[&bytes[..], &[0]].concat()), sum);
    }
}
