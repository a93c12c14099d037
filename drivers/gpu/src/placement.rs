//! Placement of the operations of a plan on the device or the host, and the weights that the device needs for its part.

use alloc::vec::Vec;
use core::fmt;
use doorbell_core::model::Model;
use doorbell_core::plan::{KvSlot, Op, Plan};
use doorbell_kernels::isa::Target;
use doorbell_kernels::supports;

use crate::operands::{each_weight, kv_slots};

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

/// Gives the host every operation on keys and values that it has another operation on, in this step or one before:
/// each side has keys and values of its own. `of_host` are those of the host so far; new ones are added.
pub(crate) fn bind(plan: &Plan<'_>, on_device: &mut [bool], of_host: &mut Vec<KvSlot>) {
    for (op, _) in plan.ops.iter().zip(&*on_device).filter(|(_, on_device)| !**on_device) {
        for slot in kv_slots(op) {
            if !of_host.contains(&slot) {
                of_host.push(slot);
            }
        }
    }
    for (op, on_device) in plan.ops.iter().zip(on_device) {
        *on_device &= !kv_slots(op).any(|slot| of_host.contains(&slot));
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

/// Layers of each group whose keys and values the device keeps: up to the last one that an operation there uses.
pub(crate) fn kept_layers(plan: &Plan<'_>, kept: &Model<'_>, on_device: &[bool]) -> Vec<u16> {
    let mut layers = alloc::vec![0; kept.groups.len()];
    for (op, _) in plan.ops.iter().zip(on_device).filter(|(_, on_device)| **on_device) {
        for slot in kv_slots(op) {
            let kept: &mut u16 = &mut layers[slot.group.index()];
            *kept = (*kept).max(slot.layer + 1);
        }
    }
    layers
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
