//! The random numbers of sampling: a counter-based generator, so that a draw depends only on its key.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). The
//! key is the seed, the counter is (request, position, purpose). There is no state to advance: batching,
//! preemption and speculation can't change the draws of a request.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The key that distinguishes a request's draws from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKey {
    /// The seed of the request's parameters.
    pub(super) seed: u64,
    /// Distinguishes requests that share a seed, for instance the `n` choices of one prompt.
    pub(super) request: u64,
}

/// The purpose of a random number; each purpose has its own stream, so that switching one on changes no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Token,
    Xtc,
}

impl Purpose {
    const fn lane(self) -> u32 {
        match self {
            Self::Token => 0,
            Self::Xtc => 1,
        }
    }
}

/// The uniform number in `[0, 1)` for `purpose` at `position`, with 53 bits.
pub(super) fn draw(key: RequestKey, position: u32, purpose: Purpose) -> f64 {
    let (request_low, request_high) = halves(key.request);
    let (seed_low, seed_high) = halves(key.seed);
    let block = philox([request_low, request_high, position, purpose.lane()], [seed_low, seed_high]);
    let bits = (u64::from(block[1]) << 32) | u64::from(block[0]);
    // 53 bits are exact in an f64, so the product is below 1
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

const fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}

/// Philox4x32 with ten rounds.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let (low0, high0) = halves(u64::from(MULTIPLIERS[0]) * u64::from(counter[0]));
        let (low1, high1) = halves(u64::from(MULTIPLIERS[1]) * u64::from(counter[2]));
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors of the generator's authors (Random123, `kat_vectors`, philox4x32 10).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn draws_are_uniform_and_separate() {
        let uniform = |key, position| draw(key, position, Purpose::Token);
        let mut sum = 0.0;
        let mut buckets = [0_u32; 16];
        for position in 0..16_000 {
            let value = uniform(RequestKey { seed: 7, request: 3 }, position);
            assert!((0.0..1.0).contains(&value));
            sum += value;
            buckets[(value * 16.0) as usize] += 1;
        }
        assert!((sum / 16_000.0 - 0.5).abs() < 0.01);
        // 1000 each, with a standard deviation of 31
        assert!(buckets.iter().all(|&count| (850..1150).contains(&count)), "{buckets:?}");
        let key = RequestKey { seed: 7, request: 3 };
        assert!(uniform(key, 1) != uniform(RequestKey { seed: 8, ..key }, 1));
        assert!(uniform(key, 1) != uniform(RequestKey { request: 4, ..key }, 1));
        assert!(uniform(key, 1) != draw(key, 1, Purpose::Xtc));
    }
}
