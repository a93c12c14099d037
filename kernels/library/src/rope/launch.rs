//! Launches of the work on heads, and its arguments inside projections that finish their heads themselves.

use crate::launch::{Cost, Launch};
use crate::layout::KvLayout;
use crate::rope::spec::{CacheSpec, HeadPart, HeadsSpec, RotationSpec};
use crate::step::{RowAddresses, Step};
use alloc::vec::Vec;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::model::Pairing;
use doorbell_core::plan::{Epilogue, GroupId, KvSlot, Norm, Part, Project, RopeId, TensorId};

/// A part with its addresses.
pub(crate) struct HeadLaunch {
    /// The work on it.
    pub(crate) part: HeadPart,
    input: u64,
    norm: Option<Norm>,
    rope: Option<RopeId>,
    /// Cache of the layer.
    cache: Option<u64>,
    /// Layer group of the cache.
    group: Option<GroupId>,
}

/// Offset in scratch of a part's products of keys or values: bytes of the parts before.
pub(crate) fn scratch_offset(op: &Project, part: usize, rows: u32) -> u64 {
    let before = op.parts.iter().take(part);
    let width = |epilogue: &Epilogue, rows: u32| match epilogue {
        Epilogue::Key { .. } | Epilogue::Value { .. } => rows,
        _ => 0,
    };
    before.map(|part| 4 * u64::from(rows) * u64::from(width(&part.epilogue, part.matrix.rows))).sum()
}

/// The work on the heads of a part, whose products are at `scratch` for keys and values; `None` if there is none.
pub(crate) fn head_launch(step: &Step<'_, '_>, part: &Part, scratch: u64) -> Option<HeadLaunch> {
    let cached = |slot: KvSlot, layout: KvLayout, pool: u64| {
        let spec = CacheSpec { ty: step.kv.format(), page_bytes: layout.page_bytes() };
        (Some(spec), Some(pool + layout.layer_bytes() * u64::from(slot.layer)))
    };
    match part.epilogue {
        Epilogue::Query { norm, rope, head_dim, out, gate } if norm.is_some() || rope.is_some() => {
            // Each head may have a gate behind it, as long.
            let rows = if gate.is_some() { 2 * head_dim } else { head_dim };
            let part = head_part(step, part.matrix.rows / rows, head_dim, norm, rope);
            Some(HeadLaunch { part, input: step.tensor(out), norm, rope, cache: None, group: None })
        }
        Epilogue::Key { norm, rope, kv } => {
            let layout = KvLayout::keys(&step.model.groups[kv.group.index()], step.kv);
            let (spec, cache) = cached(kv, layout, step.pool(kv.group).keys);
            let own = head_part(step, layout.heads, layout.dim, norm, rope);
            let part = HeadPart { cache: spec, ..own };
            Some(HeadLaunch { part, input: scratch, norm, rope, cache, group: Some(kv.group) })
        }
        Epilogue::Value { norm, kv } => {
            let layout = KvLayout::values(&step.model.groups[kv.group.index()], step.kv);
            let (spec, cache) = cached(kv, layout, step.pool(kv.group).values);
            let own = head_part(step, layout.heads, layout.dim, norm, None);
            let part = HeadPart { cache: spec, ..own };
            Some(HeadLaunch { part, input: scratch, norm, rope: None, cache, group: Some(kv.group) })
        }
        _ => None,
    }
}

/// Addresses of positions, page-table starts and pages for the rows of a projection.
pub(crate) fn batch_values(
    step: &Step<'_, '_>,
    input: TensorId,
    heads: &[&HeadLaunch],
) -> [ArgumentValue; 3] {
    let group = heads.iter().find_map(|head| head.group).unwrap_or(GroupId(0));
    let RowAddresses { positions, tables } = step.row_addresses(input, group);
    [positions, tables, step.inputs.pages].map(ArgumentValue::Buffer)
}

impl HeadLaunch {
    /// Values of the arguments that [`HeadPart::arguments`] declares.
    pub(crate) fn values(&self, step: &Step<'_, '_>, values: &mut Vec<ArgumentValue>) {
        if let Some(norm) = self.norm {
            values.push(ArgumentValue::Buffer(step.vector(norm.weight)));
            values.push(ArgumentValue::Scalar(norm.eps.to_bits()));
        }
        values.extend(self.rope.map(|id| ArgumentValue::Buffer(step.rope(id))));
        values.extend(self.cache.map(ArgumentValue::Buffer));
    }
}

/// The launch that finishes heads of a projection whose products are at `scratch`; `None` where there are none.
pub(crate) fn finish(step: &Step<'_, '_>, op: &Project, scratch: u64) -> Option<Launch> {
    let rows = step.rows_of(op.input);
    let parts = op.parts.iter().enumerate();
    let launches: Vec<HeadLaunch> = parts
        .filter_map(|(index, part)| head_launch(step, part, scratch + scratch_offset(op, index, rows)))
        .collect();
    (!launches.is_empty()).then(|| launch(step, op.input, rows, &launches))
}

/// True if the kernel takes heads of `dim` elements.
pub(crate) fn supports(dim: u32) -> bool {
    (8..=512).contains(&dim) && dim.is_multiple_of(8)
}

fn head_part(
    step: &Step<'_, '_>,
    heads: u32,
    dim: u32,
    norm: Option<Norm>,
    rope: Option<RopeId>,
) -> HeadPart {
    let rope = rope.map(|id| {
        let rope = &step.model.ropes[id.index()];
        RotationSpec { pairs: rope.frequencies.len() as u32, adjacent: rope.pairing == Pairing::Adjacent }
    });
    HeadPart { heads, dim, norm: norm.is_some(), rope, cache: None }
}

fn launch(step: &Step<'_, '_>, input: TensorId, rows: u32, launches: &[HeadLaunch]) -> Launch {
    let mut values = batch_values(step, input, &launches.iter().collect::<Vec<_>>()).to_vec();
    let mut cost = Cost::default();
    for head in launches {
        values.push(ArgumentValue::Buffer(head.input));
        head.values(step, &mut values);
        let elements = u64::from(head.part.heads) * u64::from(head.part.dim) * u64::from(rows);
        cost.read += 4 * elements;
        let (bytes, block) =
            head.part.cache.map_or((4, 1), |cache| (cache.ty.block_bytes(), cache.ty.block_len()));
        cost.written += elements * bytes as u64 / block as u64;
    }
    let parts: Vec<HeadPart> = launches.iter().map(|head| head.part).collect();
    let heads = parts.iter().map(|part| part.heads).sum();
    Launch {
        spec: HeadsSpec { parts }.into(),
        groups: [heads, rows, 1],
        arguments: values,
        waits: true,
        cost,
    }
}
