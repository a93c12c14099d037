//! Products of weight rows with activations in LDS, by one wave: several rows of weights at a time, each against all
//! rows of activations.
//!
//! A wave takes 1,024 elements a trip. The order of a sum depends on the row's length and type only, so that results
//! are the same whatever the batch. Not here: the addresses of rows.

use crate::builder_ext::BuilderExt;
use crate::formats::floats;
use crate::formats::lane_format::LaneFormat;
use crate::formats::run::{Run, Spread};
use crate::formats::spec::FormatSpec;
use crate::gemv::activations::{Activations, STRIDE};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Value, Width, lds};
use doorbell_core::quant::Type;

/// Rows of one matrix.
#[derive(Clone, Debug)]
pub(crate) struct WeightRows {
    /// Type of the weights.
    pub(crate) ty: Type,
    /// Their buffer.
    pub(crate) base: Value,
    /// Byte offset of each row, uniform.
    pub(crate) offsets: Vec<Value>,
}

impl WeightRows {
    /// True if the weights are codes.
    pub(crate) fn is_coded(&self) -> bool {
        FormatSpec::of(self.ty).is_coded()
    }
}

/// Elements of plain floats that a lane takes at once.
const PLAIN: u32 = 8;

/// Number of a trip.
#[derive(Clone, Copy)]
struct Trip {
    /// Counted in the piece.
    in_piece: Value,
    /// Counted in the row.
    in_row: Value,
}

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
    let coded = matrices.first().is_some_and(WeightRows::is_coded);
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
    let body = |k: &mut Builder, in_piece: Value, sums: &[Value]| {
        let in_row = k.eval((start >> STRIDE.trailing_zeros()) + in_piece);
        let trip = Trip { in_piece, in_row };
        if coded {
            coded_trip(k, matrices, &formats, from, trip, sums)
        } else {
            plain_trip(k, matrices, from, trip, sums)
        }
    };
    if trips == 1 {
        let trip = k.int(0);
        return body(k, trip, sums);
    }
    let range = k.range(0, trips, 1);
    k.for_range(range, sums, |k, trip, sums| body(k, trip, sums))
}

/// Sums over the lanes; every lane has the results.
pub(crate) fn finish(k: &mut Builder, sums: &[Value]) -> Vec<Value> {
    sums.iter().map(|sum| k.reduce_wave(*sum, Alu::fadd)).collect()
}

/// Zeros for [`accumulate`].
pub(crate) fn zeros(k: &mut Builder, count: usize) -> Vec<Value> {
    (0..count).map(|_| k.float(0.0)).collect()
}

/// One row of activations at a lane's run.
struct RunTerms {
    high: Vec<Value>,
    low: Vec<Value>,
    factor: Value,
    sum: Value,
}

/// The terms of one run of a row of activations.
fn load_terms(k: &mut Builder, from: &Activations, row: u32, element: Value) -> RunTerms {
    let [high, low, pairs] = from.terms(row);
    let highs = k.load(lds(element).plus(high), Width::Dwords(4), Elem::Int);
    let lows = k.load(lds(element).plus(low), Width::Dwords(4), Elem::Int);
    let pair = k.load(lds(element >> 1).plus(pairs), Width::Dwords(2), Elem::Float);
    RunTerms {
        high: k.elements(highs, 4),
        low: k.elements(lows, 4),
        factor: k.extract(pair, 0),
        sum: k.extract(pair, 1),
    }
}

/// A lane's unit of weights.
struct Unit {
    signed: bool,
    runs: [Run; 2],
    spread: Spread,
}

fn coded_trip(
    k: &mut Builder,
    matrices: &[WeightRows],
    formats: &[(LaneFormat, Value)],
    from: &Activations,
    trip: Trip,
    sums: &[Value],
) -> Vec<Value> {
    let mut units: Vec<Unit> = Vec::new();
    for (rows, (format, start)) in matrices.iter().zip(formats) {
        let mut block = k.eval(*start + trip.in_row * format.advance);
        if from.ragged() {
            block = k.min_u(block, format.last(from.cols));
        }
        for row in &rows.offsets {
            let offset = k.add(block, *row);
            let runs = format.unit(k, rows.base, offset);
            units.push(Unit { signed: format.spec.is_signed(), runs, spread: format.spread });
        }
    }
    let lane = k.lane();
    let begin = k.eval(trip.in_piece * STRIDE);
    let mut firsts: Vec<(Spread, Value)> = Vec::new();
    for unit in &units {
        if firsts.iter().all(|(other, _)| *other != unit.spread) {
            let own = unit.spread.first(k, lane);
            firsts.push((unit.spread, k.add(own, begin)));
        }
    }
    let mut sums = sums.to_vec();
    for row in 0..from.rows {
        for (spread, first) in &firsts {
            for half in 0..2 {
                let element = k.eval(*first + half * spread.distance());
                let terms = load_terms(k, from, row, element);
                for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.spread == *spread) {
                    let sum = &mut sums[index * from.rows as usize + row as usize];
                    *sum = run_product(k, unit.signed, &unit.runs[half as usize], &terms, *sum);
                }
            }
        }
    }
    sums
}

/// `sum + scale * d * (codes . high + codes . low / 254) + minimum * sum of the run`.
fn run_product(k: &mut Builder, signed: bool, run: &Run, terms: &RunTerms, sum: Value) -> Value {
    let mut parts = [k.int(0), k.int(0)];
    for (part, values) in parts.iter_mut().zip([&terms.high, &terms.low]) {
        for (codes, value) in run.codes.iter().zip(values) {
            *part = k.dot4(signed, true, [*codes, *value, *part]);
        }
    }
    let [high, low] = parts.map(|part| k.cvt_f_i(part));
    let product = k.fma(low, 1.0 / 254.0, high);
    let scale = k.fmul(run.scale, terms.factor);
    let scaled = k.fma(product, scale, sum);
    match run.minimum {
        Some(minimum) => k.fma(minimum, terms.sum, scaled),
        None => scaled,
    }
}

fn plain_trip(
    k: &mut Builder,
    matrices: &[WeightRows],
    from: &Activations,
    trip: Trip,
    sums: &[Value],
) -> Vec<Value> {
    let lane = k.lane();
    let own = k.eval(lane << PLAIN.trailing_zeros());
    let mut sums = sums.to_vec();
    let wave = 32 * PLAIN;
    let parts = if from.cols < STRIDE { from.cols.div_ceil(wave) } else { STRIDE / wave };
    for part in 0..parts {
        let mut element = k.eval(trip.in_row * STRIDE + part * wave + own);
        if from.ragged() {
            element = k.min_u(element, from.cols - PLAIN);
        }
        let mut weights = Vec::new();
        for rows in matrices {
            let bytes = k.eval(element << floats::byte_shift(rows.ty));
            for row in &rows.offsets {
                let offset = k.add(bytes, *row);
                weights.push(floats::eight(k, rows.ty, rows.base, offset));
            }
        }
        let offset = k.eval((trip.in_piece * STRIDE + part * wave + own) << 2);
        for row in 0..from.rows {
            let mut values = vec![];
            for half in [0, 16] {
                let four = k.load(lds(offset).plus(from.floats(row) + half), Width::Dwords(4), Elem::Float);
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
