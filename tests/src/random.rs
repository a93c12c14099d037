//! A small seeded generator for fixtures (xoshiro256++), the same on every host.
//!
//! Core's generator is not used, so that a fault in it can't hide in a fixture.

/// A stream of pseudo-random numbers that depends on its seed only.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of `seed`; the state is filled by SplitMix64, as the generator's authors advise.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = core::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in `0..bound` (slightly biased for huge bounds); 0 for bound 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        // The remainder is less than a usize, so the conversion can't fail.
        usize::try_from(self.next_u64() % (bound as u64)).unwrap_or(0)
    }

    /// A float in `[0, 1)` with 24 random bits.
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / 16_777_216.0
    }

    /// A float of mean 0 and variance 1, nearly normal: the scaled sum of four uniform ones.
    /// Plain arithmetic without libm, so that every host makes the same fixture.
    pub fn normal(&mut self) -> f32 {
        let bits = self.next_u64();
        let sum = [0, 16, 32, 48].map(|shift| ((bits >> shift) & 0xffff) as f32 / 65_536.0 - 0.5);
        (sum[0] + sum[1] + sum[2] + sum[3]) * 1.732_050_8
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        let (words, tail) = out.as_chunks_mut::<8>();
        for word in words {
            *word = self.next_u64().to_le_bytes();
        }
        let last = self.next_u64().to_le_bytes();
        tail.copy_from_slice(&last[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the authors' C code for the state 1, 2, 3, 4.
    #[test]
    fn equals_the_reference_stream() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let got: [u64; 4] = core::array::from_fn(|_| random.next_u64());
        assert_eq!(got, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut random = Random::new(5);
        let values: Vec<f32> = (0..20_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f32>() / 20_000.0;
        let variance = values.iter().map(|x| x * x).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
