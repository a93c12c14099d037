//! Causal attention of many rows on WMMA, over the paged KV cache, with a running softmax in f32.
//!
//! A wave takes sixteen queries: heads of one group, of as many rows as fit. Scores are made transposed, so that a lane
//! has one query and its registers are positions; the sums over values are transposed too. The waves of a workgroup
//! share each step's keys and values (`tiles`). Rows of one sequence (they share the start of their page table) are
//! taken together; a row without such neighbors is left to the kernel of few rows (`attend`).

use crate::attention::kv_elements::supports;
use crate::attention::prefill::query::{LaneQuery, QueryOperands};
use crate::attention::prefill::running::PrefillWork;
use crate::attention::prefill::tiles::{KvTiles, PositionRange};
use crate::attention::shape::{AttentionShape, PAGE};
use crate::attention::softmax::{Window, is_single, score_factor};
use crate::builder_ext::BuilderExt;
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};
use doorbell_compiler::isa::{Generation, Target};
use doorbell_core::quant::Type;

/// Attention of many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrefillAttention {
    /// Heads, cache, what is seen; elements are multiples of 16.
    pub shape: AttentionShape,
}

/// Queries of a wave.
pub(crate) const QUERIES: u32 = 16;
/// Widest key that stays in registers as a query; others are read from LDS.
const KEPT: u32 = 128;
impl PrefillAttention {
    /// Slots for query heads of a row in a wave.
    pub(crate) fn slots(self) -> u32 {
        self.shape.group.min(QUERIES).next_power_of_two()
    }

    /// Workgroups that share a KV head and rows.
    fn head_tiles(self) -> u32 {
        self.shape.group.div_ceil(QUERIES)
    }

    /// Waves of a workgroup.
    pub(crate) fn waves(self) -> u32 {
        if self.wide() { 4 } else { 8 }
    }

    pub(crate) fn wide(self) -> bool {
        self.shape.dims.into_iter().max() > Some(KEPT)
    }

    /// Positions of a step: LDS holds that many keys and values.
    pub(crate) fn step(self) -> u32 {
        if self.wide() { PAGE / 2 } else { PAGE }
    }

    /// Rows of a workgroup.
    fn rows(self) -> u32 {
        self.waves() * QUERIES / self.slots()
    }

    /// Whether there is a kernel for such heads.
    pub(crate) fn fits(self) -> bool {
        let fits = |dim: u32| (16..=256).contains(&dim) && dim.is_multiple_of(16);
        self.shape.kv_type != Type::F32
            && self.shape.dims.into_iter().all(|dim| fits(dim) && supports(self.shape.kv_type, dim))
    }

    /// Workgroups for so many rows.
    pub fn groups(&self, rows: u32) -> [u32; 3] {
        [rows.div_ceil(self.rows()), self.shape.kv_heads, self.head_tiles()]
    }

    /// Unique name.
    pub(crate) fn name(self) -> String {
        format!("flash_{}", self.shape.name())
    }

    /// Arguments: positions, table starts and page tables of the rows, queries (f32 `[rows, heads, key]`), keys, values,
    /// sinks where there are any, results (f32 `[rows, heads, value]`), the score_factor on scores, rows.
    pub fn function(self, target: Target) -> Function {
        let mut k = Builder::new(&self.name(), 32 * self.waves());
        let [positions, tables, pages, query, keys, values] =
            ["positions", "tables", "pages", "query", "keys", "values"].map(|name| k.buffer(name));
        let sinks = self.shape.sinks.then(|| k.buffer("sinks"));
        let out = k.buffer("out");
        let (scale, rows) = (k.scalar("scale", Elem::Float), k.scalar("rows", Elem::Int));
        let gfx12 = target.generation() == Generation::Gfx12;
        let head = k.workgroup_id(Axis::Y);
        let tiles = KvTiles::new(&mut k, self, [pages, keys, values, head]);
        let local = self.wide().then(|| k.local(self.waves() * QUERIES * QueryOperands::stride(self)));
        let tile = k.workgroup_id(Axis::X);
        let first = k.times(tile, self.rows());
        let own = LaneQuery::new(&mut k, self, [positions, first, rows], gfx12);
        let score_factor = score_factor(&mut k, scale, self.shape.cap);
        let operands = QueryOperands::new(&mut k, self, &own, [query, score_factor], local, gfx12);
        let work = PrefillWork { flash: self, tiles, own, operands, gfx12 };
        let left = k.sub(rows, first);
        let most = k.int(self.rows());
        let count = k.min_u(left, most);
        let none = k.int(0);
        let _ = k.repeat(None, &[none], |k, inside| {
            let begin = k.first_lane(inside[0]);
            let row = k.add(first, begin);
            let place = k.left(row, 2);
            let table = k.load_uniform(k.global(tables, place), Width::Dwords(1), Elem::Int);
            let end = self.end(k, tables, [first, rows, begin, count, table]);
            let single = is_single(k, tables, [table, row, rows]);
            let crowd = k.negate(single);
            k.when(crowd, |k| {
                let earliest = k.load_uniform(k.global(positions, place), Width::Dwords(1), Elem::Int);
                let low = Window(self.shape.window).first(k, earliest);
                let behind = k.add(first, end);
                let one = k.int(1);
                let last = k.sub(behind, one);
                let last = k.left(last, 2);
                let last = k.load_uniform(k.global(positions, last), Width::Dwords(1), Elem::Int);
                let extent = PositionRange { table, low, last };
                let initial = work.initial(k, sinks);
                let running = work.steps(k, &extent, &initial);
                let after = k.ge_u(work.own.index, begin);
                let before = k.lt_u(work.own.index, end);
                let inside = k.both(after, before);
                let inside = k.both(inside, work.own.real);
                work.write(k, inside, out, &running);
            });
            let again = k.lt_u(end, count);
            (alloc::vec![end], again)
        });
        k.finish()
    }

    /// Where the rows that share `table` end, counted in the workgroup.
    fn end(self, k: &mut Builder, tables: Value, [first, rows, begin, count, table]: [Value; 5]) -> Value {
        let lane = k.lane();
        let one = k.int(1);
        let last = k.sub(rows, one);
        let mut end = count;
        for ahead in (0..self.rows()).step_by(32) {
            let index = k.plus(lane, ahead);
            let row = k.add(first, index);
            let row = k.min_u(row, last);
            let place = k.left(row, 2);
            let own = k.load(k.global(tables, place), Width::Dwords(1), Elem::Int);
            let other = k.ne(own, table);
            let later = k.gt_u(index, begin);
            let found = k.both(other, later);
            let index = k.select(found, index, count);
            end = k.min_u(end, index);
        }
        let end = k.reduce_wave(end, Alu::min_u);
        k.first_lane(end)
    }
}
