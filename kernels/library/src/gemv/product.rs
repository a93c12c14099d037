//! Products of weight rows with activations in LDS, by one wave: several rows of weights at a time, each against all
//! rows of activations.
//!
//! A wave takes 1,024 elements a trip. The order of a sum depends on the row's length and type only, so that results
//! are the same whatever the batch. Not here: where rows and activations come from.

use crate::builder_ext::{BuilderExt, at};
use crate::formats::lane_format::{LaneFormat, Run, Spread, is_coded};
use crate::gemv::activations::{Activations, STRIDE};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// WeightRows of one matrix.
#[derive(Clone, Debug)]
pub(crate) struct WeightRows {
    /// Type of the weights.
    pub(crate) ty: Type,
    /// Their buffer.
    pub(crate) base: Value,
    /// Byte offset of each row, uniform.
    pub(crate) offsets: Vec<Value>,
}

/// Elements of plain floats that a lane takes at once.
const PLAIN: u32 = 8;

/// Adds the products of a piece of activations that starts at element `start` (uniform) to `sums`: by matrix, row of
/// weights, row of activations. All matrices are coded, or none. Sums are per lane until [`finish`].
pub(crate) fn accumulate(
    k: &mut Builder,
    matrices: &[WeightRows],
    from: &Activations,
    start: Value,
    sums: &[Value],
) -> Vec<Value> {
    let lane = k.lane();
    let coded = matrices.first().is_some_and(|rows| is_coded(rows.ty) == Some(true));
    let formats: Vec<(LaneFormat, Value)> = matrices
        .iter()
        .filter(|_| coded)
        .map(|rows| {
            let format = LaneFormat::new(k, rows.ty, lane);
            let start = format.start(k, lane);
            (format, start)
        })
        .collect();
    let trips = from.piece / STRIDE;
    let body = |k: &mut Builder, trip: Value, sums: &[Value]| {
        let shift = STRIDE.trailing_zeros();
        let done = k.right(start, shift);
        let whole = k.add(done, trip);
        if coded {
            coded_trip(k, matrices, &formats, from, [trip, whole], sums)
        } else {
            plain_trip(k, matrices, from, [trip, whole], sums)
        }
    };
    if trips == 1 {
        let trip = k.int(0);
        return body(k, trip, sums);
    }
    let (first, end, step) = (k.int(0), k.int(trips), k.int(1));
    k.for_range([first, end, step], sums, |k, trip, sums| body(k, trip, sums))
}

/// Sums over the lanes; every lane has the results.
pub(crate) fn finish(k: &mut Builder, sums: &[Value]) -> Vec<Value> {
    sums.iter().map(|sum| k.reduce_wave(*sum, Alu::fadd)).collect()
}

/// Zeros for [`accumulate`].
pub(crate) fn zeros(k: &mut Builder, count: usize) -> Vec<Value> {
    (0..count).map(|_| k.float(0.0)).collect()
}

/// One row of activations at a lane's runs.
struct ActivationTerms {
    high: Vec<Value>,
    low: Vec<Value>,
    factor: Value,
    sum: Value,
}

/// The terms of one run of a row of activations.
fn load_terms(k: &mut Builder, from: &Activations, row: u32, element: Value) -> ActivationTerms {
    let [high, low, pairs] = from.terms(row);
    let high = k.load(at(k.lds(element), high), Width::Dwords(4), Elem::Int);
    let low = k.load(at(k.lds(element), low), Width::Dwords(4), Elem::Int);
    let place = k.right(element, 1);
    let pair = k.load(at(k.lds(place), pairs), Width::Dwords(2), Elem::Float);
    ActivationTerms {
        high: k.elements(high, 4),
        low: k.elements(low, 4),
        factor: k.extract(pair, 0),
        sum: k.extract(pair, 1),
    }
}

