//! Activations in LDS: rows of f32, normalized on the way, as they are or as two 8-bit terms.
//!
//! Runs of 16 elements become `x = d * (high + low / 254)` with the sum of the run beside `d`: near exact products by
//! integer dots (error of an element <= d / 508). Not here: the products (`product`).

use crate::builder_ext::BuilderExt;
use crate::kernel::SpecError;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, global, lds};

/// Work items of kernels that use activations.
pub(crate) const WORKGROUP: u32 = 256;
/// Waves of such kernels.
pub(crate) const WAVES: u32 = WORKGROUP / 32;
/// Elements that a workgroup takes at once, four a work item; also those of one trip of a wave.
pub(crate) const STRIDE: u32 = 4 * WORKGROUP;
/// LDS bytes that rows of activations may take before they are cut into pieces.
const LDS_BUDGET: u32 = 40 * 1024;

/// The forms in which a kernel needs its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forms {
    /// As 8-bit terms, for weights that are codes.
    pub(crate) coded: bool,
    /// As f32, for weights that are floats.
    pub(crate) plain: bool,
}

impl Forms {
    /// LDS bytes of [`STRIDE`] elements.
    fn stride_bytes(self) -> u32 {
        STRIDE * (if self.coded { 5 } else { 0 } + if self.plain { 8 } else { 0 }) / 2
    }

    /// True if one row of `cols` elements fits into LDS as a whole.
    pub(crate) fn fit(self, cols: u32) -> bool {
        cols.div_ceil(STRIDE) * self.stride_bytes() <= LDS_BUDGET
    }
}

/// Layout of activations in LDS.
#[derive(Clone, Debug)]
pub(crate) struct Activations {
    /// Elements of a row.
    pub(crate) cols: u32,
    /// Rows.
    pub(crate) rows: u32,
    /// Elements of a row that are in LDS at a time, a multiple of [`STRIDE`].
    pub(crate) piece: u32,
    /// First byte of the 8-bit terms.
    coded: Option<u32>,
    /// First byte of the f32 elements.
    plain: Option<u32>,
    /// LDS for reductions.
    slots: u32,
}

/// Rows in memory.
pub(crate) struct ActivationSource {
    /// The buffer.
    pub(crate) base: Value,
    /// Byte offset of each row, uniform.
    pub(crate) rows: Vec<Value>,
    /// Norm weight and the factor of each row.
    pub(crate) norm: Option<(Value, Vec<Value>)>,
}

impl Activations {
    /// Reserves LDS for `rows` rows of `cols` elements.
    ///
    /// # Errors
    /// A number of elements that no kernel takes.
    pub(crate) fn new(k: &mut Builder, cols: u32, rows: u32, forms: Forms) -> Result<Self, SpecError> {
        if cols == 0 || !cols.is_multiple_of(8) {
            return Err(SpecError::Shape);
        }
        let strides = cols.div_ceil(STRIDE);
        let bytes = rows * forms.stride_bytes();
        let pieces = strides.div_ceil((LDS_BUDGET / bytes.max(1)).max(1));
        let piece = strides.div_ceil(pieces) * STRIDE;
        let slots = k.local(4 * WAVES * rows);
        let coded = forms.coded.then(|| k.local(rows * piece / 2 * 5));
        let plain = forms.plain.then(|| k.local(rows * piece * 4));
        Ok(Self { cols, rows, piece, coded, plain, slots })
    }

    /// Pieces of a row.
    pub(crate) fn pieces(&self) -> u32 {
        self.cols.div_ceil(STRIDE).div_ceil(self.piece / STRIDE)
    }

    /// True if the last stride of a row is not full.
    pub(crate) fn ragged(&self) -> bool {
        !(self.pieces() * self.piece).is_multiple_of(self.cols) || !self.cols.is_multiple_of(STRIDE)
    }

    /// LDS byte of element 0 of a row: high terms, low terms, pairs of factor and sum.
    pub(crate) fn terms(&self, row: u32) -> [u32; 3] {
        let start = self.coded.unwrap_or(0) + row * (self.piece / 2 * 5);
        [start, start + self.piece, start + 2 * self.piece]
    }

    /// LDS byte of element 0 of an f32 row.
    pub(crate) fn floats(&self, row: u32) -> u32 {
        self.plain.unwrap_or(0) + row * 4 * self.piece
    }

    /// Four elements of a row per work item from element `first` on; past the end the row's last four.
    fn four(&self, k: &mut Builder, base: Value, row: Value, first: Value) -> Vec<Value> {
        let bytes = first << 2;
        let bytes = if self.ragged() { bytes.min(4 * (self.cols - 4)) } else { bytes };
        let bytes = k.eval(bytes);
        let values = k.load(global(base, row + bytes), Width::Dwords(4), Elem::Float);
        k.elements(values, 4)
    }

    /// The factor `1 / sqrt(mean(x^2) + eps)` of each row, by all waves of the workgroup.
    pub(crate) fn norm_factors(
        &self,
        k: &mut Builder,
        base: Value,
        rows: &[Value],
        eps: Value,
    ) -> Vec<Value> {
        let item = k.workitem_id();
        let own = k.eval(item << 2);
        let mut factors = Vec::new();
        for (row, number) in rows.iter().zip(0..) {
            let zero = k.float(0.0);
            let sum = strides(k, self.cols.div_ceil(STRIDE), &[zero], |k, stride, sums| {
                let first = k.eval(stride * STRIDE + own);
                let values = self.four(k, base, *row, first);
                let mut sum = sums[0];
                for value in values {
                    sum = k.fma(value, value, sum);
                }
                if self.ragged() {
                    let cols = k.int(self.cols);
                    sum = k.select(first.lt(cols), sum, sums[0]);
                }
                alloc::vec![sum]
            })[0];
            let total = k.reduce_workgroup(sum, Alu::fadd, self.slots + 4 * WAVES * number, WAVES);
            let share = k.float(1.0 / self.cols as f32);
            factors.push(k.rsq(total.mul_add(share, eps)));
        }
        factors
    }

