//! Activations in LDS: rows of f32, normalized on the way, as they are or as two 8-bit terms.
//!
//! Runs of 16 elements become `x = d * (high + low / 254)` with the sum of the run beside `d`: near exact products by
//! integer dots (error of an element <= d / 508). Not here: the products (`product`).

use crate::builder_ext::{BuilderExt, at};
use crate::spec_error::SpecError;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};

/// Work items of kernels that use activations.
pub(crate) const WORKGROUP: u32 = 256;
/// Waves of such kernels.
pub(crate) const WAVES: u32 = WORKGROUP / 32;
/// Elements that a workgroup takes at once, four a work item; also those of one trip of a wave.
pub(crate) const STRIDE: u32 = 4 * WORKGROUP;
/// LDS that rows of activations may take before they are cut into pieces.
const ROOM: u32 = 40 * 1024;

/// Where activations are in LDS.
#[derive(Clone, Debug)]
pub(crate) struct Activations {
    /// Elements of a row.
    pub(crate) cols: u32,
    /// WeightRows.
    pub(crate) rows: u32,
    /// Elements of a row that are in LDS at a time, a multiple of [`STRIDE`].
    pub(crate) piece: u32,
    /// First byte of the 8-bit terms.
    coded: Option<u32>,
    /// First byte of the f32 elements.
    plain: Option<u32>,
    /// For reductions.
    slots: u32,
}

/// Whether one row lies in LDS as a whole.
pub(crate) fn whole(cols: u32, coded: bool, plain: bool) -> bool {
    cols.div_ceil(STRIDE) * stride_bytes(coded, plain) <= ROOM
}

/// LDS bytes of [`STRIDE`] elements.
fn stride_bytes(coded: bool, plain: bool) -> u32 {
    STRIDE * (if coded { 5 } else { 0 } + if plain { 8 } else { 0 }) / 2
}

/// Where rows come from.
pub(crate) struct ActivationSource {
    /// The buffer.
    pub(crate) base: Value,
    /// Byte offset of each row, uniform.
    pub(crate) rows: Vec<Value>,
    /// Norm weight and the factor of each row.
    pub(crate) norm: Option<(Value, Vec<Value>)>,
}

impl Activations {
    /// Reserves LDS for rows of `cols` elements.
    ///
    /// # Errors
    /// Elements that no kernel takes.
    pub(crate) fn new(
        k: &mut Builder,
        [cols, rows]: [u32; 2],
        coded: bool,
        plain: bool,
    ) -> Result<Self, SpecError> {
        if cols == 0 || !cols.is_multiple_of(8) {
            return Err(SpecError::Shape);
        }
        let strides = cols.div_ceil(STRIDE);
        let bytes = rows * stride_bytes(coded, plain);
        let pieces = strides.div_ceil((ROOM / bytes.max(1)).max(1));
        let piece = strides.div_ceil(pieces) * STRIDE;
        let slots = k.local(4 * WAVES * rows);
        let coded = coded.then(|| k.local(rows * piece / 2 * 5));
        let plain = plain.then(|| k.local(rows * piece * 4));
        Ok(Self { cols, rows, piece, coded, plain, slots })
    }

    /// Pieces of a row.
    pub(crate) fn pieces(&self) -> u32 {
        self.cols.div_ceil(STRIDE).div_ceil(self.piece / STRIDE)
    }

    /// Whether the last stride of a row is not full.
    pub(crate) fn ragged(&self) -> bool {
        !(self.pieces() * self.piece).is_multiple_of(self.cols) || !self.cols.is_multiple_of(STRIDE)
    }

    /// LDS byte of element 0 of a row: high terms; low terms and pairs of factor and sum follow.
    pub(crate) fn terms(&self, row: u32) -> [u32; 3] {
        let start = self.coded.unwrap_or(0) + row * (self.piece / 2 * 5);
        [start, start + self.piece, start + 2 * self.piece]
    }

    /// LDS byte of element 0 of an f32 row.
    pub(crate) fn floats(&self, row: u32) -> u32 {
        self.plain.unwrap_or(0) + row * 4 * self.piece
    }

