//! Idioms of kernels on top of the builder: constants, addresses, places of lanes, reductions, activations.

use doorbell_compiler::ir::{Address, Alu, Builder, Elem, Fragment, Value, Width};

/// `log2(e)`.
pub(crate) const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// What kernels say often.
pub(crate) trait BuilderExt {
    /// `value << bits`.
    fn left(&mut self, value: Value, bits: u32) -> Value;
    /// `value >> bits`.
    fn right(&mut self, value: Value, bits: u32) -> Value;
    /// `value & bits`.
    fn mask(&mut self, value: Value, bits: u32) -> Value;
    /// `value + number`.
    fn plus(&mut self, value: Value, number: u32) -> Value;
    /// `value * number`.
    fn times(&mut self, value: Value, number: u32) -> Value;
    /// `value * number` in f32.
    fn scaled(&mut self, value: Value, number: f32) -> Value;
    /// Number of the lane in its wave.
    fn lane(&mut self) -> Value;
    /// Number of the wave in its workgroup, uniform.
    fn wave(&mut self) -> Value;
    /// `value / by`, exact for values below 2^16; `by` is above 0 and below 2^16.
    fn over(&mut self, value: Value, by: u32) -> Value;
    /// An f32 per lane.
    fn read(&mut self, base: Value, offset: Value) -> Value;
    /// A u32 that is the same for all lanes but may have been written by a kernel.
    fn read_same(&mut self, base: Value, offset: Value) -> Value;
    /// Writes one dword per lane.
    fn write(&mut self, base: Value, offset: Value, value: Value);
    /// The elements of a value.
    fn elements(&mut self, value: Value, count: u8) -> alloc::vec::Vec<Value>;
    /// Combines a value of each of `waves` waves; every work item gets the result. `slots` is LDS of 4 bytes per
    /// wave, 16-byte aligned, that nothing else touches.
    fn reduce_group(&mut self, value: Value, combine: Alu, slots: u32, waves: u32) -> Value;
    /// `1 / (1 + exp(-x * slope))`.
    fn sigmoid(&mut self, x: Value, slope: f32) -> Value;
    /// `tanh(x)`, to about 1e-7 absolute.
    fn tanh(&mut self, x: Value) -> Value;
    /// `cap * tanh(x / cap)`.
    fn soft_cap(&mut self, x: Value, cap: f32) -> Value;
    /// Value `i` in lane `i`.
    fn by_lane(&mut self, lane: Value, values: &[Value]) -> Value;
    /// Both halves of a dword as f32.
    fn halves(&mut self, dword: Value) -> [Value; 2];
}

/// An address moved by a constant.
pub(crate) fn at(address: Address, constant: u32) -> Address {
    Address { constant: address.constant.saturating_add_unsigned(constant), ..address }
}

/// A row's sixteen elements of f16 in LDS; on gfx12 the half's eight.
pub(crate) fn fragment(k: &mut Builder, start: Value, constant: u32, gfx12: bool) -> Value {
    let pieces: &[u32] = if gfx12 { &[0] } else { &[0, 16] };
    let parts: alloc::vec::Vec<Value> = pieces
        .iter()
        .map(|piece| k.load(at(k.lds(start), constant + piece), Width::Dwords(4), Elem::Int))
        .collect();
    k.fragment(&parts, Fragment::Half)
}

impl BuilderExt for Builder {
    fn left(&mut self, value: Value, bits: u32) -> Value {
        if bits == 0 {
            return value;
        }
        let bits = self.int(bits);
        self.shl(value, bits)
    }

    fn right(&mut self, value: Value, bits: u32) -> Value {
        if bits == 0 {
            return value;
        }
        let bits = self.int(bits);
        self.shr(value, bits)
    }

    fn mask(&mut self, value: Value, bits: u32) -> Value {
        let bits = self.int(bits);
        self.and(value, bits)
    }

