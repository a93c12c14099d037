//! Causal attention of many rows on WMMA, over the paged KV cache, with a running softmax in f32.
//!
//! A wave takes sixteen queries: heads of one group, of as many rows as fit. Scores are made transposed, so that a lane
//! has one query and its registers are positions; the sums over values are transposed too. The waves of a workgroup
//! share each step's keys and values (`tiles`). Rows of one sequence (they share the start of their page table) are
//! taken together; a row without such neighbors is left to the kernel of few rows (`decode`).

use super::query::{LaneQuery, QueryOperands};
use super::running::PrefillWork;
use super::spec::{PrefillAttention, QUERIES};
use super::tiles::{KvTiles, PositionRange};
use crate::attention::shape::AttentionInputs;
use crate::attention::softmax::{Window, is_single, score_factor};
use crate::builder_ext::BuilderExt;
use crate::kernel::{Kernel, SpecError};
use alloc::format;
use alloc::string::String;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value};
use doorbell_compiler::isa::{Generation, Target};

/// The rows of a workgroup.
#[derive(Clone, Copy)]
struct GroupRows {
    /// The first row.
    first: Value,
    /// Rows of the batch.
    rows: Value,
    /// Rows of the workgroup.
    count: Value,
    sinks: Option<Value>,
    /// Output gates, as many as results.
    gate: Option<Value>,
    out: Value,
}

impl Kernel for PrefillAttention {
    fn name(&self) -> String {
        format!("flash_{}", self.shape.name())
    }

    /// Arguments: [`AttentionInputs`], sinks and gates where there are any, results (f32 `[rows, heads, value]`), the factor on
    /// scores, rows.
    fn function(&self, target: Target) -> Result<Function, SpecError> {
        let mut k = Builder::new(&self.name(), 32 * self.waves());
        let inputs = AttentionInputs::new(&mut k);
        let sinks = self.shape.sinks.then(|| k.buffer("sinks"));
        let gate = self.shape.gated.then(|| k.buffer("gate"));
        let out = k.buffer("out");
        let (scale, rows) = (k.scalar("scale", Elem::Float), k.scalar("rows", Elem::Int));
        let gfx12 = target.generation() == Generation::Gfx12;
        let head = k.workgroup_id(Axis::Y);
        let tiles = KvTiles::new(&mut k, *self, inputs, head);
        let local = self.wide().then(|| k.local(self.waves() * QUERIES * QueryOperands::stride(*self)));
        let tile = k.workgroup_id(Axis::X);
        let first = k.eval(tile * self.rows());
        let own = LaneQuery::new(&mut k, *self, inputs.positions, first, rows, gfx12);
        let factor = score_factor(&mut k, scale, self.shape.cap);
        let operands = QueryOperands::new(&mut k, *self, &own, [inputs.query, factor], local, gfx12);
        let work = PrefillWork { spec: *self, tiles, own, operands, gfx12 };
        let left = k.sub(rows, first);
        let count = k.min_u(left, self.rows());
        self.sequences(&mut k, &work, inputs, GroupRows { first, rows, count, sinks, gate, out });
        Ok(k.finish())
    }
}

impl PrefillAttention {
    /// Takes the rows of one sequence after the other.
    fn sequences(self, k: &mut Builder, work: &PrefillWork, inputs: AttentionInputs, group: GroupRows) {
        let none = k.int(0);
        let _ = k.repeat(None, &[none], |k, inside| {
            let begin = k.first_lane(inside[0]);
            let row = k.add(group.first, begin);
            let offset = k.eval(row << 2);
            let table = k.read_uniform(inputs.tables, offset);
            let end = self.end(k, inputs.tables, group, begin, table);
            let single = is_single(k, inputs.tables, table, row, group.rows);
            k.when(!single, |k| {
                let earliest = k.read_uniform(inputs.positions, offset);
                let low = Window(self.shape.window).first(k, earliest);
                let last_row = group.first + end - 1;
                let last = k.read_uniform(inputs.positions, last_row << 2);
                let range = PositionRange { table, low, last };
                let initial = work.initial(k, group.sinks);
                let running = work.steps(k, &range, &initial);
                let index = work.own.index;
                let inside = k.eval(index.ge(begin) & index.lt(end) & work.own.real);
                work.write(k, inside, group.gate, group.out, &running);
            });
            let again = k.lt_u(end, group.count);
            (alloc::vec![end], again)
        });
    }

    /// The end of the rows that share `table`, counted in the workgroup like their `begin`.
    fn end(self, k: &mut Builder, tables: Value, group: GroupRows, begin: Value, table: Value) -> Value {
        let lane = k.lane();
        let last = k.eval(group.rows - 1);
        let mut end = group.count;
        for ahead in (0..self.rows()).step_by(32) {
            let index = k.eval(lane + ahead);
            let row = (group.first + index).min(last);
            let own = k.read_int(tables, row << 2);
            let found = own.ne(table) & index.gt(begin);
            let candidate = k.eval(found.select(index, group.count));
            end = k.min_u(end, candidate);
        }
        let first_end = k.reduce_wave(end, Alu::min_u);
        k.first_lane(first_end)
    }
}
