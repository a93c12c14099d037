//! Element-wise kernels.

use crate::ir::{Axis, Builder, Elem, Function, Width};
use doorbell_isa::Target;

/// `out[i] = a[i] + b[i]` for `i < n`.
pub(super) fn add(_target: Target) -> Function {
    let mut k = Builder::new("vector_add", 256);
    let (a, b, out) = (k.buffer("a"), k.buffer("b"), k.buffer("out"));
    let n = k.scalar("n", Elem::Int);
    let group = k.workgroup_id(Axis::X);
    let item = k.workitem_id();
    let eight = k.int(8);
    let base = k.shl(group, eight);
    let i = k.add(base, item);
    let inside = k.lt_u(i, n);
    k.when(inside, |k| {
        let two = k.int(2);
        let offset = k.shl(i, two);
        let x = k.load(k.global(a, offset), Width::Dwords(1), Elem::Float);
        let y = k.load(k.global(b, offset), Width::Dwords(1), Elem::Float);
        let sum = k.fadd(x, y);
        k.store(k.global(out, offset), Width::Dwords(1), sum);
    });
    k.finish()
}
