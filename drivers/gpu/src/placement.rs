//! Placement of the operations of a plan on the device or the host, and the weights that the device needs for its part.

use alloc::vec::Vec;
use core::fmt;
use doorbell_core::model::{Model, StateShape};
use doorbell_core::plan::{Op, Plan};
use doorbell_kernels::isa::Target;
use doorbell_kernels::supports;

use crate::operands::{LayerMemory, each_weight, layer_memory};

/// The operations that the device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Placement {
    /// All that it has kernels for.
    Device,
    /// Those of them that belong to some layers.
    Split(LayerSplit),
    /// None: how the host's part is checked.
    Host,
    /// The one with this index in the plan: how one kernel is checked.
    Only(usize),
}

/// The part of a model that the device runs if not everything fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LayerSplit {
    /// The first layers, and with them the embedding and the head; the host has the others.
    pub layers: u32,
    /// Of those the first whose experts the device runs, too.
    pub experts: u32,
}

impl LayerSplit {
    /// Everything of a model.
    pub fn all(model: &Model<'_>) -> Self {
        let layers = model.layers.len() as u32;
        Self { layers, experts: layers }
    }
}

/// A split of a model, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SplitReport {
    /// The part on the device.
    pub split: LayerSplit,
    /// Layers of the model.
    pub layers: u32,
    /// Bytes of weights on the device.
    pub on_device: u64,
    /// Bytes of weights in all.
    pub in_all: u64,
}

impl fmt::Display for SplitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { split: LayerSplit { layers, experts }, layers: all, .. } = *self;
        let (on_device, in_all) = (self.on_device >> 20, self.in_all >> 20);
        write!(f, "the GPU runs {layers} of {all} layers")?;
        if experts < layers {
            write!(f, ", and the experts of {experts} of them")?;
        }
        write!(f, " ({on_device} of {in_all} MiB of weights); the CPU runs the rest")
    }
}

/// The layer in a tensor's name, `blk.N.`.
fn layer_in(name: &[u8]) -> Option<u32> {
    let rest = name.strip_prefix(b"blk.")?;
    let end = rest.iter().position(|&byte| byte == b'.')?;
    core::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// The layer of every operation; `None` for the embedding and the head. An operation without matrices belongs to the
/// layer of those before it.
pub fn layers(plan: &Plan<'_>, model: &Model<'_>) -> Vec<Option<u32>> {
    let mut last = None;
    let layer = |op: &Op| {
        let mut found = None;
        each_weight(op, |id| found = found.or_else(|| layer_in(model.weight(id).name)));
        last = match op {
            Op::Embed { .. } | Op::Head(_) => None,
            _ => found.or(last),
        };
        last
    };
    plan.ops.iter().map(layer).collect()
}

/// Gives the host every operation on keys and values, or on recurrent states, of a layer that it has another operation
/// on, in this step or one before: each side has memory of its own. `of_host` is that of the host so far; more is added.
pub(crate) fn bind(plan: &Plan<'_>, on_device: &mut [bool], of_host: &mut Vec<LayerMemory>) {
    for (op, _) in plan.ops.iter().zip(&*on_device).filter(|(_, on_device)| !**on_device) {
        for memory in layer_memory(op) {
            if !of_host.contains(&memory) {
                of_host.push(memory);
            }
        }
    }
    for (op, on_device) in plan.ops.iter().zip(on_device) {
        *on_device &= !layer_memory(op).any(|memory| of_host.contains(&memory));
    }
}

/// The operations that the device runs, if all kernels that they need are fit for use.
pub(crate) fn on_device(
    plan: &Plan<'_>,
    kept: &Model<'_>,
    target: Target,
    placement: Placement,
) -> Vec<bool> {
    let layers = layers(plan, kept);
    let chosen = |(index, op): (usize, &Op)| {
        let wanted = match placement {
            Placement::Device => true,
            Placement::Host => false,
            Placement::Only(only) => index == only,
            Placement::Split(split) => {
                let limit =
                    if matches!(op, Op::Experts(_)) { split.experts.min(split.layers) } else { split.layers };
                layers[index].unwrap_or(0) < limit
            }
        };
        wanted && supports(op, kept, target)
    };
    plan.ops.iter().enumerate().map(chosen).collect()
}

/// The weights that operations on the device read.
pub(crate) fn weights(plan: &Plan<'_>, kept: &Model<'_>, on_device: &[bool]) -> Vec<bool> {
    let mut read = alloc::vec![false; kept.weights.len()];
    for (op, _) in plan.ops.iter().zip(on_device).filter(|(_, on_device)| **on_device) {
        each_weight(op, |id| read[id.index()] = true);
    }
    read
}

/// Layers whose memory the device keeps: up to the last one that an operation there uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLayers {
    /// Of each group, those with keys and values.
    pub(crate) groups: Vec<u16>,
    /// Those with recurrent states.
    pub(crate) states: u16,
}

impl KeptLayers {
    /// All layers of a model.
    pub(crate) fn all(model: &Model<'_>) -> Self {
        let groups = model.groups.iter().map(|group| group.layers).collect();
        Self { groups, states: model.state.map_or(0, |state| state.layers) }
    }

    /// The layers that operations on the device use.
    pub(crate) fn used(plan: &Plan<'_>, kept: &Model<'_>, on_device: &[bool]) -> Self {
        let mut layers = Self { groups: alloc::vec![0; kept.groups.len()], states: 0 };
        for (op, _) in plan.ops.iter().zip(on_device).filter(|(_, on_device)| **on_device) {
            for memory in layer_memory(op) {
                let (kept, layer) = match memory {
                    LayerMemory::Kv(slot) => (&mut layers.groups[slot.group.index()], slot.layer),
                    LayerMemory::State(slot) => (&mut layers.states, slot.0),
                };
                *kept = (*kept).max(layer + 1);
            }
        }
        layers
    }

    /// Leaves a model these layers.
    pub(crate) fn apply(&self, kept: &mut Model<'_>) {
        for (group, layers) in kept.groups.iter_mut().zip(&self.groups) {
            group.layers = *layers;
        }
        kept.state = kept.state.map(|state| StateShape { layers: self.states, ..state });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_from_names() {
        assert_eq!(layer_in(b"blk.12.ffn_up.weight"), Some(12));
        for name in [&b"token_embd.weight"[..], b"blk.", b"blk.x.y", b"blk.1"] {
            assert_eq!(layer_in(name), None);
        }
    }
}
