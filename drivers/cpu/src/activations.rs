//! Activation rows as the product kernels read them: codes, then scales, then sums, each plane contiguous.
//!
//! A row is a sum of two terms: its values to eight bits, exactly as `doorbell_core::quant::Activation::quantize`
//! makes them, but in another order, and the remainders of those, to eight bits again. Eight bits alone cost a small
//! model one in twenty of its most likely tokens; the second term costs a dot product beside an unpacking.
//!
//! A row's bytes depend on that row alone. Products are computed elsewhere.

use crate::lines::LINE;
use crate::simd::{Kernel, Simd};
use doorbell_core::quant::Activation;

/// The planes of a term, in bytes from its start, and the terms of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The format.
    pub format: Activation,
    /// Elements of a row.
    pub cols: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Terms of a row.
    pub(crate) terms: usize,
    /// Bytes from one term to the next.
    pub(crate) term: usize,
    /// f32 scale per block.
    pub(crate) scales: usize,
    /// Q8_0: i32 −Σ codes per 32. Q8_1: f32 d·Σ codes per 32. Q8_K: i32 −Σ codes per 16.
    pub(crate) sums: usize,
    /// Q8_K: i32 −Σ codes per 32.
    pub(crate) sums32: usize,
    /// Q8_K: i16 Σ codes per 16.
    pub(crate) halves16: usize,
    /// Q8_K: i16 Σ codes per 32.
    pub(crate) halves32: usize,
}

impl Layout {
    /// The layout of rows of `cols` elements; `None` if that is not a whole number of blocks.
    #[must_use]
    pub fn new(format: Activation, cols: usize) -> Option<Self> {
        if !cols.is_multiple_of(format.block_len()) {
            return None;
        }
        let mut end = match format {
            Activation::F32 => cols.checked_mul(4)?,
            _ => cols,
        };
        let mut plane = |bytes: usize| {
            let start = end.next_multiple_of(LINE);
            end = start + bytes;
            start
        };
        let [scales, sums, sums32, halves16, halves32] = match format {
            Activation::F32 => [0; 5],
            Activation::Q8_0 | Activation::Q8_1 => [plane(cols / 8), plane(cols / 8), 0, 0, 0],
            Activation::Q8_K => {
                [plane(cols / 64), plane(cols / 4), plane(cols / 8), plane(cols / 8), plane(cols / 16)]
            }
        };
        let term = end.next_multiple_of(LINE);
        let terms = if format == Activation::F32 { 1 } else { 2 };
        // An odd number of lines apart, so that equal columns of neighbors do not compete for the same cache set.
        let stride = ((terms * term / LINE) | 1) * LINE;
        Some(Self { format, cols, stride, terms, term, scales, sums, sums32, halves16, halves32 })
    }
}

/// Writes one row of `values` in the layout.
#[derive(Debug)]
pub struct Quantize<'a> {
    layout: &'a Layout,
    values: &'a [f32],
    row: &'a mut [u8],
}

impl<'a> Quantize<'a> {
    /// `values` has the layout's columns, `row` at least its stride in bytes.
    ///
    /// # Panics
    /// When a length is wrong.
    #[must_use]
    pub fn new(layout: &'a Layout, values: &'a [f32], row: &'a mut [u8]) -> Self {
        assert_eq!(values.len(), layout.cols, "activation row");
        assert!(row.len() >= layout.stride, "activation row");
        Self { layout, values, row }
    }
}

impl Kernel for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn call<S: Simd>(self, simd: S) {
        let Self { layout, values, row } = self;
        match layout.format {
            Activation::F32 => {
                for (value, out) in values.iter().zip(row.as_chunks_mut::<4>().0) {
                    *out = value.to_ne_bytes();
                }
            }
            Activation::Q8_0 => blocks::<S, Block32<false>, 32>(simd, layout, values, row),
            Activation::Q8_1 => blocks::<S, Block32<true>, 32>(simd, layout, values, row),
            Activation::Q8_K => blocks::<S, Block256, 256>(simd, layout, values, row),
        }
    }
}

/// Overwrites one number of a plane.
#[inline(always)]
fn put<const N: usize>(row: &mut [u8], plane: usize, index: usize, bytes: [u8; N]) {
    row[plane + N * index..plane + N * (index + 1)].copy_from_slice(&bytes);
}

