//! Expert choice from the router's products: one wave a row, in f32.
//!
//! Higher score first, the lower index on ties; NaN counts as the lowest score. Not here: the products (`project`).

use crate::builder_ext::{BuilderExt, LOG2_E};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value};

/// Smallest sum that chosen weights are divided by: the least normal f16.
const LEAST_SUM: f32 = 6.103_515_6e-5;
/// Below every score's key.
const TAKEN: u32 = 0x8000_0000;
/// The key of what is no number: below infinity's.
const NO_NUMBER: u32 = TAKEN + 1;

/// How products become probabilities, as part of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouterGating {
    /// Softmax over all.
    Softmax,
    /// Sigmoid each.
    Sigmoid,
    /// Softmax over the chosen.
    Chosen,
}

/// A choice of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Routing {
    /// Experts.
    pub experts: u32,
    /// Chosen per row.
    pub top_k: u32,
    /// Products to probabilities.
    pub gate: RouterGating,
    /// Whether something is added for choosing.
    pub bias: bool,
    /// Whether weights are divided by their sum.
    pub renormalize: bool,
}

/// RoutingArguments beside the products.
pub(crate) struct RoutingArguments {
    bias: Option<Value>,
    ids: Value,
    weights: Value,
    scale: Value,
}

/// The experts of a lane.
struct LaneExperts {
    /// Products, then probabilities.
    values: Vec<Value>,
    /// Their numbers; those beyond the end are not real.
    numbers: Vec<Value>,
    real: Vec<Value>,
}

impl Routing {
    /// Unique name.
    pub(crate) fn name(self) -> String {
        let flags = [(self.bias, "_bias"), (self.renormalize, "_renormalize")];
        let flags: String = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
        format!("route_{}of{}_{:?}{flags}", self.top_k, self.experts, self.gate)
    }

    /// Declares the arguments beside the products.
    pub(crate) fn arguments(self, k: &mut Builder) -> RoutingArguments {
        RoutingArguments {
            bias: self.bias.then(|| k.buffer("selection_bias")),
            ids: k.buffer("ids"),
            weights: k.buffer("weights"),
            scale: k.scalar("scale", Elem::Float),
        }
    }

    /// The function.
    pub(crate) fn function(self) -> Function {
        let mut k = Builder::new(&self.name(), 32);
        let products = k.buffer("products");
        let arguments = self.arguments(&mut k);
        let row = k.workgroup_id(Axis::X);
        self.row(&mut k, products, &arguments, row);
        k.finish()
    }

