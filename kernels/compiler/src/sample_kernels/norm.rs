//! Reductions over rows: one workgroup a row.

use super::vector::shl;
use crate::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};
use alloc::vec;
use doorbell_isa::Target;

/// Work items per row.
const GROUP: u32 = 256;

/// Combines a value over the workgroup: waves by lane exchange, then the waves' results through LDS. Every work item
/// gets the result.
fn reduce(k: &mut Builder, value: Value, combine: Alu, slots: u32) -> Value {
    let item = k.workitem_id();
    let wave = k.reduce_wave(value, combine);
    let five = k.int(5);
    let number = k.shr(item, five);
    let slot = shl(k, number, 2);
    let mut address = k.lds(slot);
    address.constant = slots.cast_signed();
    k.store(address, Width::Dwords(1), wave);
    k.barrier(false);
    let zero = k.int(0);
    let mut all = k.lds(zero);
    all.constant = slots.cast_signed();
    let low = k.load(all, Width::Dwords(4), Elem::Float);
    all.constant += 16;
    let high = k.load(all, Width::Dwords(4), Elem::Float);
    let mut result = k.extract(low, 0);
    for index in 1..8 {
        let part = k.extract(if index < 4 { low } else { high }, index % 4);
        result = k.alu(combine, &[result, part]);
    }
    result
}

/// Byte offset of the work item's first element in its row of `n` floats.
fn row_offset(k: &mut Builder, n: Value) -> (Value, Value) {
    let row = k.workgroup_id(Axis::X);
    let start = k.mul(row, n);
    let start = shl(k, start, 2);
    let item = k.workitem_id();
    let own = shl(k, item, 2);
    (start, own)
}

/// Sums `f` over the work item's elements: items `GROUP` apart, `n` a multiple of `GROUP`.
fn accumulate(
    k: &mut Builder,
    n: Value,
    initial: Value,
    mut f: impl FnMut(&mut Builder, Value, Value) -> Value,
) -> Value {
    let bytes = shl(k, n, 2);
    let (zero, step) = (k.int(0), k.int(4 * GROUP));
    k.for_range([zero, bytes, step], &[initial], |k, at, carried| vec![f(k, at, carried[0])])[0]
}

/// `out[row] = sum of x[row]`.
pub(super) fn reduce_sum(_target: Target) -> Function {
    let mut k = Builder::new("reduce_sum", GROUP);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let slots = k.local(32);
    let (start, own) = row_offset(&mut k, n);
    let first = k.add(start, own);
    let zero = k.float(0.0);
    let sum = accumulate(&mut k, n, zero, |k, at, sum| {
        let offset = k.add(at, first);
        let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
        k.fadd(sum, value)
    });
    let item = k.workitem_id();
    let none = k.int(0);
    let leader = k.eq(item, none);
    let total = reduce(&mut k, sum, Alu::fadd, slots);
    k.when(leader, |k| {
        let row = k.workgroup_id(Axis::X);
        let offset = shl(k, row, 2);
        k.store(k.global(out, offset), Width::Dwords(1), total);
    });
    k.finish()
}

/// `out[row] = softmax of x[row]` in base two after scaling, `n` a multiple of 256.
pub(super) fn softmax_row(_target: Target) -> Function {
    let mut k = Builder::new("softmax_row", GROUP);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let (maxima, sums) = (k.local(32), k.local(32));
    let (start, own) = row_offset(&mut k, n);
    let first = k.add(start, own);
    let lowest = k.float(f32::MIN);
    let largest = accumulate(&mut k, n, lowest, |k, at, largest| {
        let offset = k.add(at, first);
        let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
        k.fmax(largest, value)
    });
    let largest = reduce(&mut k, largest, Alu::fmax, maxima);
    let zero = k.float(0.0);
    let log2_e = k.float(core::f32::consts::LOG2_E);
    let sum = accumulate(&mut k, n, zero, |k, at, sum| {
        let offset = k.add(at, first);
        let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
        let below = k.fsub(value, largest);
        let scaled = k.fmul(below, log2_e);
        let power = k.exp2(scaled);
        k.store(k.global(out, offset), Width::Dwords(1), power);
        k.fadd(sum, power)
    });
    let sum = reduce(&mut k, sum, Alu::fadd, sums);
    let scale = k.rcp(sum);
    let none = k.int(0);
    let _ = accumulate(&mut k, n, none, |k, at, nothing| {
        let offset = k.add(at, first);
        let power = k.load(k.global(out, offset), Width::Dwords(1), Elem::Float);
        let result = k.fmul(power, scale);
        k.store(k.global(out, offset), Width::Dwords(1), result);
        nothing
    });
    k.finish()
}

/// `out[row] = x[row] * weight / sqrt(mean(x[row]^2) + eps)`.
pub(super) fn rms_norm(_target: Target) -> Function {
    let mut k = Builder::new("rms_norm", GROUP);
    let (x, weight, out) = (k.buffer("x"), k.buffer("weight"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let eps = k.scalar("eps", Elem::Float);
    let slots = k.local(32);
    let (start, own) = row_offset(&mut k, n);
    let first = k.add(start, own);
    let zero = k.float(0.0);
    let squares = accumulate(&mut k, n, zero, |k, at, sum| {
        let offset = k.add(at, first);
        let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
        k.fma(value, value, sum)
    });
    let total = reduce(&mut k, squares, Alu::fadd, slots);
    let count = k.cvt_f_u(n);
    let inverse = k.rcp(count);
    let mean = k.fma(total, inverse, eps);
    let scale = k.rsq(mean);
    let none = k.int(0);
    let _ = accumulate(&mut k, n, none, |k, at, nothing| {
        let offset = k.add(at, first);
        let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
        let column = k.add(at, own);
        let factor = k.load(k.global(weight, column), Width::Dwords(1), Elem::Float);
        let scaled = k.fmul(value, scale);
        let result = k.fmul(scaled, factor);
        k.store(k.global(out, offset), Width::Dwords(1), result);
        nothing
    });
    k.finish()
}
