//! Operations that kernels need often, on top of the builder: lanes and waves, 32-bit loads and stores, reductions,
//! activation functions.

use alloc::vec::Vec;
use doorbell_compiler::ir::{Alu, Builder, Elem, Expr, Fragment, Value, Width, global, lds};

/// `log2(e)`.
pub(crate) const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// Frequent operations.
pub(crate) trait BuilderExt {
    /// Number of the lane in its wave.
    fn lane(&mut self) -> Value;
    /// Number of the wave in its workgroup, uniform.
    fn wave(&mut self) -> Value;
    /// An f32 per lane.
    fn read(&mut self, base: Value, offset: impl Into<Expr>) -> Value;
    /// A u32 per lane.
    fn read_int(&mut self, base: Value, offset: impl Into<Expr>) -> Value;
    /// A u32 that is the same for all lanes but may have been written by a kernel.
    fn read_same(&mut self, base: Value, offset: impl Into<Expr>) -> Value;
    /// A u32 that is the same for all lanes and that no kernel of this dispatch writes.
    fn read_uniform(&mut self, base: Value, offset: impl Into<Expr>) -> Value;
    /// Writes one dword per lane.
    fn write(&mut self, base: Value, offset: impl Into<Expr>, value: impl Into<Expr>);
    /// The elements of a value.
    fn elements(&mut self, value: Value, count: u8) -> Vec<Value>;
    /// Combines a value of each of `waves` waves; every work item gets the result. `slots` is LDS of 4 bytes per
    /// wave, 16-byte aligned, that nothing else touches.
    fn reduce_workgroup(&mut self, value: Value, combine: Alu, slots: u32, waves: u32) -> Value;
    /// `1 / (1 + exp(-x * slope))`.
    fn sigmoid(&mut self, x: impl Into<Expr>, slope: f32) -> Value;
    /// `tanh(x)`, to about 1e-7 absolute.
    fn tanh(&mut self, x: impl Into<Expr>) -> Value;
    /// `cap * tanh(x / cap)`.
    fn soft_cap(&mut self, x: Value, cap: f32) -> Value;
    /// Value `i` in lane `i`.
    fn by_lane(&mut self, lane: Value, values: &[Value]) -> Value;
    /// Both halves of a dword as f32.
    fn halves(&mut self, dword: Value) -> [Value; 2];
    /// Two floats rounded to a pair of f16, as an integer.
    fn half_bits(&mut self, low: impl Into<Expr>, high: impl Into<Expr>) -> Value;
}

/// A row's sixteen elements of f16 in LDS; on gfx12 the half's eight.
pub(crate) fn fragment(k: &mut Builder, start: Value, constant: u32, gfx12: bool) -> Value {
    let pieces: &[u32] = if gfx12 { &[0] } else { &[0, 16] };
    let parts: Vec<Value> = pieces
        .iter()
        .map(|piece| k.load(lds(start).plus(constant + piece), Width::Dwords(4), Elem::Int))
        .collect();
    k.fragment(&parts, Fragment::Half)
}

impl BuilderExt for Builder {
    fn lane(&mut self) -> Value {
        let item = self.workitem_id();
        self.eval(item & 31)
    }

    fn wave(&mut self) -> Value {
        let item = self.workitem_id();
        self.first_lane(item >> 5)
    }

    fn read(&mut self, base: Value, offset: impl Into<Expr>) -> Value {
        self.load(global(base, offset), Width::Dwords(1), Elem::Float)
    }

    fn read_int(&mut self, base: Value, offset: impl Into<Expr>) -> Value {
        self.load(global(base, offset), Width::Dwords(1), Elem::Int)
    }

    fn read_same(&mut self, base: Value, offset: impl Into<Expr>) -> Value {
        let value = self.read_int(base, offset);
        self.first_lane(value)
    }

    fn read_uniform(&mut self, base: Value, offset: impl Into<Expr>) -> Value {
        self.load_uniform(global(base, offset), Width::Dwords(1), Elem::Int)
    }

    fn write(&mut self, base: Value, offset: impl Into<Expr>, value: impl Into<Expr>) {
        self.store(global(base, offset), Width::Dwords(1), value);
    }

    fn elements(&mut self, value: Value, count: u8) -> Vec<Value> {
        (0..count).map(|index| self.extract(value, index)).collect()
    }

    fn reduce_workgroup(&mut self, value: Value, combine: Alu, slots: u32, waves: u32) -> Value {
        let own = self.reduce_wave(value, combine);
        if waves == 1 {
            return own;
        }
        let item = self.workitem_id();
        self.store(lds((item >> 5) << 2).plus(slots), Width::Dwords(1), own);
        self.barrier(false);
        let zero = self.int(0);
        let mut result = None;
        for first in (0..waves).step_by(4) {
            let count = (waves - first).min(4) as u8;
            let parts = self.load(lds(zero).plus(slots + 4 * first), Width::Dwords(count), Elem::Float);
            for part in self.elements(parts, count) {
                result = Some(result.map_or(part, |sum| self.alu(combine, &[sum, part])));
            }
        }
        result.unwrap_or(own)
    }

    fn sigmoid(&mut self, x: impl Into<Expr>, slope: f32) -> Value {
        self.rcp((x.into() * (-slope * LOG2_E)).exp2() + 1.0)
    }

    fn tanh(&mut self, x: impl Into<Expr>) -> Value {
        // 1 - 2 / (exp(2 x) + 1): right at both infinities.
        let half = self.sigmoid(x, -2.0);
        self.fma(half, -2.0, 1.0)
    }

    fn soft_cap(&mut self, x: Value, cap: f32) -> Value {
        let bounded = self.tanh(x * (1.0 / cap));
        self.eval(bounded * cap)
    }

    fn by_lane(&mut self, lane: Value, values: &[Value]) -> Value {
        let mut chosen = values[0];
        for (value, index) in values.iter().zip(0u32..).skip(1) {
            chosen = self.select(lane.eq(index), *value, chosen);
        }
        chosen
    }

    fn halves(&mut self, dword: Value) -> [Value; 2] {
        let low = self.bits(dword, Elem::HalfPair);
        let high = self.bits(dword >> 16, Elem::HalfPair);
        [self.cvt_f_h(low), self.cvt_f_h(high)]
    }

    fn half_bits(&mut self, low: impl Into<Expr>, high: impl Into<Expr>) -> Value {
        let pair = self.half_pair(low, high);
        self.bits(pair, Elem::Int)
    }
}
