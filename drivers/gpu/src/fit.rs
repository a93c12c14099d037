//! Admission: which part of a model fits the device, found before anything is loaded.

use alloc::vec::Vec;
use doorbell_core::model::{KvGroup, Model};
use doorbell_core::plan::Plan;
use doorbell_kernels::isa::Target;
use doorbell_kernels::scratch_bytes;
use doorbell_kfd::topology::MemoryPool;

use crate::error::GpuError;
use crate::memory_needs::{MemoryNeeds, MemoryShortage, context_needs, state_bytes, weight_bytes};
use crate::placement::{KeptLayers, LayerSplit, Placement, SplitReport, bind, on_device, weights};
use crate::settings::Settings;

/// The part of a model that goes to the device.
pub(crate) struct Fitting {
    pub(crate) placement: Placement,
    /// By weight.
    pub(crate) loaded: Vec<bool>,
    /// Layers whose keys and values, or states, the device keeps.
    layers: KeptLayers,
    /// If that isn't everything.
    pub(crate) split_report: Option<SplitReport>,
}

/// Finds what fits of a model by what the device says that it has; `kept` gets the layers whose keys and values, or states, stay
/// there.
///
/// With a fallback, and unless the placement is prescribed, the experts of the last layers are moved to the host first,
/// then whole layers.
pub(crate) fn fit(
    budget: &MemoryPool,
    kept: &mut Model<'_>,
    plan: &Plan<'_>,
    settings: &Settings,
    target: Target,
    has_fallback: bool,
) -> Result<Fitting, GpuError> {
    let limit = budget.decisive();
    let tried = |placement| {
        let (fitting, needs) = fitting(kept, plan, settings, target, placement, has_fallback);
        if needs.total() <= limit.bytes { Ok(fitting) } else { Err(needs) }
    };
    let mut found = tried(settings.placement);
    if let Err(needs) = &found {
        let splits = if has_fallback { splits(kept) } else { Vec::new() };
        let split = splits.into_iter().find(|&split| tried(Placement::Split(split)).is_ok());
        match split {
            Some(split) if settings.placement == Placement::Device => found = tried(Placement::Split(split)),
            _ => return Err(MemoryShortage { needs: *needs, limit, placement: budget.domain, split }.into()),
        }
    }
    let fitting =
        found.map_err(|needs| MemoryShortage { needs, limit, placement: budget.domain, split: None })?;
    fitting.layers.apply(kept);
    Ok(fitting)
}

/// Splits of a model, the largest device part first.
fn splits(model: &Model<'_>) -> Vec<LayerSplit> {
    let all = LayerSplit::all(model);
    let has_experts = model.weights.iter().any(|weight| weight.stack > 1);
    let mut splits: Vec<LayerSplit> = Vec::new();
    if has_experts {
        splits.extend((0..all.layers).rev().map(|experts| LayerSplit { experts, ..all }));
    }
    let experts = |layers| if has_experts { 0 } else { layers };
    splits.extend((1..all.layers).rev().map(|layers| LayerSplit { layers, experts: experts(layers) }));
    splits
}

/// The part of a model on the device with a placement, and the bytes that it takes there.
fn fitting(
    kept: &Model<'_>,
    plan: &Plan<'_>,
    settings: &Settings,
    target: Target,
    placement: Placement,
    has_fallback: bool,
) -> (Fitting, MemoryNeeds) {
    let mut chosen = on_device(plan, kept, target, placement);
    if has_fallback {
        bind(plan, &mut chosen, &mut Vec::new());
    }
    let layers = if has_fallback { KeptLayers::used(plan, kept, &chosen) } else { KeptLayers::all(kept) };
    let loaded = match placement {
        // The caller selects operations later.
        Placement::Host | Placement::Only(_) => alloc::vec![true; kept.weights.len()],
        Placement::Device | Placement::Split(_) => weights(plan, kept, &chosen),
    };
    let result = 4 * u64::from(plan.shape.outputs) * u64::from(kept.vocabulary);
    let working = [4 * plan.arena as u64, scratch_bytes(plan, kept), result];
    let groups = kept.groups.iter().zip(&layers.groups).map(|(group, &layers)| KvGroup { layers, ..*group });
    let (context, windows) = context_needs(kept, groups, settings.kv, &settings.pages);
    let needs = MemoryNeeds {
        weights: weight_bytes(kept, &loaded),
        context,
        windows,
        states: state_bytes(kept, layers.states, settings.states),
        working: working.into_iter().fold(0, u64::saturating_add),
        pages: settings.pages.table(),
    };
    let [on_device, in_all] =
        [&loaded, &alloc::vec![true; loaded.len()]].map(|which| weight_bytes(kept, which));
    let of_model =
        |split: LayerSplit| SplitReport { split, layers: kept.layers.len() as u32, on_device, in_all };
    let split_report = match placement {
        Placement::Split(split) if split != LayerSplit::all(kept) => Some(of_model(split)),
        _ => None,
    };
    (Fitting { placement, loaded, layers, split_report }, needs)
}
