//! `to += sum of products` over a row's chosen experts, in their order.

use crate::builder_ext::BuilderExt;
use crate::gemm::activations_f16::ActivationsF16;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width};

/// Sums of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CombineExperts {
    /// Elements of a row, even.
    pub width: u32,
    /// Products of a row.
    pub top_k: u32,
}

const WORKGROUP: u32 = 256;
/// What products are divided by before they become f16: then they reach from 2^-20 to 2^20.
pub(crate) const SHARE: f32 = 16.0;

impl CombineExperts {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        format!("combine_{}x{}", self.top_k, self.width)
    }

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [(self.width / 2).div_ceil(WORKGROUP), rows, 1]
    }

    /// Arguments: `products` (f16 `[rows, top_k, width]`, weighted, rows as of `ActivationsF16`), `to` (f32 `[rows, width]`).
    pub fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (products, to) = (k.buffer("products"), k.buffer("to"));
        let (group, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let item = k.workitem_id();
        let first = k.left(group, WORKGROUP.trailing_zeros());
        let pair = k.add(first, item);
        let pairs = k.int(self.width / 2);
        let inside = k.lt_u(pair, pairs);
        k.when(inside, |k| {
            let own = k.left(pair, 3);
            let place = k.times(row, 4 * self.width);
            let place = k.add(place, own);
            let zero = k.float(0.0);
            let (start, end, step) = (k.int(0), k.int(self.top_k), k.int(1));
            let first = k.times(row, self.top_k);
            let own = k.left(pair, 2);
            let sums = k.for_range([start, end, step], &[zero, zero], |k, slot, sums| {
                let slot = k.add(first, slot);
                let from = k.times(slot, ActivationsF16::row_bytes(self.width));
                let from = k.add(from, own);
                let pair = k.load(k.global(products, from), Width::Dwords(1), Elem::Int);
                let pair = k.halves(pair);
                vec![k.fadd(sums[0], pair[0]), k.fadd(sums[1], pair[1])]
            });
            add(k, to, place, &sums);
        });
        k.finish()
    }
}

/// Adds a pair of sums to a pair of floats.
fn add(k: &mut Builder, to: Value, place: Value, sums: &[Value]) {
    let old = k.load(k.global(to, place), Width::Dwords(2), Elem::Float);
    let old = k.elements(old, 2);
    let share = k.float(SHARE);
    let new: Vec<Value> = sums.iter().zip(old).map(|(sum, old)| k.fma(*sum, share, old)).collect();
    let new = k.pack(&new);
    k.store(k.global(to, place), Width::Dwords(2), new);
}
