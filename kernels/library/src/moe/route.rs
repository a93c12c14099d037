//! Expert choice from the router's products: one wave a row, in f32.
//!
//! Higher score first, the lower index on ties; NaN counts as the lowest score. Not here: the products (`gemv`).

use crate::builder_ext::{BuilderExt, LOG2_E};
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::Target;

/// Smallest sum by which chosen weights are divided: the least normal f16.
const LEAST_SUM: f32 = 6.103_515_6e-5;
/// Below every score's key.
const TAKEN: u32 = 0x8000_0000;
/// The key of NaN: below that of minus infinity.
const NAN_KEY: u32 = TAKEN + 1;

/// The step from products to probabilities, as part of a spec.
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
    /// True if a bias is added for the choice.
    pub bias: bool,
    /// True if weights are divided by their sum.
    pub renormalize: bool,
}

/// Arguments beside the products.
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

impl Kernel for Routing {
    fn name(&self) -> String {
        Self::name(*self)
    }

    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), 32);
        let products = k.buffer("products");
        let arguments = self.arguments(&mut k);
        let row = k.workgroup_id(Axis::X);
        self.row(&mut k, products, &arguments, row);
        Ok(k.finish())
    }
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
            let inverse = k.rcp(sum.max(LEAST_SUM));
            shares.iter_mut().for_each(|share| *share = k.fmul(*share, inverse));
        }
        let lane = k.lane();
        let id = k.by_lane(lane, &chosen);
        let share = k.by_lane(lane, &shares);
        let weight = k.fmul(share, arguments.scale);
        k.when(lane.lt(self.top_k), |k| {
            let offset = k.eval((row * self.top_k + lane) << 2);
            k.write(arguments.ids, offset, id);
            k.write(arguments.weights, offset, weight);
        });
    }

    /// The lane's products of a row.
    fn load(self, k: &mut Builder, products: Value, row: Value) -> LaneExperts {
        let lane = k.lane();
        let limit = k.int(self.experts);
        let start = k.eval(row * (4 * self.experts));
        let mut own = LaneExperts { values: Vec::new(), numbers: Vec::new(), real: Vec::new() };
        for first in (0..self.experts).step_by(32) {
            let number = k.eval(lane + first);
            own.values.push(k.read(products, (number.min(self.experts - 1) << 2) + start));
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
                let addend = k.read(bias, (*number).min(self.experts - 1) << 2);
                score = k.fadd(score, addend);
            }
            let key = key(k, score);
            k.select(*real, key, TAKEN)
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
                let own_largest = largest_of(k, values);
                let largest = k.reduce_wave(own_largest, Alu::fmax);
                let own_sum = powers(k, values, largest);
                let sum = k.reduce_wave(own_sum, Alu::fadd);
                let inverse = k.rcp(sum);
                values.iter_mut().for_each(|value| *value = k.fmul(*value, inverse));
            }
        }
    }
}

/// A signed integer that orders as the float does; both zeros are one, NaN is the lowest.
fn key(k: &mut Builder, score: Value) -> Value {
    let (zero, none) = (k.float(0.0), k.int(NAN_KEY));
    let number = k.feq(score, score);
    let bits = k.eval((score + zero).as_int());
    let sign = k.int(31);
    let flip = k.sar(bits, sign);
    let key = k.eval(bits ^ (flip & 0x7fff_ffff));
    k.select(number, key, none)
}

/// The number and value of the highest key, whose slot is then taken.
fn best(k: &mut Builder, keys: &mut [Value], numbers: &[Value], values: &[Value]) -> (Value, Value) {
    let mut own_top = keys[0];
    for key in &keys[1..] {
        own_top = k.max_i(own_top, *key);
    }
    let top = k.reduce_wave(own_top, Alu::max_i);
    let none = k.int(u32::MAX);
    let mut lowest = none;
    for (key, number) in keys.iter().zip(numbers) {
        let candidate = k.eval((*key).eq(top).select(number, none));
        lowest = k.min_u(lowest, candidate);
    }
    let id = k.reduce_wave(lowest, Alu::min_u);
    let mut share = k.float(0.0);
    for ((key, number), value) in keys.iter_mut().zip(numbers).zip(values) {
        let own = k.eq(*number, id);
        share = k.select(own, *value, share);
        *key = k.select(own, TAKEN, *key);
    }
    // All other lanes have zero.
    let total = k.reduce_wave(share, Alu::fadd);
    (id, total)
}

/// The largest of a lane's values.
fn largest_of(k: &mut Builder, values: &[Value]) -> Value {
    let mut largest = values[0];
    for value in &values[1..] {
        largest = k.fmax(largest, *value);
    }
    largest
}

/// Makes values powers of e, relative to the largest; their sum.
fn powers(k: &mut Builder, values: &mut [Value], largest: Value) -> Value {
    let mut sum = k.float(0.0);
    for value in values.iter_mut() {
        *value = k.exp2((*value - largest) * LOG2_E);
        sum = k.fadd(sum, *value);
    }
    sum
}

/// Softmax over values that all lanes have.
fn softmax(k: &mut Builder, values: &mut [Value]) {
    let largest = largest_of(k, values);
    let sum = powers(k, values, largest);
    let inverse = k.rcp(sum);
    values.iter_mut().for_each(|value| *value = k.fmul(*value, inverse));
}
