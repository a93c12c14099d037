//! Queries of matrix attention: which one a lane has, and all of a wave as fragments.

use crate::attention::prefill::kernel::{PrefillAttention, QUERIES};
use crate::attention::softmax::Window;
use crate::builder_ext::{BuilderExt, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Axis, Builder, Elem, Fragment, Value, Width};

/// What a lane knows of its query, all values per lane.
pub(crate) struct LaneQuery {
    /// Number of the row in the workgroup.
    pub(crate) index: Value,
    /// Row of the batch.
    pub(crate) row: Value,
    /// LaneQuery head in the row.
    pub(crate) head: Value,
    /// Whether it is one.
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
    pub(crate) place: Value,
}

/// Queries as fragments.
pub(crate) enum QueryOperands {
    /// By block of sixteen elements.
    Kept(Vec<Value>),
    /// Byte offset of the lane's row in LDS.
    Local(Value),
}

impl LaneQuery {
    /// The lane's query. `[positions, first, rows]`: positions of all rows, the workgroup's first row, rows.
    pub(crate) fn new(
        k: &mut Builder,
        flash: PrefillAttention,
        [positions, first, rows]: [Value; 3],
        gfx12: bool,
    ) -> Self {
        let (lane, wave) = (k.lane(), k.wave());
        let (within, half) = (k.mask(lane, QUERIES - 1), k.right(lane, 4));
        let slot = k.mask(within, flash.slots() - 1);
        let index = k.right(within, flash.slots().trailing_zeros());
        let ahead = k.times(wave, QUERIES / flash.slots());
        let index = k.add(index, ahead);
        let tile = k.workgroup_id(Axis::Z);
        let tile = k.times(tile, QUERIES);
        let head = k.add(slot, tile);
        let (group, last_head) = (k.int(flash.shape.group), k.int(flash.shape.group - 1));
        let real = k.lt_u(head, group);
        let head = k.min_u(head, last_head);
        let number = k.workgroup_id(Axis::Y);
        let before = k.times(number, flash.shape.group);
        let head = k.add(head, before);
        let one = k.int(1);
        let last = k.sub(rows, one);
        let row = k.add(first, index);
        let exists = k.lt_u(row, rows);
        let real = k.both(real, exists);
        let row = k.min_u(row, last);
        let place = k.left(row, 2);
        let position = k.load(k.global(positions, place), Width::Dwords(1), Elem::Int);
        let first = Window(flash.shape.window).first(k, position);
        let span = k.sub(position, first);
        // Rows of accumulators alternate between the halves on gfx11; loading A's rows in this order makes the
        // registers of a lane consecutive rows, as they are on gfx12.
        let place = if gfx12 {
            within
        } else {
            let odd = k.mask(within, 1);
            let odd = k.left(odd, 3);
            let pair = k.right(within, 1);
            k.add(odd, pair)
        };
        Self { index, row, head, real, first, span, within, half, place }
    }
}

impl QueryOperands {
    /// Bytes from query to query in LDS.
    pub(crate) fn stride(flash: PrefillAttention) -> u32 {
        2 * flash.shape.dims[0] + 16
    }

    /// Queries in f16: in registers, or in the wave's part of LDS from `local` on. They are multiplied with the score_factor
    /// of scores first, lest they overflow. `source` are the queries and that score_factor.
    pub(crate) fn new(
        k: &mut Builder,
        flash: PrefillAttention,
        own: &LaneQuery,
        source: [Value; 2],
        local: Option<u32>,
        gfx12: bool,
    ) -> Self {
        let [key, _] = flash.shape.dims;
        let start = k.times(own.row, flash.shape.heads());
        let start = k.add(start, own.head);
        let start = k.times(start, 4 * key);
        // A lane of gfx12 and one that writes LDS take eight elements of sixteen.
        let ahead = k.left(own.half, 5);
        let halved = k.add(start, ahead);
        let Some(local) = local else {
            let (from, quads) = if gfx12 { (halved, 2) } else { (start, 4) };
            let fragments = (0..key / 16).map(|number| {
                let pairs = rounded(k, source, from, 64 * number, quads);
                k.fragment(&pairs, Fragment::Half)
            });
            return Self::Kept(fragments.collect());
        };
        let wave = k.wave();
        let row = k.times(wave, QUERIES);
        let row = k.add(row, own.within);
        let row = k.times(row, Self::stride(flash));
        let row = k.plus(row, local);
        let ahead = k.left(own.half, 4);
        let to = k.add(row, ahead);
        for number in 0..key / 16 {
            let pairs = rounded(k, source, halved, 64 * number, 2);
            let pairs = k.pack(&pairs);
            k.store(at(k.lds(to), 32 * number), Width::Dwords(4), pairs);
        }
        // The first barrier of a step orders this before the loads.
        Self::Local(if gfx12 { to } else { row })
    }
}

/// Four floats times `quads`, multiplied with a score_factor and rounded to pairs of f16.
fn rounded(
    k: &mut Builder,
    [base, score_factor]: [Value; 2],
    from: Value,
    constant: u32,
    quads: u32,
) -> Vec<Value> {
    let mut pairs = Vec::new();
    for quad in 0..quads {
        let address = at(k.global(base, from), constant + 16 * quad);
        let four = k.load(address, Width::Dwords(4), Elem::Float);
        let four = k.elements(four, 4);
        for pair in four.chunks(2) {
            let [low, high] = [0, 1].map(|which| k.fmul(pair[which], score_factor));
            let pair = k.half_pair(low, high);
            pairs.push(k.bits(pair, Elem::Int));
        }
    }
    pairs
}
