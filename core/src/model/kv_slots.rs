//! Which KV group, and which layer of it, keeps each layer's keys and values.

use super::error::ModelError;
use super::hparams::{HyperParams, LayerParams};
use super::weights::KvGroup;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::plan::{GroupId, KvSlot, MAX_GROUPS};

/// The KV groups, and each layer's slot in one of them.
pub(super) struct KvSlots<'a> {
    groups: Vec<'a, KvGroup>,
    /// `[layers]`, as far as bound; layers without keys and values have none.
    slots: Vec<'a, Option<KvSlot>>,
}

impl<'a> KvSlots<'a> {
    /// Of a model of `layers` layers.
    pub(super) fn new(layers: usize, heap: Heap<'a>) -> Result<Self, OutOfMemory> {
        Ok(Self { groups: heap::with_capacity(heap, MAX_GROUPS)?, slots: heap::filled(heap, layers, None)? })
    }

    pub(super) fn into_groups(self) -> Vec<'a, KvGroup> {
        self.groups
    }

    /// The slot of a layer: that of the layer whose keys and values it reads, else the next one in the group of its
    /// shape. A group is added if there is none.
    pub(super) fn slot(&mut self, hparams: &HyperParams<'_>, layer: usize) -> Result<KvSlot, ModelError> {
        let shape = hparams.layers[layer];
        let earlier = self.slots.get(shape.kv_layer as usize).copied().flatten();
        let slot = match earlier {
            Some(slot) => slot,
            None => self.new_slot(shape)?,
        };
        self.slots[layer] = Some(slot);
        Ok(slot)
    }

    fn new_slot(&mut self, shape: LayerParams) -> Result<KvSlot, ModelError> {
        let group = KvGroup {
            layers: 0,
            heads: shape.kv_heads,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
            window: shape.window,
        };
        let at = self.groups.iter().position(|known| KvGroup { layers: 0, ..*known } == group);
        let at = at.unwrap_or(self.groups.len());
        if at == self.groups.len() {
            if at == MAX_GROUPS {
                return Err(ModelError::TooManyGroups(MAX_GROUPS));
            }
            heap::push(&mut self.groups, group)?;
        }
        let layer = self.groups[at].layers;
        self.groups[at].layers += 1;
        // `at` is below MAX_GROUPS.
        Ok(KvSlot { group: GroupId(at as u8), layer })
    }
}
