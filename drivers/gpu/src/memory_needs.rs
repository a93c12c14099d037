//! Device memory that a model takes, compared with the memory that a device has before anything is loaded.

use core::fmt;
use doorbell_core::backend::KvType;
use doorbell_core::model::{KvGroup, Model, StateShape};
use doorbell_core::plan::{GroupId, KvPages, PAGE_TOKENS};
use doorbell_kernels::{KvLayout, RopeTable};
use doorbell_kfd::topology::{Limit, MemoryDomain};

use crate::placement::LayerSplit;

/// Bytes that a model takes on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemoryNeeds {
    /// Matrices and vectors.
    pub weights: u64,
    /// Keys, values and rotary tables.
    pub context: u64,
    /// Those of them that do not grow with the context: keys and values of layers with a window.
    pub windows: u64,
    /// Recurrent states.
    pub states: u64,
    /// Activations, scratch, results.
    pub working: u64,
    /// Pages of the longest sequence.
    pub pages: u32,
}

impl MemoryNeeds {
    /// All of them.
    pub fn total(&self) -> u64 {
        let kept = self.context.saturating_add(self.states);
        self.weights.saturating_add(kept).saturating_add(self.working)
    }
}

/// A model that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemoryShortage {
    /// The memory that it takes.
    pub needs: MemoryNeeds,
    /// The memory that the device has.
    pub limit: Limit,
    /// The kind of memory.
    pub placement: MemoryDomain,
    /// The split that would fit, if the rest can run on the host.
    pub split: Option<LayerSplit>,
}

impl MemoryShortage {
    /// Tokens of context that there would be room for; 0 when not even the weights fit.
    pub fn tokens(&self) -> u64 {
        let MemoryNeeds { weights, context, windows, states, working, pages } = self.needs;
        let fixed = [weights, working, windows, states].into_iter().fold(0, u64::saturating_add);
        let rest = self.limit.bytes.saturating_sub(fixed);
        let page = context.saturating_sub(windows) / u64::from(pages.max(1));
        rest.checked_div(page).unwrap_or(0) * PAGE_TOKENS as u64
    }
}

const MIB: u64 = 1 << 20;

impl fmt::Display for MemoryShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryNeeds { weights, context, states, working, .. } = self.needs;
        write!(
            f,
            "the model takes {} MiB on the device (weights {} MiB, context {} MiB, ",
            self.needs.total().div_ceil(MIB),
            weights.div_ceil(MIB),
            context.div_ceil(MIB),
        )?;
        if states > 0 {
            write!(f, "recurrent states {} MiB, ", states.div_ceil(MIB))?;
        }
        write!(
            f,
            "working memory {} MiB) and there are {} MiB of {} ({}); ",
            working.div_ceil(MIB),
            self.limit.bytes / MIB,
            self.placement,
            self.limit.rule
        )?;
        if let Some(split) = self.split {
            write!(f, "{} of the layers would fit", split.layers)?;
            if split.experts < split.layers {
                write!(f, ", with the experts of {} of them", split.experts)?;
            }
            return f.write_str("; use --gpu-layers and --gpu-experts, or neither");
        }
        match self.tokens() {
            0 => f.write_str("use a smaller model or --device cpu"),
            tokens => write!(f, "a context of {tokens} tokens would fit"),
        }
    }
}

impl core::error::Error for MemoryShortage {}

/// Bytes of the weights that are to be `loaded`, and of vectors.
pub(crate) fn weight_bytes(model: &Model<'_>, loaded: &[bool]) -> u64 {
    let matrices = model.weights.iter().zip(loaded).filter(|(_, loaded)| **loaded);
    let matrices: u64 = matrices.map(|(weight, _)| weight.bytes()).sum();
    matrices.saturating_add(vector_bytes(model))
}

/// Bytes of all vectors, each on a line of its own.
pub(crate) fn vector_bytes(model: &Model<'_>) -> u64 {
    model.vectors.iter().map(|vector| (4 * vector.len() as u64).next_multiple_of(LINE)).sum()
}

/// Bytes of `count` recurrent states of so many layers.
pub(crate) fn state_bytes(model: &Model<'_>, layers: u16, count: u32) -> u64 {
    let bytes = model.state.map_or(0, |state| StateShape { layers, ..state }.bytes() as u64);
    bytes.saturating_mul(count.into())
}

/// Bytes that things in a common buffer are aligned to.
pub(crate) const LINE: u64 = 256;

/// Bytes of all rotary tables for `pages` KV pages.
pub(crate) fn rope_bytes(model: &Model<'_>, pages: u32) -> u64 {
    let positions = u64::from(pages).saturating_mul(PAGE_TOKENS as u64);
    let tables = model.ropes.iter().map(|rope| rope_table(rope.frequencies.len()).position_bytes());
    tables.map(|bytes| bytes.saturating_mul(positions).saturating_add(LINE)).fold(0, u64::saturating_add)
}

pub(crate) fn rope_table(pairs: usize) -> RopeTable {
    // The binder bounds heads.
    RopeTable { pairs: u32::try_from(pairs).unwrap_or(u32::MAX) }
}

/// Bytes of all keys, values and rotary tables, and those among them that do not grow with the context.
pub(crate) fn context_needs(
    model: &Model<'_>,
    groups: impl Iterator<Item = KvGroup>,
    kv: KvType,
    pages: &KvPages,
) -> (u64, u64) {
    let (mut context, mut windows) = (rope_bytes(model, pages.table()), 0_u64);
    for (id, group) in (0..).map(GroupId).zip(groups) {
        let values = KvLayout::values(&group, kv).page_bytes();
        let page = KvLayout::keys(&group, kv).page_bytes().saturating_add(values);
        let bytes = page.saturating_mul(pages.of(id).into());
        context = context.saturating_add(bytes);
        if group.window.is_some() {
            windows = windows.saturating_add(bytes);
        }
    }
    (context, windows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use doorbell_kfd::topology::Rule;

    #[test]
    fn a_shortage_says_what_would_fit() {
        let none = MemoryNeeds::default();
        let needs =
            MemoryNeeds { weights: 1000 * MIB, context: 640 * MIB, working: 60 * MIB, pages: 64, ..none };
        let limit = Limit { rule: Rule::VramSize, bytes: 1160 * MIB };
        let shortage = MemoryShortage { needs, limit, placement: MemoryDomain::Vram, split: None };
        assert_eq!(shortage.tokens(), 320);
        // 576 MiB for 64 pages, and 36 MiB are left
        let needs_windows = MemoryNeeds { windows: 64 * MIB, ..needs };
        assert_eq!(MemoryShortage { needs: needs_windows, ..shortage }.tokens(), 128);
        assert_eq!(
            shortage.to_string(),
            "the model takes 1700 MiB on the device (weights 1000 MiB, context 640 MiB, working memory \
             60 MiB) and there are 1160 MiB of VRAM (VRAM size less page tables); a context of 320 tokens would fit"
        );
        // 36 MiB of states take the place of as many pages' worth, and are named.
        let needs_states = MemoryNeeds { states: 36 * MIB, ..needs };
        let with_states = MemoryShortage { needs: needs_states, ..shortage };
        assert_eq!(with_states.tokens(), 192);
        assert!(with_states.to_string().contains("context 640 MiB, recurrent states 36 MiB, working"));
        let small = MemoryShortage { limit: Limit { bytes: 900 * MIB, ..limit }, ..shortage };
        assert!(small.to_string().ends_with("use a smaller model or --device cpu"));
        assert_eq!(MemoryShortage { needs: MemoryNeeds::default(), ..shortage }.tokens(), 0);
    }
}