    /// Writes a piece that starts at element `start` (uniform) of every row; a barrier has to follow.
    pub(crate) fn fill(&self, k: &mut Builder, source: &ActivationSource, start: Value) {
        let item = k.workitem_id();
        let own = k.eval(item << 2);
        let _ = strides(k, self.piece / STRIDE, &[], |k, stride, _| {
            let within = k.eval(stride * STRIDE + own);
            let first = k.eval(within + start);
            let zero = k.int(0);
            let weights = source.norm.as_ref().map(|(weight, _)| self.four(k, *weight, zero, first));
            for (row, number) in source.rows.iter().zip(0..) {
                let mut values = self.four(k, source.base, *row, first);
                if let (Some((_, factors)), Some(weights)) = (&source.norm, &weights) {
                    for (value, weight) in values.iter_mut().zip(weights) {
                        *value = k.eval(*value * factors[number as usize] * weight);
                    }
                }
                if self.ragged() {
                    let (cols, zero) = (k.int(self.cols), k.float(0.0));
                    let inside = k.lt_u(first, cols);
                    values.iter_mut().for_each(|value| *value = k.select(inside, *value, zero));
                }
                self.put(k, number, within, &values);
            }
            Vec::new()
        });
    }

    /// Stores four elements from element `within` of the piece on.
    fn put(&self, k: &mut Builder, row: u32, within: Value, values: &[Value]) {
        if self.plain.is_some() {
            let offset = k.eval(within << 2);
            let packed = k.pack(values);
            k.store(lds(offset).plus(self.floats(row)), Width::Dwords(4), packed);
        }
        if self.coded.is_some() {
            let [high, low, pairs] = self.terms(row);
            let Terms { highs, lows, factor, sum } = terms(k, values);
            k.store(lds(within).plus(high), Width::Dwords(1), highs);
            k.store(lds(within).plus(low), Width::Dwords(1), lows);
            // Four lanes of a run write the same pair.
            let offset = k.eval((within >> 4) << 3);
            let pair = k.pack(&[factor, sum]);
            k.store(lds(offset).plus(pairs), Width::Dwords(2), pair);
        }
    }
}

/// Runs `body` for each of `count` strides: unrolled where they are few.
fn strides(
    k: &mut Builder,
    count: u32,
    initial: &[Value],
    mut body: impl FnMut(&mut Builder, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    if count <= 2 {
        let mut values = initial.to_vec();
        for stride in 0..count {
            let stride = k.int(stride);
            values = body(k, stride, &values);
        }
        return values;
    }
    let range = k.range(0, count, 1);
    k.for_range(range, initial, |k, stride, values| body(k, stride, values))
}

/// 1.5 * 2^23: an f32 plus this has its nearest integer in the low bits, ties to even.
pub(crate) const MAGIC: f32 = 12_582_912.0;

/// The largest magnitude among values of lanes whose numbers differ in these bits, and 1e-30. As integers magnitudes
/// have the same order, and NaN is the largest.
pub(crate) fn largest(k: &mut Builder, values: &[Value], masks: &[u8]) -> Value {
    let mut largest = k.int(1e-30f32.to_bits());
    for value in values {
        largest = k.eval((value.as_int() & 0x7fff_ffff).max(largest));
    }
    for mask in masks {
        let other = k.lane_xor(largest, *mask);
        largest = k.max_u(largest, other);
    }
    k.bits(largest, Elem::Float)
}

/// Four elements as 8-bit terms.
struct Terms {
    /// Bytes of the high terms.
    highs: Value,
    /// Bytes of the low terms.
    lows: Value,
    /// Factor of the run.
    factor: Value,
    /// Sum of the run.
    sum: Value,
}

/// The terms of four elements of a run that four neighboring lanes share.
fn terms(k: &mut Builder, values: &[Value]) -> Terms {
    let masks = [1, 2];
    let largest = largest(k, values, &masks);
    let mut sum = values[0];
    for value in &values[1..] {
        sum = k.fadd(sum, *value);
    }
    for mask in masks {
        let other = k.lane_xor(sum, mask);
        sum = k.fadd(sum, other);
    }
    let factor = k.eval(largest * (1.0 / 127.0));
    let inverse = k.eval(largest.rcp() * 127.0);
    let magic = k.float(MAGIC);
    let (mut highs, mut lows) = (Vec::new(), Vec::new());
    for value in values {
        let high = k.fma(*value, inverse, magic);
        let rest = k.fma(*value, inverse, magic - high);
        let low = k.fma(rest, 254.0, magic);
        highs.push(k.bits(high, Elem::Int));
        lows.push(k.bits(low, Elem::Int));
    }
    Terms { highs: bytes(k, &highs), lows: bytes(k, &lows), factor, sum }
}

/// The low bytes of four dwords.
pub(crate) fn bytes(k: &mut Builder, dwords: &[Value]) -> Value {
    let (lower, upper) = (k.int(0x0c0c_0400), k.int(0x0400_0c0c));
    let first = k.alu(Alu::perm, &[dwords[1], dwords[0], lower]);
    let second = k.alu(Alu::perm, &[dwords[3], dwords[2], upper]);
    k.or(first, second)
}