/// `[trip, whole]`: number of the trip in the piece and in the row.
fn coded_trip(
    k: &mut Builder,
    matrices: &[WeightRows],
    formats: &[(LaneFormat, Value)],
    from: &Activations,
    [trip, whole]: [Value; 2],
    sums: &[Value],
) -> Vec<Value> {
    let mut units: Vec<(bool, [Run; 2], Spread)> = Vec::new();
    for (rows, (format, start)) in matrices.iter().zip(formats) {
        let moved = k.times(whole, format.advance);
        let mut block = k.add(*start, moved);
        if from.ragged() {
            let last = k.int(format.last(from.cols));
            block = k.min_u(block, last);
        }
        for offset in &rows.offsets {
            let offset = k.add(block, *offset);
            units.push((format.signed, format.unit(k, rows.base, offset), format.spread));
        }
    }
    let lane = k.lane();
    let begin = k.times(trip, STRIDE);
    let mut known: Vec<(Spread, Value)> = Vec::new();
    for (_, _, spread) in &units {
        if known.iter().all(|(other, _)| other != spread) {
            let own = spread.first(k, lane);
            known.push((*spread, k.add(own, begin)));
        }
    }
    let mut sums = sums.to_vec();
    for row in 0..from.rows {
        for (spread, first) in &known {
            for half in 0..2 {
                let element = k.plus(*first, half * spread.distance());
                let terms = load_terms(k, from, row, element);
                for (index, (signed, runs, own)) in units.iter().enumerate() {
                    if own == spread {
                        let sum = &mut sums[index * from.rows as usize + row as usize];
                        *sum = run_product(k, *signed, &runs[half as usize], &terms, *sum);
                    }
                }
            }
        }
    }
    sums
}

/// `sum + scale * d * (codes . high + codes . low / 254) + minimum * sum of the run`.
fn run_product(k: &mut Builder, signed: bool, run: &Run, terms: &ActivationTerms, sum: Value) -> Value {
    let mut parts = [k.int(0), k.int(0)];
    for (part, values) in parts.iter_mut().zip([&terms.high, &terms.low]) {
        for (codes, value) in run.codes.iter().zip(values) {
            *part = k.dot4(signed, true, [*codes, *value, *part]);
        }
    }
    let [high, low] = parts.map(|part| k.cvt_f_i(part));
    let fine = k.float(1.0 / 254.0);
    let product = k.fma(low, fine, high);
    let scale = k.fmul(run.scale, terms.factor);
    let sum = k.fma(product, scale, sum);
    match run.minimum {
        Some(minimum) => k.fma(minimum, terms.sum, sum),
        None => sum,
    }
}

fn plain_trip(
    k: &mut Builder,
    matrices: &[WeightRows],
    from: &Activations,
    [trip, whole]: [Value; 2],
    sums: &[Value],
) -> Vec<Value> {
    let lane = k.lane();
    let own = k.left(lane, PLAIN.trailing_zeros());
    let mut sums = sums.to_vec();
    let wave = 32 * PLAIN;
    let parts = if from.cols < STRIDE { from.cols.div_ceil(wave) } else { STRIDE / wave };
    for part in 0..parts {
        let begin = k.times(whole, STRIDE);
        let begin = k.plus(begin, part * wave);
        let mut element = k.add(begin, own);
        if from.ragged() {
            let last = k.int(from.cols - PLAIN);
            element = k.min_u(element, last);
        }
        let mut weights = Vec::new();
        for rows in matrices {
            let bytes = k.left(element, if rows.ty == Type::F32 { 2 } else { 1 });
            for offset in &rows.offsets {
                let offset = k.add(bytes, *offset);
                weights.push(plain(k, rows.ty, rows.base, offset));
            }
        }
        let local = k.times(trip, STRIDE);
        let local = k.plus(local, part * wave);
        let local = k.add(local, own);
        let place = k.left(local, 2);
        for row in 0..from.rows {
            let address = at(k.lds(place), from.floats(row));
            let mut values = vec![];
            for half in [0, 16] {
                let four = k.load(at(address, half), Width::Dwords(4), Elem::Float);
                values.extend(k.elements(four, 4));
            }
            for (index, weights) in weights.iter().enumerate() {
                let sum = &mut sums[index * from.rows as usize + row as usize];
                for (weight, value) in weights.iter().zip(&values) {
                    *sum = k.fma(*weight, *value, *sum);
                }
            }
        }
    }
    sums
}

/// Eight consecutive weights of a plain type as f32.
pub(crate) fn plain(k: &mut Builder, ty: Type, base: Value, offset: Value) -> Vec<Value> {
    let address = k.global(base, offset);
    if ty == Type::F32 {
        let halves = [0, 16].map(|place| k.load(at(address, place), Width::Dwords(4), Elem::Float));
        return halves.into_iter().flat_map(|half| k.elements(half, 4)).collect();
    }
    let pairs = k.load(address, Width::Dwords(4), Elem::Int);
    let mut values = Vec::new();
    for pair in k.elements(pairs, 4) {
        if ty == Type::F16 {
            values.extend(k.halves(pair));
        } else {
            let low = k.left(pair, 16);
            let high = k.mask(pair, 0xffff_0000);
            values.extend([k.bits(low, Elem::Float), k.bits(high, Elem::Float)]);
        }
    }
    values
}