/// The largest magnitude's bits as an integer: NaN above infinity above numbers.
#[inline(always)]
fn magnitude_bits<S: Simd>(simd: S, values: &[f32]) -> u32 {
    let mut max = simd.splat(0);
    for chunk in values.chunks_exact(S::LANES) {
        let x = simd.as_i(simd.read_f(chunk));
        max = simd.max(max, simd.and(x, simd.splat(i32::MAX)));
    }
    simd.lanes(max)[..S::LANES].iter().fold(0, |a, &b| a.max(b)).cast_unsigned()
}

/// Codes of `values` under `inverse`: to nearest, ties to even, within ±127.
#[inline(always)]
fn encode<S: Simd>(simd: S, values: &[f32], inverse: f32, codes: &mut [u8]) {
    if inverse.is_infinite() {
        return encode_subnormal(values, inverse, codes);
    }
    let (low, high) = (simd.splat_f(-127.0), simd.splat_f(127.0));
    for (values, codes) in values.chunks_exact(S::LANES).zip(codes.chunks_exact_mut(S::LANES)) {
        let x = simd.mul_f(simd.read_f(values), simd.splat_f(inverse));
        let x = simd.round(simd.min_f(simd.max_f(x, low), high));
        simd.write_bytes(codes, x);
    }
}

/// Codes where the largest magnitude has no reciprocal: everything but zero is at the limit.
#[cold]
fn encode_subnormal(values: &[f32], inverse: f32, codes: &mut [u8]) {
    for (&value, code) in values.iter().zip(codes) {
        let limit: i8 = if value == 0.0 { 0 } else { 127 };
        *code = if (value < 0.0) == (inverse < 0.0) { limit } else { -limit }.cast_unsigned();
    }
}

/// Σ of signed bytes.
#[inline(always)]
fn code_sum(codes: &[u8]) -> i32 {
    codes.iter().map(|&code| i32::from(code.cast_signed())).sum()
}

const INFINITE: u32 = f32::INFINITY.to_bits();

/// A form of block. (A function as an argument would not always be inlined, and a kernel's pieces must be.)
trait Block<const N: usize> {
    /// Writes block `block` of a term and returns its scale.
    fn write<S: Simd>(simd: S, layout: &Layout, block: usize, values: &[f32; N], term: &mut [u8]) -> f32;
}

/// 32 values; with `SUM` the scaled sum of their codes.
struct Block32<const SUM: bool>;

impl<const SUM: bool> Block<32> for Block32<SUM> {
    #[inline(always)]
    fn write<S: Simd>(simd: S, layout: &Layout, block: usize, values: &[f32; 32], term: &mut [u8]) -> f32 {
        block32::<S, SUM>(simd, layout, block, values, term)
    }
}

/// 256 values.
struct Block256;

impl Block<256> for Block256 {
    #[inline(always)]
    fn write<S: Simd>(simd: S, layout: &Layout, block: usize, values: &[f32; 256], term: &mut [u8]) -> f32 {
        superblock(simd, layout, block, values, term)
    }
}

/// Every block twice: the values, then the remainders of the first term.
#[inline(always)]
fn blocks<S: Simd, B: Block<N>, const N: usize>(simd: S, layout: &Layout, values: &[f32], row: &mut [u8]) {
    let (first, rest) = row.split_at_mut(layout.term);
    for (block, values) in values.as_chunks::<N>().0.iter().enumerate() {
        let scale = B::write(simd, layout, block, values, first);
        let mut left = [0.0; N];
        let codes = &first[N * block..N * (block + 1)];
        for ((left, value), code) in left.iter_mut().zip(values).zip(codes) {
            // A value that is not finite has spoiled the first term already.
            *left = value - scale * f32::from(code.cast_signed());
        }
        B::write(simd, layout, block, &left, rest);
    }
}

#[inline(always)]
fn block32<S: Simd, const SUM: bool>(
    simd: S,
    layout: &Layout,
    block: usize,
    values: &[f32; 32],
    row: &mut [u8],
) -> f32 {
    let codes = &mut row[32 * block..32 * block + 32];
    let scale = codes32(simd, values, codes);
    let sum = code_sum(codes);
    let scale = through_half(simd, scale);
    put(row, layout.scales, block, scale.to_ne_bytes());
    let sum = if SUM { (scale * sum as f32).to_ne_bytes() } else { (-sum).to_ne_bytes() };
    put(row, layout.sums, block, sum);
    scale
}

/// The codes of 32 values, and their scale before it is rounded. A value that is not finite shows in the scale alone.
#[inline(always)]
pub(crate) fn codes32<S: Simd>(simd: S, values: &[f32; 32], codes: &mut [u8]) -> f32 {
    let bits = magnitude_bits(simd, values);
    let max = f32::from_bits(bits);
    if bits >= INFINITE || bits == 0 {
        codes.fill(0);
    } else {
        encode(simd, values, 127.0 / max, codes);
    }
    max / 127.0
}