    /// Chooses for one row, by one wave.
    pub(crate) fn row(self, k: &mut Builder, products: Value, arguments: &RoutingArguments, row: Value) {
        let mut own = self.load(k, products, row);
        self.probabilities(k, &mut own.values, &own.real);
        let mut keys = self.keys(k, arguments, &own);
        let (mut chosen, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..self.top_k {
            let (id, share) = best(k, &mut keys, &own.numbers, &own.values);
            chosen.push(id);
            shares.push(share);
        }
        if self.gate == RouterGating::Chosen {
            softmax(k, &mut shares);
        }
        if self.renormalize {
            let mut sum = shares[0];
            for share in &shares[1..] {
                sum = k.fadd(sum, *share);
            }
            let least = k.float(LEAST_SUM);
            let sum = k.fmax(sum, least);
            let inverse = k.rcp(sum);
            shares.iter_mut().for_each(|share| *share = k.fmul(*share, inverse));
        }
        let lane = k.lane();
        let id = k.by_lane(lane, &chosen);
        let share = k.by_lane(lane, &shares);
        let share = k.fmul(share, arguments.scale);
        let count = k.int(self.top_k);
        let used = k.lt_u(lane, count);
        k.when(used, |k| {
            let first = k.times(row, self.top_k);
            let place = k.add(first, lane);
            let place = k.left(place, 2);
            k.write(arguments.ids, place, id);
            k.write(arguments.weights, place, share);
        });
    }

    /// The lane's products of a row.
    fn load(self, k: &mut Builder, products: Value, row: Value) -> LaneExperts {
        let lane = k.lane();
        let limit = k.int(self.experts);
        let start = k.times(row, 4 * self.experts);
        let mut own = LaneExperts { values: Vec::new(), numbers: Vec::new(), real: Vec::new() };
        for first in (0..self.experts).step_by(32) {
            let number = k.plus(lane, first);
            let last = k.int(self.experts - 1);
            let inside = k.min_u(number, last);
            let place = k.left(inside, 2);
            let place = k.add(place, start);
            own.values.push(k.read(products, place));
            own.real.push(k.lt_u(number, limit));
            own.numbers.push(number);
        }
        own
    }

    /// Scores as integers.
    fn keys(self, k: &mut Builder, arguments: &RoutingArguments, own: &LaneExperts) -> Vec<Value> {
        let each = own.values.iter().zip(&own.numbers).zip(&own.real);
        each.map(|((value, number), real)| {
            let mut score = *value;
            if let Some(bias) = arguments.bias {
                let last = k.int(self.experts - 1);
                let place = k.min_u(*number, last);
                let place = k.left(place, 2);
                let bias = k.read(bias, place);
                score = k.fadd(score, bias);
            }
            let key = key(k, score);
            let taken = k.int(TAKEN);
            k.select(*real, key, taken)
        })
        .collect()
    }

    /// Products to probabilities, as far as that happens before the choice.
    fn probabilities(self, k: &mut Builder, values: &mut [Value], real: &[Value]) {
        match self.gate {
            RouterGating::Chosen => {}
            RouterGating::Sigmoid => values.iter_mut().for_each(|value| *value = k.sigmoid(*value, 1.0)),
            RouterGating::Softmax => {
                let lowest = k.float(f32::NEG_INFINITY);
                for (value, real) in values.iter_mut().zip(real) {
                    *value = k.select(*real, *value, lowest);
                }
                let mut largest = values[0];
                for value in &values[1..] {
                    largest = k.fmax(largest, *value);
                }
                let largest = k.reduce_wave(largest, Alu::fmax);
                let mut sum = k.float(0.0);
                for value in values.iter_mut() {
                    let below = k.fsub(*value, largest);
                    let power = k.scaled(below, LOG2_E);
                    *value = k.exp2(power);
                    sum = k.fadd(sum, *value);
                }
                let sum = k.reduce_wave(sum, Alu::fadd);
                let inverse = k.rcp(sum);
                values.iter_mut().for_each(|value| *value = k.fmul(*value, inverse));
            }
        }
    }
}

/// A signed integer that orders as the float does; both zeros are one, NaN is the lowest.
fn key(k: &mut Builder, score: Value) -> Value {
    let (zero, none) = (k.float(0.0), k.int(NO_NUMBER));
    let number = k.feq(score, score);
    let score = k.fadd(score, zero);
    let bits = k.bits(score, Elem::Int);
    let sign = k.int(31);
    let flip = k.sar(bits, sign);
    let flip = k.mask(flip, 0x7fff_ffff);
    let key = k.xor(bits, flip);
    k.select(number, key, none)
}

/// The number and value of the highest key, whose slot is then taken.
fn best(k: &mut Builder, keys: &mut [Value], numbers: &[Value], values: &[Value]) -> (Value, Value) {
    let mut top = keys[0];
    for key in &keys[1..] {
        top = k.max_i(top, *key);
    }
    let top = k.reduce_wave(top, Alu::max_i);
    let none = k.int(u32::MAX);
    let mut lowest = none;
    for (key, number) in keys.iter().zip(numbers) {
        let equal = k.eq(*key, top);
        let candidate = k.select(equal, *number, none);
        lowest = k.min_u(lowest, candidate);
    }
    let id = k.reduce_wave(lowest, Alu::min_u);
    let mut share = k.float(0.0);
    for ((key, number), value) in keys.iter_mut().zip(numbers).zip(values) {
        let own = k.eq(*number, id);
        share = k.select(own, *value, share);
        let taken = k.int(TAKEN);
        *key = k.select(own, taken, *key);
    }
    // All other lanes have zero.
    let share = k.reduce_wave(share, Alu::fadd);
    (id, share)
}

/// Softmax over values that all lanes have.
fn softmax(k: &mut Builder, values: &mut [Value]) {
    let mut largest = values[0];
    for value in &values[1..] {
        largest = k.fmax(largest, *value);
    }
    let mut sum = k.float(0.0);
    for value in values.iter_mut() {
        let below = k.fsub(*value, largest);
        let power = k.scaled(below, LOG2_E);
        *value = k.exp2(power);
        sum = k.fadd(sum, *value);
    }
    let inverse = k.rcp(sum);
    values.iter_mut().for_each(|value| *value = k.fmul(*value, inverse));
}
