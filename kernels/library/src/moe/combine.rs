//! The sum of products over a row's chosen experts, in their order, added to `to` or in its place.

use crate::builder_ext::BuilderExt;
use crate::gemm::activations_f16::ActivationsF16;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Function, Value, Width, global};
use doorbell_compiler::isa::Target;

/// Sums of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CombineExperts {
    /// Elements of a row, even.
    pub width: u32,
    /// Products of a row.
    pub top_k: u32,
    /// True if the sum is added to the old content.
    pub adds: bool,
}

const WORKGROUP: u32 = 256;
/// The divisor of products before they become f16: then they reach from 2^-20 to 2^20.
pub(crate) const SHARE: f32 = 16.0;

impl CombineExperts {
    /// Workgroups for a number of rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [(self.width / 2).div_ceil(WORKGROUP), rows, 1]
    }

    /// Writes a pair of sums, or adds it to a pair of floats.
    fn put(&self, k: &mut Builder, to: Value, offset: Value, sums: &[Value]) {
        let share = k.float(SHARE);
        let new: Vec<Value> = if self.adds {
            let old = k.load(global(to, offset), Width::Dwords(2), Elem::Float);
            let parts = k.elements(old, 2);
            sums.iter().zip(parts).map(|(sum, old)| k.fma(*sum, share, old)).collect()
        } else {
            sums.iter().map(|sum| k.fmul(*sum, share)).collect()
        };
        let packed = k.pack(&new);
        k.store(global(to, offset), Width::Dwords(2), packed);
    }
}

impl Kernel for CombineExperts {
    fn name(&self) -> String {
        format!("combine_{}x{}{}", self.top_k, self.width, if self.adds { "" } else { "_new" })
    }

    /// Arguments: `products` (f16 `[rows, top_k, width]`, weighted, rows as of `ActivationsF16`), `to` (f32
    /// `[rows, width]`).
    fn function(&self, _target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), WORKGROUP);
        let (products, to) = (k.buffer("products"), k.buffer("to"));
        let (group, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let item = k.workitem_id();
        let pair = k.eval(group * WORKGROUP + item);
        k.when(pair.lt(self.width / 2), |k| {
            let offset = k.eval(pair << 3);
            let target = k.eval(row * (4 * self.width) + offset);
            let zero = k.float(0.0);
            let range = k.range(0, self.top_k, 1);
            let first = k.eval(row * self.top_k);
            let own = k.eval(pair << 2);
            let sums = k.for_range(range, &[zero, zero], |k, number, sums| {
                let slot = k.eval(first + number);
                let dword = k.read_int(products, slot * ActivationsF16::row_bytes(self.width) + own);
                let values = k.halves(dword);
                vec![k.fadd(sums[0], values[0]), k.fadd(sums[1], values[1])]
            });
            self.put(k, to, target, &sums);
        });
        Ok(k.finish())
    }
}
