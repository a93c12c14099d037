//! Values that all parts of the kernel of a delta net use, and the lane's part of the state.

use super::spec::{COLUMNS, DeltaArguments, DeltaLds, DeltaNetSpec, Run};
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Value, Width, global};
use doorbell_core::plan::HeadOrder;

/// Everything that the parts of the kernel use.
pub(crate) struct DeltaContext {
    pub(crate) spec: DeltaNetSpec,
    pub(crate) arguments: DeltaArguments,
    pub(crate) lds: DeltaLds,
    /// Value head, uniform.
    pub(crate) head: Value,
    /// Its key head, uniform.
    pub(crate) key_head: Value,
    /// True if it is the first value head of its key head, uniform.
    pub(crate) leads: Value,
    /// The lane's first column of the state.
    pub(crate) column: Value,
    /// Number of the lane among those that share its columns.
    pub(crate) key_lane: Value,
}

impl DeltaContext {
    pub(crate) fn new(k: &mut Builder, spec: DeltaNetSpec) -> Self {
        let arguments = spec.arguments(k);
        let lds = spec.lds(k);
        let shape = spec.shape;
        let head = k.workgroup_id(Axis::X);
        let share = shape.value_heads / shape.key_heads;
        let (key_head, within) = match shape.order {
            HeadOrder::Grouped => {
                let key_head = k.eval(head / share);
                (key_head, k.eval(head - key_head * share))
            }
            HeadOrder::Tiled => {
                let within = k.eval(head / shape.key_heads);
                (k.eval(head - within * shape.key_heads), within)
            }
        };
        let leads = k.eq(within, 0);
        let (lane, wave) = (k.lane(), k.wave());
        let own = k.eval(lane & (spec.row_lanes() - 1));
        let column = k.eval((wave * spec.row_lanes() + own) * COLUMNS);
        let key_lane = k.eval(lane / spec.row_lanes());
        Self { spec, arguments, lds, head, key_head, leads, column, key_lane }
    }

    /// Byte of the lane's first row and column in a sequence's state.
    fn state_offset(&self, k: &mut Builder) -> Value {
        let shape = self.spec.shape;
        let before = 4 * shape.convolution_state() as u32;
        let own = k.eval((self.key_lane * (self.spec.neighbors() * shape.value_dim) + self.column) << 2);
        let head = k.eval(self.head * (4 * shape.key_dim * shape.value_dim) + before);
        k.add(own, head)
    }

    /// Bytes from the lane's first row of the state to each of its rows.
    fn row_offsets(&self) -> impl Iterator<Item = u32> {
        let (neighbors, lanes) = (self.spec.neighbors(), self.spec.key_lanes());
        let row_bytes = 4 * self.spec.shape.value_dim;
        let row = move |number: u32| number / neighbors * (neighbors * lanes) + number % neighbors;
        (0..self.spec.rows()).map(move |number| row(number) * row_bytes)
    }

    pub(crate) fn load_state(&self, k: &mut Builder, run: Run) -> Vec<Value> {
        let start = self.state_offset(k);
        let mut state = Vec::new();
        for ahead in self.row_offsets() {
            let four =
                k.load(global(run.state, start).plus(ahead), Width::Dwords(COLUMNS as u8), Elem::Float);
            state.extend(k.elements(four, COLUMNS as u8));
        }
        state
    }

    pub(crate) fn store_state(&self, k: &mut Builder, run: Run, state: &[Value]) {
        let start = self.state_offset(k);
        for (four, ahead) in state.chunks(COLUMNS as usize).zip(self.row_offsets()) {
            let packed = k.pack(four);
            k.store(global(run.state, start).plus(ahead), Width::Dwords(COLUMNS as u8), packed);
        }
    }
}