    /// Four elements of a row per work item from element `first` on: zero beyond the row.
    fn four(&self, k: &mut Builder, base: Value, row: Value, first: Value) -> Vec<Value> {
        let bytes = k.left(first, 2);
        let bytes = if self.ragged() {
            let last = k.int(4 * (self.cols - 4));
            k.min_u(bytes, last)
        } else {
            bytes
        };
        let offset = k.add(row, bytes);
        let values = k.load(k.global(base, offset), Width::Dwords(4), Elem::Float);
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
        let own = k.left(item, 2);
        let mut factors = Vec::new();
        for (row, number) in rows.iter().zip(0..) {
            let zero = k.float(0.0);
            let sum = strides(k, self.cols.div_ceil(STRIDE), &[zero], |k, stride, sums| {
                let begin = k.times(stride, STRIDE);
                let first = k.add(begin, own);
                let values = self.four(k, base, *row, first);
                let mut sum = sums[0];
                for value in values {
                    sum = k.fma(value, value, sum);
                }
                if self.ragged() {
                    let cols = k.int(self.cols);
                    let inside = k.lt_u(first, cols);
                    sum = k.select(inside, sum, sums[0]);
                }
                alloc::vec![sum]
            })[0];
            let total = k.reduce_group(sum, Alu::fadd, self.slots + 4 * WAVES * number, WAVES);
            let share = k.float(1.0 / self.cols as f32);
            let mean = k.fma(total, share, eps);
            factors.push(k.rsq(mean));
        }
        factors
    }

    /// Writes a piece that starts at element `start` (uniform) of every row; a barrier has to follow.
    pub(crate) fn fill(&self, k: &mut Builder, source: &ActivationSource, start: Value) {
        let item = k.workitem_id();
        let own = k.left(item, 2);
        let _ = strides(k, self.piece / STRIDE, &[], |k, stride, _| {
            let begin = k.times(stride, STRIDE);
            let within = k.add(begin, own);
            let first = k.add(within, start);
            let zero = k.int(0);
            let weights = source.norm.as_ref().map(|(weight, _)| self.four(k, *weight, zero, first));
            for (row, number) in source.rows.iter().zip(0..) {
                let mut values = self.four(k, source.base, *row, first);
                if let (Some((_, factors)), Some(weights)) = (&source.norm, &weights) {
                    for (value, weight) in values.iter_mut().zip(weights) {
                        let scaled = k.fmul(*value, factors[number as usize]);
                        *value = k.fmul(scaled, *weight);
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
            let offset = k.left(within, 2);
            let packed = k.pack(values);
            k.store(at(k.lds(offset), self.floats(row)), Width::Dwords(4), packed);
        }
        if self.coded.is_some() {
            let [high, low, pairs] = self.terms(row);
            let [highs, lows, factor, sum] = terms(k, values);
            k.store(at(k.lds(within), high), Width::Dwords(1), highs);
            k.store(at(k.lds(within), low), Width::Dwords(1), lows);
            // Four lanes of a run write the same pair.
            let run = k.right(within, 4);
            let place = k.left(run, 3);
            let pair = k.pack(&[factor, sum]);
            k.store(at(k.lds(place), pairs), Width::Dwords(2), pair);
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
    let (start, end, step) = (k.int(0), k.int(count), k.int(1));
    k.for_range([start, end, step], initial, |k, stride, values| body(k, stride, values))
}

/// 1.5 * 2^23: an f32 plus this has its nearest integer in the low bits, ties to even.
pub(crate) const MAGIC: f32 = 12_582_912.0;

/// The largest magnitude among values of lanes whose numbers differ in these bits, and 1e-30. As integers magnitudes
/// have the same order, and what is no number is the largest.
pub(crate) fn largest(k: &mut Builder, values: &[Value], masks: &[u8]) -> Value {
    let mut largest = k.int(1e-30f32.to_bits());
    for value in values {
        let bits = k.bits(*value, Elem::Int);
        let magnitude = k.mask(bits, 0x7fff_ffff);
        largest = k.max_u(magnitude, largest);
    }
    for mask in masks {
        let other = k.lane_xor(largest, *mask);
        largest = k.max_u(largest, other);
    }
    k.bits(largest, Elem::Float)
}

/// Four elements of a run that four neighboring lanes share: bytes of both terms, factor, sum of the run.
fn terms(k: &mut Builder, values: &[Value]) -> [Value; 4] {
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
    let factor = k.scaled(largest, 1.0 / 127.0);
    let inverse = k.rcp(largest);
    let inverse = k.scaled(inverse, 127.0);
    let magic = k.float(MAGIC);
    let (mut highs, mut lows) = (Vec::new(), Vec::new());
    for value in values {
        let high = k.fma(*value, inverse, magic);
        let negative = k.fsub(magic, high);
        let rest = k.fma(*value, inverse, negative);
        let fine = k.float(254.0);
        let low = k.fma(rest, fine, magic);
        highs.push(k.bits(high, Elem::Int));
        lows.push(k.bits(low, Elem::Int));
    }
    [bytes(k, &highs), bytes(k, &lows), factor, sum]
}

/// The low bytes of four dwords.
pub(crate) fn bytes(k: &mut Builder, dwords: &[Value]) -> Value {
    let (lower, upper) = (k.int(0x0c0c_0400), k.int(0x0400_0c0c));
    let first = k.alu(Alu::perm, &[dwords[1], dwords[0], lower]);
    let second = k.alu(Alu::perm, &[dwords[3], dwords[2], upper]);
    k.or(first, second)
}
