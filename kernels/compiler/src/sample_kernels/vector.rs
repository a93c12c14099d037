//! Element-wise kernels, atomics, loads of every width.

use crate::ir::{AtomicOp, Axis, Builder, Elem, Function, Scope, Value, Width};
use alloc::vec;
use doorbell_isa::Target;

/// Number of the work item in the grid, for workgroups of `1 << shift`.
pub(super) fn global_id(k: &mut Builder, shift: u32) -> Value {
    let group = k.workgroup_id(Axis::X);
    let item = k.workitem_id();
    let shift = k.int(shift);
    let base = k.shl(group, shift);
    k.add(base, item)
}

/// `value << bits`.
pub(super) fn shl(k: &mut Builder, value: Value, bits: u32) -> Value {
    let bits = k.int(bits);
    k.shl(value, bits)
}

/// `out[i] = a[i] + b[i]` for `i < n`.
pub(super) fn add(_target: Target) -> Function {
    let mut k = Builder::new("vector_add", 256);
    let (a, b, out) = (k.buffer("a"), k.buffer("b"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let i = global_id(&mut k, 8);
    let inside = k.lt_u(i, n);
    k.when(inside, |k| {
        let offset = shl(k, i, 2);
        let x = k.load(k.global(a, offset), Width::Dwords(1), Elem::Float);
        let y = k.load(k.global(b, offset), Width::Dwords(1), Elem::Float);
        let sum = k.fadd(x, y);
        k.store(k.global(out, offset), Width::Dwords(1), sum);
    });
    k.finish()
}

/// `y[i] += a * x[i]`, four elements a lane.
pub(super) fn axpy4(_target: Target) -> Function {
    let mut k = Builder::new("axpy4", 256);
    let (x, y) = (k.buffer("x"), k.buffer("y"));
    let a = k.scalar("a", Elem::Float);
    let i = global_id(&mut k, 8);
    let offset = shl(&mut k, i, 4);
    let xs = k.load(k.global(x, offset), Width::Dwords(4), Elem::Float);
    let ys = k.load(k.global(y, offset), Width::Dwords(4), Elem::Float);
    let mut sums = vec![];
    for index in 0..4 {
        let (x, y) = (k.extract(xs, index), k.extract(ys, index));
        sums.push(k.fma(x, a, y));
    }
    let sums = k.pack(&sums);
    k.store(k.global(y, offset), Width::Dwords(4), sums);
    k.finish()
}

/// `x[i] = x[i] > 0 ? x[i] : slope * x[i]`, by branches.
pub(super) fn clamp_positive(_target: Target) -> Function {
    let mut k = Builder::new("clamp_positive", 64);
    let x = k.buffer("x");
    let slope = k.scalar("slope", Elem::Float);
    let i = global_id(&mut k, 6);
    let offset = shl(&mut k, i, 2);
    let value = k.load(k.global(x, offset), Width::Dwords(1), Elem::Float);
    let zero = k.float(0.0);
    let positive = k.fgt(value, zero);
    let result = k.choose(positive, |_| vec![value], |k| vec![k.fmul(value, slope)]);
    k.store(k.global(x, offset), Width::Dwords(1), result[0]);
    k.finish()
}

/// `counts[bin[i]] += 1`, through counters in LDS.
pub(super) fn histogram(_target: Target) -> Function {
    let mut k = Builder::new("histogram", 256);
    let (bins, counts) = (k.buffer("bins"), k.buffer("counts"));
    let table = k.local(256 * 4);
    let item = k.workitem_id();
    let own = shl(&mut k, item, 2);
    let mut slot = k.lds(own);
    slot.constant = table.cast_signed();
    let zero = k.int(0);
    k.store(slot, Width::Dwords(1), zero);
    k.barrier(false);
    let i = global_id(&mut k, 8);
    let bin = k.load(k.global(bins, i), Width::U8, Elem::Int);
    let address = shl(&mut k, bin, 2);
    let mut counter = k.lds(address);
    counter.constant = table.cast_signed();
    let one = k.int(1);
    k.atomic(AtomicOp::AddInt, Scope::Workgroup, counter, one);
    k.barrier(false);
    let count = k.load(slot, Width::Dwords(1), Elem::Int);
    k.atomic(AtomicOp::AddInt, Scope::Device, k.global(counts, own), count);
    k.finish()
}

/// Bytes and 16-bit numbers: `out[i] = in[i] + (first[i] << 4)`, with a uniform branch.
pub(super) fn byte_shift(_target: Target) -> Function {
    let mut k = Builder::new("byte_shift", 32);
    let (bytes, words, out) = (k.buffer("bytes"), k.buffer("words"), k.buffer("out"));
    let mode = k.scalar("mode", Elem::Int);
    let i = global_id(&mut k, 5);
    let byte = k.load(k.global(bytes, i), Width::I8, Elem::Int);
    let wide = shl(&mut k, i, 1);
    let word = k.load(k.global(words, wide), Width::U16, Elem::Int);
    let shifted = shl(&mut k, byte, 4);
    let sum = k.add(word, shifted);
    let one = k.int(1);
    let chosen = k.eq(mode, one);
    let result = k.choose(chosen, |k| vec![k.xor(sum, byte)], |_| vec![sum]);
    k.store(k.global(out, wide), Width::U16, result[0]);
    k.finish()
}