/// Rounded to half precision and back.
#[inline(always)]
fn through_half<S: Simd>(simd: S, x: f32) -> f32 {
    let (mut halves, mut floats) = ([0; 32], [0.0; 16]);
    simd.write_half(&mut halves, simd.splat_f(x));
    simd.write_f(&mut floats, simd.read_half(&halves));
    floats[0]
}

#[inline(always)]
fn superblock<S: Simd>(simd: S, layout: &Layout, block: usize, values: &[f32; 256], row: &mut [u8]) -> f32 {
    let bits = magnitude_bits(simd, values);
    let max = f32::from_bits(bits);
    let codes = &mut row[256 * block..256 * block + 256];
    let mut scale = max;
    if bits >= INFINITE {
        codes.fill(0);
        // The reference takes the reciprocal of −127/extreme: ±infinity keeps its sign, turned round.
        scale = non_finite_scale(values, bits);
    } else if bits == 0 {
        codes.fill(0);
    } else {
        let inverse = -127.0 / extreme(simd, values, max);
        encode(simd, values, inverse, codes);
        scale = 1.0 / inverse;
    }
    put(row, layout.scales, block, scale.to_ne_bytes());
    let mut sums = [0i16; 16];
    for (sum, codes) in sums.iter_mut().zip(row[256 * block..256 * block + 256].as_chunks::<16>().0) {
        *sum = codes.iter().map(|&code| i16::from(code.cast_signed())).sum();
    }
    for (index, &sum) in sums.iter().enumerate() {
        put(row, layout.sums, 16 * block + index, (-i32::from(sum)).to_ne_bytes());
        put(row, layout.halves16, 16 * block + index, sum.to_ne_bytes());
    }
    for (index, pair) in sums.as_chunks::<2>().0.iter().enumerate() {
        let sum = pair[0] + pair[1];
        put(row, layout.sums32, 8 * block + index, (-i32::from(sum)).to_ne_bytes());
        put(row, layout.halves32, 8 * block + index, sum.to_ne_bytes());
    }
    scale
}

/// The first element whose magnitude is `max`, with its sign.
#[inline(always)]
fn extreme<S: Simd>(simd: S, values: &[f32; 256], max: f32) -> f32 {
    let (mut low, mut high) = (simd.splat_f(f32::INFINITY), simd.splat_f(f32::NEG_INFINITY));
    for chunk in values.chunks_exact(S::LANES) {
        let x = simd.read_f(chunk);
        (low, high) = (simd.min_f(low, x), simd.max_f(high, x));
    }
    let (lowest, highest) = (-simd.max_lane(simd.sub_f(simd.splat_f(0.0), low)), simd.max_lane(high));
    match (highest == max, lowest == -max) {
        (true, false) => max,
        (false, _) => -max,
        (true, true) => values.iter().copied().find(|x| x.abs() == max).unwrap_or(max),
    }
}

