//! Seeded choices, where hardware may behave in several ways.

/// A splitmix64 stream. Equal seeds give equal runs.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let scaled = (u128::from(self.bits()) * bound as u128) >> 64;
        usize::try_from(scaled).unwrap_or(0)
    }

    /// True once in `times` draws on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
