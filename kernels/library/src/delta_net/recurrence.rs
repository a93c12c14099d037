//! The recurrence of a chunk's tokens on the state in registers.
//!
//! With `k` and `q` as the convolution leaves them, `K` and `Q` the factors that make them unit vectors (the query's with
//! the factor on queries): `u = beta (v - g K S'k) K`, `y = Q (g S'q + (q'k) u)`, `S = g S + k u'`. Both sums over the
//! rows of the state are those of the old state, so they go side by side.

use super::context::DeltaContext;
use super::spec::{COLUMNS, FACTORS};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Builder, Elem, Value, Width, lds};

/// The factors of a token.
struct Factors {
    /// On the state.
    decay: Value,
    /// On changes.
    beta: Value,
    /// On keys.
    key: Value,
    /// On queries.
    query: Value,
    /// The product of query and key.
    both: Value,
}

impl Factors {
    fn read(k: &mut Builder, context: &DeltaContext, token: Value) -> Self {
        let start = k.eval(token * (4 * FACTORS));
        let start = lds(start).plus(context.lds.factors);
        let four = k.load(start.clone(), Width::Dwords(4), Elem::Float);
        let both = k.load(start.plus(16), Width::Dwords(1), Elem::Float);
        let [decay, beta, key, query] = [0, 1, 2, 3].map(|index| k.extract(four, index));
        Self { decay, beta, key, query, both }
    }
}

impl DeltaContext {
    /// The lane's elements of a token's query or key, which begins at float `first` of the head's channels.
    fn lane_vector(&self, k: &mut Builder, token: Value, first: u32) -> Vec<Value> {
        let (neighbors, lanes) = (self.spec.neighbors(), self.spec.key_lanes());
        let start = k.eval(token * (4 * self.spec.channels()) + self.key_lane * (4 * neighbors));
        let mut values = Vec::new();
        for group in 0..self.spec.rows() / neighbors {
            let ahead = self.lds.mixed + 4 * (first + group * neighbors * lanes);
            let loaded = k.load(lds(start).plus(ahead), Width::Dwords(neighbors as u8), Elem::Float);
            if neighbors == 1 {
                values.push(loaded)
            } else {
                values.extend(k.elements(loaded, neighbors as u8))
            }
        }
        values
    }

    /// Takes a token into the state; the state after it.
    pub(crate) fn token(&self, k: &mut Builder, token: Value, state: &[Value]) -> Vec<Value> {
        let (key_dim, columns) = (self.spec.shape.key_dim, COLUMNS as usize);
        let queries = self.lane_vector(k, token, 0);
        let keys = self.lane_vector(k, token, key_dim);
        let start = k.eval(token * (4 * self.spec.channels()) + (self.column << 2));
        let ahead = self.lds.mixed + 8 * key_dim;
        let four = k.load(lds(start).plus(ahead), Width::Dwords(COLUMNS as u8), Elem::Float);
        let values = k.elements(four, COLUMNS as u8);
        let factors = Factors::read(k, self, token);
        let mut sums = alloc::vec![k.float(0.0); 2 * columns];
        for ((row, key), query) in state.chunks(columns).zip(&keys).zip(&queries) {
            for (cell, column) in row.iter().zip(0..) {
                sums[column] = k.fma(*cell, *key, sums[column]);
                sums[columns + column] = k.fma(*cell, *query, sums[columns + column]);
            }
        }
        let masks = core::iter::successors(Some(self.spec.row_lanes()), |mask| Some(2 * mask));
        for mask in masks.take_while(|mask| *mask < 32) {
            for sum in &mut sums {
                let other = k.lane_xor(*sum, mask as u8);
                *sum = k.fadd(*sum, other);
            }
        }
        let share = k.fmul(factors.decay, factors.key);
        let scale = k.fmul(factors.beta, factors.key);
        let changes: Vec<Value> =
            values.iter().zip(&sums).map(|(value, sum)| k.eval((*value - share * *sum) * scale)).collect();
        let results: Vec<Value> = changes
            .iter()
            .zip(&sums[columns..])
            .map(|(change, sum)| {
                let kept = k.fmul(factors.decay, *sum);
                let result = k.fma(factors.both, *change, kept);
                k.fmul(result, factors.query)
            })
            .collect();
        self.put(k, token, &results);
        let mut next = Vec::new();
        for (row, key) in state.chunks(columns).zip(&keys) {
            for (cell, change) in row.iter().zip(&changes) {
                let kept = k.fmul(*cell, factors.decay);
                next.push(k.fma(*key, *change, kept));
            }
        }
        next
    }

    /// Writes a token's results to LDS.
    fn put(&self, k: &mut Builder, token: Value, results: &[Value]) {
        k.when(self.key_lane.eq(0), |k| {
            let offset = k.eval(token * (4 * self.spec.shape.value_dim) + (self.column << 2));
            let packed = k.pack(results);
            k.store(lds(offset).plus(self.lds.out), Width::Dwords(COLUMNS as u8), packed);
        });
    }
}
