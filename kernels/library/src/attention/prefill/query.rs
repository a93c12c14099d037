//! Queries of matrix attention: the query of a lane, and all of a wave as fragments.

use super::spec::{PrefillAttention, QUERIES};
use crate::attention::softmax::Window;
use crate::builder_ext::BuilderExt;
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Fragment, Value, Width, global, lds};

/// A lane's query, all values per lane.
pub(crate) struct LaneQuery {
    /// Number of the row in the workgroup.
    pub(crate) index: Value,
    /// Row of the batch.
    pub(crate) row: Value,
    /// Query head in the row.
    pub(crate) head: Value,
    /// True if row and head exist.
    pub(crate) real: Value,
    /// First position that it sees.
    pub(crate) first: Value,
    /// Positions after that one.
    pub(crate) span: Value,
    /// Lane modulo 16.
    within: Value,
    /// Lane divided by 16.
    pub(crate) half: Value,
    /// Row of a fragment that the lane loads.
    pub(crate) fragment_row: Value,
}

/// Queries as fragments.
pub(crate) enum QueryOperands {
    /// By block of sixteen elements.
    Kept(Vec<Value>),
    /// Byte offset of the lane's row in LDS.
    Local(Value),
}

impl LaneQuery {
    /// The lane's query; `first_row` is the workgroup's first row, `positions` those of all rows.
    pub(crate) fn new(
        k: &mut Builder,
        spec: PrefillAttention,
        positions: Value,
        first_row: Value,
        rows: Value,
        gfx12: bool,
    ) -> Self {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.eval(lane & (QUERIES - 1)), k.eval(lane >> 4));
        let slot = k.eval(within & (spec.slots() - 1));
        let index = k.eval(within / spec.slots() + wave * (QUERIES / spec.slots()));
        let tile = k.workgroup_id(Axis::Z);
        let ahead = k.eval(tile * QUERIES);
        let slot_head = k.add(slot, ahead);
        let (group, last_head) = (k.int(spec.shape.group), k.int(spec.shape.group - 1));
        let has_head = k.lt_u(slot_head, group);
        let group_head = k.min_u(slot_head, last_head);
        let number = k.workgroup_id(Axis::Y);
        let before = k.eval(number * spec.shape.group);
        let head = k.add(group_head, before);
        let last = k.eval(rows - 1);
        let own_row = k.add(first_row, index);
        let has_row = k.lt_u(own_row, rows);
        let real = k.both(has_head, has_row);
        let row = k.min_u(own_row, last);
        let position = k.read_int(positions, row << 2);
        let first = Window(spec.shape.window).first(k, position);
        let span = k.sub(position, first);
        // Rows of accumulators alternate between the halves on gfx11; loading A's rows in this order makes the
        // registers of a lane consecutive rows, as they are on gfx12.
        let fragment_row = if gfx12 { within } else { k.eval(((within & 1) << 3) + (within >> 1)) };
        Self { index, row, head, real, first, span, within, half, fragment_row }
    }
}

impl QueryOperands {
    /// Bytes from query to query in LDS.
    pub(crate) fn stride(spec: PrefillAttention) -> u32 {
        2 * spec.shape.dims[0] + 16
    }

    /// Queries in f16: in registers, or in the wave's part of LDS from `local` on. They are multiplied with the factor
    /// of scores first, so that they do not overflow. `source` are the queries and that factor.
    pub(crate) fn new(
        k: &mut Builder,
        spec: PrefillAttention,
        own: &LaneQuery,
        source: [Value; 2],
        local: Option<u32>,
        gfx12: bool,
    ) -> Self {
        let [key, _] = spec.shape.dims;
        let start = k.eval((own.row * spec.shape.heads() + own.head) * (4 * key));
        // A lane of gfx12 and one that writes LDS take eight elements of sixteen.
        let own_half = k.eval(start + (own.half << 5));
        let Some(local) = local else {
            let (from, quads) = if gfx12 { (own_half, 2) } else { (start, 4) };
            let fragments = (0..key / 16).map(|number| {
                let pairs = rounded(k, source, from, 64 * number, quads);
                k.fragment(&pairs, Fragment::Half)
            });
            return Self::Kept(fragments.collect());
        };
        let wave = k.wave();
        let row = k.eval((wave * QUERIES + own.within) * Self::stride(spec) + local);
        let target = k.eval(row + (own.half << 4));
        for number in 0..key / 16 {
            let pairs = rounded(k, source, own_half, 64 * number, 2);
            let packed = k.pack(&pairs);
            k.store(lds(target).plus(32 * number), Width::Dwords(4), packed);
        }
        // The first barrier of a step orders this before the loads.
        Self::Local(if gfx12 { target } else { row })
    }
}

/// Four floats times `quads`, multiplied with a factor and rounded to pairs of f16.
fn rounded(
    k: &mut Builder,
    [base, factor]: [Value; 2],
    from: Value,
    constant: u32,
    quads: u32,
) -> Vec<Value> {
    let mut pairs = Vec::new();
    for quad in 0..quads {
        let loaded = k.load(global(base, from).plus(constant + 16 * quad), Width::Dwords(4), Elem::Float);
        let four = k.elements(loaded, 4);
        for pair in four.chunks(2) {
            let [low, high] = [0, 1].map(|which| k.fmul(pair[which], factor));
            pairs.push(k.half_bits(low, high));
        }
    }
    pairs
}
