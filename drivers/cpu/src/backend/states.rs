//! The recurrent states in memory of the backend.

use crate::delta_net::head_state;
use crate::phase::{BufferId, Region};
use doorbell_core::model::StateShape;
use doorbell_core::plan::StateSlot;

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
