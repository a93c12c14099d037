//! Launches of attention, their scratch, and the conditions for them.

use crate::attention::decode::parts::{PART, WAVES};
use crate::attention::decode::spec::DecodeAttention;
use crate::attention::prefill::spec::PrefillAttention;
use crate::attention::shape::AttentionShape;
use crate::kernel_spec::KernelSpec;
use crate::launch::{Cost, Launch};
use crate::layout::KvLayout;
use crate::step::{RowAddresses, Step};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::backend::KvType;
use doorbell_core::model::Model;
use doorbell_core::plan::{Attend, Plan};

/// Rows whose splits are spread over workgroups, and most splits that are.
const SPREAD: [u32; 2] = [8, 256];
/// Fewer rows than these take the kernel of single rows.
const MANY: u32 = 32;

/// True if the kernels take an operation.
pub(crate) fn supports(model: &Model<'_>, op: &Attend) -> bool {
    let group = &model.groups[op.kv.group.index()];
    let fits = |dim: u32| (8..=512).contains(&dim) && dim.is_multiple_of(8);
    fits(group.key_dim) && fits(group.value_dim) && op.heads.is_multiple_of(group.heads)
}

/// Splits of a sequence of `positions`.
fn splits(window: Option<u32>, positions: u32) -> u32 {
    let visible = window.map_or(positions, |window| window.saturating_add(PART - 1).min(positions.max(1)));
    (visible.saturating_sub(1) / PART + 1).div_ceil(WAVES)
}

/// Splits that are spread over workgroups at most, for any step of a model.
fn most_splits(model: &Model<'_>, window: Option<u32>) -> u32 {
    splits(window, model.hparams.context).min(SPREAD[1])
}

/// Bytes of scratch, counters not among them.
pub(crate) fn scratch_bytes(plan: &Plan<'_>, model: &Model<'_>, op: &Attend) -> u64 {
    let group = &model.groups[op.kv.group.index()];
    let spec = DecodeAttention { shape: shape(model, op, KvType::F32), spread: true, single: false };
    let rows = u64::from(plan.shape.rows.min(SPREAD[0]));
    let heads = u64::from(group.heads) * u64::from(spec.tiles() * spec.tile());
    rows * heads * u64::from(most_splits(model, op.window)) * u64::from(spec.head_bytes())
}

/// The shape of an operation.
fn shape(model: &Model<'_>, op: &Attend, kv: KvType) -> AttentionShape {
    let group = &model.groups[op.kv.group.index()];
    let layouts = [KvLayout::keys(group, kv), KvLayout::values(group, kv)];
    AttentionShape {
        kv_heads: group.heads,
        group: op.heads / group.heads,
        dims: [group.key_dim, group.value_dim],
        kv_type: kv.format(),
        pages: layouts.map(|layout| u32::try_from(layout.page_bytes()).unwrap_or(u32::MAX)),
        window: op.window,
        cap: op.soft_cap.unwrap_or(0.0).to_bits(),
        sinks: op.sinks.is_some(),
        gated: op.gate.is_some(),
    }
}

/// Positions that the last rows of a sequence of `positions` see, and the sum over these rows of positions seen: no row
/// sees positions after its own, or outside its window.
fn seen(window: Option<u32>, positions: u32, rows: u32) -> [u64; 2] {
    let window = window.unwrap_or(u32::MAX);
    let ends = positions.saturating_sub(rows) + 1..=positions;
    let looks = ends.map(|end| u64::from(end.min(window))).sum();
    [u64::from(window.saturating_add(rows - 1).min(positions)), looks]
}

/// The launches of an attention; `scratch` are counters and partial results.
pub(crate) fn attention(step: &Step<'_, '_>, op: &Attend, scratch: [u64; 2]) -> Vec<Launch> {
    let group = &step.model.groups[op.kv.group.index()];
    let rows = step.rows_of(op.query);
    let shape = shape(step.model, op, step.kv);
    let many = Some(PrefillAttention { shape }).filter(|flash| rows >= MANY && flash.fits());
    let splits = splits(op.window, step.positions);
    let spread = rows <= SPREAD[0] && splits > 1 && splits <= most_splits(step.model, op.window);
    let spec = DecodeAttention { shape, spread, single: many.is_some() };
    let RowAddresses { positions, tables } = step.row_addresses(op.query, op.kv.group);
    let pool = step.pool(op.kv.group);
    let layer = u64::from(op.kv.layer);
    let keys = pool.keys + layer * KvLayout::keys(group, step.kv).layer_bytes();
    let values = pool.values + layer * KvLayout::values(group, step.kv).layer_bytes();
    let mut buffers = vec![positions, tables, step.inputs.pages, step.tensor(op.query), keys, values];
    buffers.extend(op.sinks.map(|id| step.vector(id)));
    buffers.extend(op.gate.map(|id| step.tensor(id)));
    buffers.push(step.tensor(op.out));
    if spread {
        buffers.extend(scratch);
    }
    let mut arguments: Vec<ArgumentValue> = buffers.into_iter().map(ArgumentValue::Buffer).collect();
    arguments.push(ArgumentValue::Scalar(op.scale.to_bits()));
    if spread {
        arguments.push(ArgumentValue::Scalar(splits));
    }
    let [seen, looks] = seen(op.window, step.positions, rows);
    let elements = u64::from(group.heads) * u64::from(group.key_dim + group.value_dim);
    let outside = 4 * u64::from(rows) * u64::from(op.heads);
    let cost = Cost {
        read: elements * seen * step.kv.block_bytes() as u64 / step.kv.block_len() as u64
            + outside * u64::from(group.key_dim),
        written: outside * u64::from(group.value_dim),
        products: elements * looks * u64::from(shape.group),
    };
    // Workgroups that read the same keys and values run together.
    let groups = [spec.tiles() * group.heads, if spread { splits } else { 1 }, rows];
    let launch =
        |spec: KernelSpec, groups, arguments, waits, cost| Launch { spec, groups, arguments, waits, cost };
    let Some(many) = many else {
        return vec![launch(spec.into(), groups, arguments, true, cost)];
    };
    // Both take the same arguments; each row belongs to one of them.
    arguments.push(ArgumentValue::Scalar(rows));
    let none = Cost::default();
    vec![
        launch(many.into(), many.groups(rows), arguments.clone(), true, cost),
        launch(spec.into(), groups, arguments, false, none),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_see_what_is_before_them() {
        assert_eq!(seen(None, 4096, 1), [4096, 4096]);
        assert_eq!(seen(None, 512, 512), [512, 512 * 513 / 2]);
        assert_eq!(seen(Some(8), 100, 1), [8, 8]);
        assert_eq!(seen(Some(8), 100, 3), [10, 24]);
        assert_eq!(seen(Some(2), 3, 3), [3, 5]);
        // A step that is recorded for fewer positions than it has rows.
        assert_eq!(seen(None, 3, 8), [3, 6]);
    }
}