/// The scale of a block with an infinity or a NaN, as the reference computes it.
fn non_finite_scale(values: &[f32; 256], bits: u32) -> f32 {
    let first = values.iter().copied().find(|x| x.abs().to_bits() == bits);
    let extreme = if bits == INFINITE { first.unwrap_or(f32::INFINITY) } else { f32::NAN };
    1.0 / (-127.0 / extreme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Isa;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A term of `layout` filled from the blocks of core's own quantizer, and its remainders.
    fn term(layout: &Layout, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
        let mut bytes = vec![0; layout.format.row_bytes(values.len()).unwrap()];
        layout.format.quantize(values, &mut bytes).unwrap();
        let mut term = vec![0; layout.term];
        let mut left = Vec::new();
        let half = |bytes: &[u8]| doorbell_core::quant::Half([bytes[0], bytes[1]]).get();
        for (block, bytes) in bytes.chunks_exact(layout.format.block_bytes()).enumerate() {
            let (scale, codes): (f32, &[u8]) = match layout.format {
                Activation::F32 => unreachable!("no planes"),
                Activation::Q8_0 => (half(bytes), &bytes[2..34]),
                Activation::Q8_1 => (half(bytes), &bytes[4..36]),
                Activation::Q8_K => (f32::from_le_bytes(bytes[..4].try_into().unwrap()), &bytes[4..260]),
            };
            let first = codes.len() * block;
            left.extend(
                values[first..].iter().zip(codes).map(|(x, code)| x - scale * f32::from(code.cast_signed())),
            );
            term[first..first + codes.len()].copy_from_slice(codes);
            put(&mut term, layout.scales, block, scale.to_ne_bytes());
            let sum = code_sum(codes);
            match layout.format {
                Activation::Q8_0 => put(&mut term, layout.sums, block, (-sum).to_ne_bytes()),
                Activation::Q8_1 => put(&mut term, layout.sums, block, (scale * sum as f32).to_ne_bytes()),
                _ => sums_of_256(layout, block, codes, &mut term),
            }
        }
        (term, left)
    }

    fn sums_of_256(layout: &Layout, block: usize, codes: &[u8], term: &mut [u8]) {
        for (i, codes) in codes.chunks(16).enumerate() {
            let sum = code_sum(codes);
            put(term, layout.sums, 16 * block + i, (-sum).to_ne_bytes());
            put(term, layout.halves16, 16 * block + i, (sum as i16).to_ne_bytes());
        }
        for (i, codes) in codes.chunks(32).enumerate() {
            let sum = code_sum(codes);
            put(term, layout.sums32, 8 * block + i, (-sum).to_ne_bytes());
            put(term, layout.halves32, 8 * block + i, (sum as i16).to_ne_bytes());
        }
    }

    fn reference(layout: &Layout, values: &[f32]) -> Vec<u8> {
        let (mut row, left) = term(layout, values);
        row.extend(term(layout, &left).0);
        row.resize(layout.stride, 0);
        row
    }

    /// NaNs compare equal whatever their payload: only a scale or a float sum can be one.
    fn same(a: &[u8], b: &[u8]) -> bool {
        a.as_chunks::<4>()
            .0
            .iter()
            .zip(b.as_chunks::<4>().0)
            .all(|(a, b)| a == b || (f32::from_ne_bytes(*a).is_nan() && f32::from_ne_bytes(*b).is_nan()))
    }

    fn cases() -> Vec<Vec<f32>> {
        let mut random = 1u32;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut cases: Vec<Vec<f32>> =
            (0..8).map(|i| (0..512).map(|_| next() * 10f32.powi(i * 3 - 9)).collect()).collect();
        cases.push(vec![0.0; 512]);
        cases.push(vec![-0.0; 512]);
        cases
            .push((0..512).map(|i| if i % 32 == 5 { 1.0 } else { ((i % 7) as f32 + 0.5) / 127.0 }).collect());
        cases.push(
            (0..512)
                .map(|i| {
                    if i % 256 == 3 {
                        -2.0
                    } else if i % 256 == 9 {
                        2.0
                    } else {
                        0.1
                    }
                })
                .collect(),
        );
        for special in
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-42, f32::MAX, f32::MIN_POSITIVE, -1e-45]
        {
            for index in [0, 17, 300, 511] {
                let mut values: Vec<f32> = (0..512).map(|_| next()).collect();
                values[index] = special;
                cases.push(values);
                let mut values = vec![0.0; 512];
                values[index] = special;
                cases.push(values);
            }
        }
        cases
    }

    #[test]
    fn every_form_equals_cores_quantizer() {
        for format in [Activation::Q8_0, Activation::Q8_1, Activation::Q8_K] {
            let layout = Layout::new(format, 512).unwrap();
            for (case, values) in cases().iter().enumerate() {
                let expected = reference(&layout, values);
                for isa in Isa::available() {
                    let mut row = vec![0; layout.stride];
                    isa.run(Quantize::new(&layout, values, &mut row));
                    assert!(same(&row, &expected), "{format:?} case {case} {}", isa.name());
                }
            }
        }
    }

    #[test]
    fn two_terms_hold_sixteen_bits() {
        for format in [Activation::Q8_0, Activation::Q8_1, Activation::Q8_K] {
            let layout = Layout::new(format, 512).unwrap();
            let values = &cases()[3];
            let (_, left) = term(&layout, values);
            let (_, rest) = term(&layout, &left);
            let largest = |values: &[f32]| values.iter().fold(0f32, |max, x| max.max(x.abs()));
            assert!(largest(&rest) <= largest(values) / 40_000.0, "{format:?}");
        }
    }

    #[test]
    fn ragged_rows_have_no_layout() {
        assert_eq!(Layout::new(Activation::Q8_K, 576), None);
        assert!(Layout::new(Activation::Q8_0, 576).is_some());
        assert!(Layout::new(Activation::F32, 7).is_some());
    }
}
