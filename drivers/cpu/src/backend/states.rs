//! The recurrent states in memory of the backend.

use crate::delta_net::head_state;
use crate::lines::Lines;
use crate::phase::{BufferId, Memory, Region};
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::{Model, StateShape};
use doorbell_core::plan::{StateId, StateSlot};

/// The recurrent states of a model in memory of the backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateView {
    pub(super) shape: StateShape,
    /// States that there are.
    pub(super) count: usize,
    /// `[layers, states, taps, channels]`
    pub(super) convolution: BufferId,
    /// `[states, layers, value_heads, head_state]`
    pub(super) recurrent: BufferId,
}

/// Floats of all value heads of a state in one layer.
pub(super) const fn layer_floats(shape: &StateShape) -> usize {
    shape.delta.value_heads as usize
        * head_state(shape.delta.key_dim as usize, shape.delta.value_dim as usize)
}

impl StateView {
    /// The value heads of all states in a layer: a row for each state.
    pub(super) fn heads(&self, slot: StateSlot) -> Region {
        let layer = layer_floats(&self.shape);
        let stride = layer * usize::from(self.shape.layers);
        Region::floats(self.recurrent, usize::from(slot.0) * layer, self.count, stride)
    }

    /// First float of a state's kept inputs in a layer.
    pub(super) fn inputs_start(&self, slot: StateSlot, state: usize) -> usize {
        (usize::from(slot.0) * self.count + state) * self.shape.delta.convolution_state()
    }

    /// The kept inputs of all states in a layer: `taps` rows for each state.
    pub(super) fn inputs(&self, slot: StateSlot) -> Region {
        let delta = &self.shape.delta;
        let rows = self.count * delta.taps as usize;
        Region::floats(self.convolution, self.inputs_start(slot, 0), rows, delta.channels())
    }
}

/// The recurrent states of a model that has them.
#[derive(Debug)]
pub(super) struct States<'h> {
    pub(super) count: u32,
    convolution: Lines<'h>,
    recurrent: Lines<'h>,
}

impl<'h> States<'h> {
    pub(super) fn new(heap: Heap<'h>) -> Self {
        Self { count: 0, convolution: Lines::new(heap), recurrent: Lines::new(heap) }
    }

    pub(super) fn reserve(&mut self, model: &Model<'_>, count: u32) -> Result<(), OutOfMemory> {
        let Some(shape) = model.state else { return Ok(()) };
        let all = (count as usize).saturating_mul(usize::from(shape.layers));
        self.count = 0;
        self.convolution.grow_numbers(all.saturating_mul(shape.delta.convolution_state()))?;
        self.recurrent.grow_numbers(all.saturating_mul(layer_floats(&shape)))?;
        self.count = count;
        Ok(())
    }

    pub(super) fn lend<'m>(&'m mut self, model: &Model<'_>, memory: &mut Memory<'m>) -> Option<StateView> {
        let shape = model.state?;
        Some(StateView {
            shape,
            count: self.count as usize,
            convolution: memory.lend(self.convolution.bytes_mut()),
            recurrent: memory.lend(self.recurrent.bytes_mut()),
        })
    }

    pub(super) fn copy(&mut self, model: &Model<'_>, from: StateId, to: StateId) {
        let Some(shape) = model.state.filter(|_| from.0.max(to.0) < self.count) else { return };
        let (from, to, count) = (from.0 as usize, to.0 as usize, self.count as usize);
        let floats = layer_floats(&shape) * usize::from(shape.layers);
        self.recurrent.floats_mut().copy_within(from * floats..(from + 1) * floats, to * floats);
        let inputs = shape.delta.convolution_state();
        for layer in 0..usize::from(shape.layers) {
            let at = |state: usize| (layer * count + state) * inputs;
            self.convolution.floats_mut().copy_within(at(from)..at(from) + inputs, at(to));
        }
    }

    /// Bytes of a state outside of the backend: the value heads of all layers, then the kept inputs of each.
    pub(super) fn bytes(model: &Model<'_>) -> usize {
        let floats = model.state.map_or(0, |shape| {
            usize::from(shape.layers) * (layer_floats(&shape) + shape.delta.convolution_state())
        });
        floats * size_of::<f32>()
    }

    /// Calls `visit` with each part of a state that is there, in the order of [`Self::bytes`].
    pub(super) fn each_part(&mut self, model: &Model<'_>, state: StateId, mut visit: impl FnMut(&mut [f32])) {
        let Some(shape) = model.state.filter(|_| state.0 < self.count) else { return };
        let (state, count) = (state.0 as usize, self.count as usize);
        let floats = layer_floats(&shape) * usize::from(shape.layers);
        visit(&mut self.recurrent.floats_mut()[state * floats..][..floats]);
        let inputs = shape.delta.convolution_state();
        for layer in 0..usize::from(shape.layers) {
            visit(&mut self.convolution.floats_mut()[(layer * count + state) * inputs..][..inputs]);
        }
    }
}