    fn plus(&mut self, value: Value, number: u32) -> Value {
        if number == 0 {
            return value;
        }
        let number = self.int(number);
        self.add(value, number)
    }

    fn times(&mut self, value: Value, number: u32) -> Value {
        if number.is_power_of_two() {
            return self.left(value, number.trailing_zeros());
        }
        let number = self.int(number);
        self.mul(value, number)
    }

    fn scaled(&mut self, value: Value, number: f32) -> Value {
        let number = self.float(number);
        self.fmul(value, number)
    }

    fn lane(&mut self) -> Value {
        let item = self.workitem_id();
        self.mask(item, 31)
    }

    fn wave(&mut self) -> Value {
        let item = self.workitem_id();
        let wave = self.right(item, 5);
        self.first_lane(wave)
    }

    fn over(&mut self, value: Value, by: u32) -> Value {
        if by.is_power_of_two() {
            return self.right(value, by.trailing_zeros());
        }
        let inverse = self.int(u32::MAX / by + 1);
        self.mul_hi(value, inverse)
    }

    fn read(&mut self, base: Value, offset: Value) -> Value {
        self.load(self.global(base, offset), Width::Dwords(1), Elem::Float)
    }

    fn read_same(&mut self, base: Value, offset: Value) -> Value {
        let value = self.load(self.global(base, offset), Width::Dwords(1), Elem::Int);
        self.first_lane(value)
    }

    fn write(&mut self, base: Value, offset: Value, value: Value) {
        self.store(self.global(base, offset), Width::Dwords(1), value);
    }

    fn elements(&mut self, value: Value, count: u8) -> alloc::vec::Vec<Value> {
        (0..count).map(|index| self.extract(value, index)).collect()
    }

    fn reduce_group(&mut self, value: Value, combine: Alu, slots: u32, waves: u32) -> Value {
        let own = self.reduce_wave(value, combine);
        if waves == 1 {
            return own;
        }
        let item = self.workitem_id();
        let wave = self.right(item, 5);
        let slot = self.left(wave, 2);
        self.store(at(self.lds(slot), slots), Width::Dwords(1), own);
        self.barrier(false);
        let zero = self.int(0);
        let mut result = None;
        for first in (0..waves).step_by(4) {
            let count = (waves - first).min(4) as u8;
            let address = at(self.lds(zero), slots + 4 * first);
            let parts = self.load(address, Width::Dwords(count), Elem::Float);
            for part in self.elements(parts, count) {
                result = Some(result.map_or(part, |sum| self.alu(combine, &[sum, part])));
            }
        }
        result.unwrap_or(own)
    }

    fn sigmoid(&mut self, x: Value, slope: f32) -> Value {
        let power = self.scaled(x, -slope * LOG2_E);
        let power = self.exp2(power);
        let one = self.float(1.0);
        let sum = self.fadd(power, one);
        self.rcp(sum)
    }

    fn tanh(&mut self, x: Value) -> Value {
        // 1 - 2 / (exp(2 x) + 1): right at both infinities.
        let half = self.sigmoid(x, -2.0);
        let two = self.float(-2.0);
        let one = self.float(1.0);
        self.fma(half, two, one)
    }

    fn soft_cap(&mut self, x: Value, cap: f32) -> Value {
        let ratio = self.scaled(x, 1.0 / cap);
        let bent = self.tanh(ratio);
        self.scaled(bent, cap)
    }

    fn by_lane(&mut self, lane: Value, values: &[Value]) -> Value {
        let mut chosen = values[0];
        for (value, index) in values.iter().zip(0..).skip(1) {
            let index = self.int(index);
            let own = self.eq(lane, index);
            chosen = self.select(own, *value, chosen);
        }
        chosen
    }

    fn halves(&mut self, dword: Value) -> [Value; 2] {
        let low = self.bits(dword, Elem::HalfPair);
        let high = self.right(dword, 16);
        let high = self.bits(high, Elem::HalfPair);
        [self.cvt_f_h(low), self.cvt_f_h(high)]
    }
}
