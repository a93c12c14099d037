//! `to += sum of weight * product` over a row's chosen experts, in their order.

use crate::idiom::Idiom;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use doorbell_compiler::ir::{Axis, Builder, Function};

/// Weighted sums of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Combine {
    /// Elements of a row.
    pub width: u32,
    /// Products of a row.
    pub top_k: u32,
}

const GROUP: u32 = 256;

impl Combine {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        format!("combine_{}x{}", self.top_k, self.width)
    }

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [self.width.div_ceil(GROUP), rows, 1]
    }

    /// Arguments: `products` (f32 `[rows, top_k, width]`), `weights` (f32 `[rows, top_k]`), `to` (f32 `[rows, width]`).
    pub fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), GROUP);
        let (products, weights, to) = (k.buffer("products"), k.buffer("weights"), k.buffer("to"));
        let (group, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let item = k.workitem_id();
        let first = k.left(group, GROUP.trailing_zeros());
        let column = k.add(first, item);
        let width = k.int(self.width);
        let inside = k.lt_u(column, width);
        k.when(inside, |k| {
            let own = k.left(column, 2);
            let place = k.times(row, 4 * self.width);
            let place = k.add(place, own);
            let old = k.read(to, place);
            let (start, end, step) = (k.int(0), k.int(self.top_k), k.int(1));
            let first = k.times(row, self.top_k);
            let sum = k.for_range([start, end, step], &[old], |k, slot, sums| {
                let slot = k.add(first, slot);
                let from = k.times(slot, 4 * self.width);
                let from = k.add(from, own);
                let product = k.read(products, from);
                let from = k.left(slot, 2);
                let weight = k.read(weights, from);
                vec![k.fma(weight, product, sums[0])]
            })[0];
            k.write(to, place, sum);
        });
        k.finish()
    }
}
