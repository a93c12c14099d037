//! The generator of C++'s standard library, for draws that are compared with llama.cpp's. Our own is in `random`.
//!
//! MT19937 (Matsumoto and Nishimura: "Mersenne Twister", 1998), and libstdc++'s conversion of its numbers: a double
//! from two of them, the first as the low half; a float from one.

use crate::heap::{self, Heap, OutOfMemory, Vec};

/// Length of the state, in numbers.
const LEN: usize = 624;
/// Distance to the number that is mixed in.
const AHEAD: usize = 397;

/// The state of a generator: 2496 bytes of the heap.
pub(super) struct Mt19937<'a> {
    state: Vec<'a, u32>,
    next: usize,
}

impl<'a> Mt19937<'a> {
    /// Bytes of a generator's state.
    pub(super) const BYTES: usize = LEN * size_of::<u32>();

    pub(super) fn new(seed: u32, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        let mut generator = Self { state: heap::filled(heap, LEN, 0)?, next: LEN };
        generator.seed(seed);
        Ok(generator)
    }

    /// Restarts with the seed.
    pub(super) fn seed(&mut self, seed: u32) {
        let mut last = seed;
        for (number, index) in (0..).zip(&mut self.state) {
            if number > 0 {
                last = (last ^ (last >> 30)).wrapping_mul(1_812_433_253).wrapping_add(number);
            }
            *index = last;
        }
        self.next = LEN;
    }

    /// The next 32 bits.
    fn number(&mut self) -> u32 {
        if self.next == LEN {
            self.twist();
        }
        let mut number = self.state[self.next];
        self.next += 1;
        number ^= number >> 11;
        number ^= (number << 7) & 0x9d2c_5680;
        number ^= (number << 15) & 0xefc6_0000;
        number ^ (number >> 18)
    }

    fn twist(&mut self) {
        for index in 0..LEN {
            let joined = (self.state[index] & 0x8000_0000) | (self.state[(index + 1) % LEN] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + AHEAD) % LEN] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// A number in `[0, 1)` as `uniform_real_distribution<double>` draws it, and `discrete_distribution` inside.
    pub(super) fn double(&mut self) -> f64 {
        let low = self.number();
        double_of(low, self.number())
    }

    /// A number in `[0, 1)` as `uniform_real_distribution<float>` draws it.
    pub(super) fn float(&mut self) -> f32 {
        float_of(self.number())
    }
}

/// Numbers that would round to 1 become the largest number below it.
fn double_of(low: u32, high: u32) -> f64 {
    // 2^32 and 2^64
    let drawn = (f64::from(low) + f64::from(high) * 4_294_967_296.0) / 18_446_744_073_709_551_616.0;
    if drawn < 1.0 { drawn } else { 1.0_f64.next_down() }
}

/// As [`double_of`].
fn float_of(number: u32) -> f32 {
    let drawn = number as f32 / 4_294_967_296.0;
    if drawn < 1.0 { drawn } else { 1.0_f32.next_down() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Global;

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split_ascii_whitespace()
    }

    #[test]
    fn numbers_are_those_of_libstdcxx() {
        let text = include_str!("../../../tests/goldens/sample/mt19937.txt");
        for line in text.lines() {
            let mut parts = line.split('|');
            let mut part = || parts.next().unwrap();
            let seed = part().trim().parse().unwrap();
            let mut generator = Mt19937::new(seed, &Global).unwrap();
            let mut expected = words(part());
            for count in 1..=703 {
                let number = generator.number();
                if count <= 4 || count >= 700 {
                    assert_eq!(number, expected.next().unwrap().parse().unwrap(), "seed {seed}, {count}");
                }
            }
            generator.seed(seed);
            for bits in words(part()) {
                let bits = u64::from_str_radix(bits, 16).unwrap();
                assert_eq!(generator.double().to_bits(), bits, "seed {seed}");
            }
            generator.seed(seed);
            for bits in words(part()) {
                assert_eq!(
                    generator.float().to_bits(),
                    u32::from_str_radix(bits, 16).unwrap(),
                    "seed {seed}"
                );
            }
        }
        assert_eq!(text.lines().count(), 8);
    }

    #[test]
    fn nothing_reaches_one() {
        assert_eq!(float_of(u32::MAX), 1.0_f32.next_down());
        assert_eq!(double_of(u32::MAX, u32::MAX), 1.0_f64.next_down());
        assert_eq!((float_of(0), double_of(0, 0)), (0.0, 0.0));
    }
}
