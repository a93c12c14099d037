//! Attention: blocks of rows against KV heads, or single chunks of positions when there are few rows.
#![expect(unsafe_code, reason = "tasks of a phase write disjoint cells of shared buffers")]

use super::sizes::{BLOCK_QUERIES, partial_floats};
use super::step::Step;
use crate::attention::{Attention, CHUNK, QUERIES, State, Weight};
use crate::kv::KvPool;
use core::ops::Range;
use doorbell_core::plan::{Attend, PAGE_TOKENS, PageId};

/// Pages of a chunk.
const PAGES: usize = CHUNK / PAGE_TOKENS;

/// Rows of one sequence and the KV head they are attended with.
#[derive(Clone, Copy)]
struct Block<'s> {
    op: &'s Attend,
    pool: &'s KvPool<'s>,
    pages: &'s [PageId],
    /// First row of the query tensor, and rows.
    first: usize,
    rows: usize,
    kv_head: usize,
    /// Query heads of the KV head.
    group: usize,
}

impl Block<'_> {
    /// Row and query head of query `index`.
    fn query(&self, index: usize) -> (usize, usize) {
        (self.first + index / self.group, self.kv_head * self.group + index % self.group)
    }
}

impl<'s> Step<'s, '_> {
    pub(super) fn attend(&mut self, op: &'s Attend) {
        let pool = &self.context.pools[op.kv.group.index()];
        let rows = self.rows(op.query);
        let group = op.heads as usize / pool.heads();
        self.find_blocks(op, rows, (BLOCK_QUERIES / group).max(1));
        let tasks = self.local.attention.blocks.len() * pool.heads();
        let chunks = (0..rows).map(|row| self.position(op, row) as usize / CHUNK + 1).max().unwrap_or(0);
        let needed = rows * op.heads as usize * chunks * partial_floats(pool.shape());
        if chunks > 1 && tasks < 2 * self.team.threads() && needed <= self.context.partial_floats {
            return self.attend_by_chunks(op, rows, chunks, group);
        }
        for task in self.team.tasks(tasks) {
            let block = self.block(op, task, group);
            self.attend_block(block);
        }
        self.team.barrier();
    }

    /// Position of a query row in its sequence.
    fn position(&self, op: &Attend, row: usize) -> u32 {
        self.context.places[self.batch_row(op.query, row)].1
    }

    fn sequence(&self, op: &Attend, row: usize) -> u32 {
        self.context.places[self.batch_row(op.query, row)].0
    }

    /// Cuts the rows into blocks of one sequence each.
    fn find_blocks(&mut self, op: &Attend, rows: usize, most: usize) {
        self.local.attention.blocks.clear();
        let mut first = 0;
        while first < rows {
            let sequence = self.sequence(op, first);
            let end = (first + most).min(rows);
            let same = (first..end).take_while(|&row| self.sequence(op, row) == sequence).count();
            self.local.attention.blocks.push((first as u32, same as u32));
            first += same;
        }
    }

    fn block(&self, op: &'s Attend, task: usize, group: usize) -> Block<'s> {
        let pool = &self.context.pools[op.kv.group.index()];
        let (first, rows) = self.local.attention.blocks[task / pool.heads()];
        let pages = self.context.batch.tables.of(self.sequence(op, first as usize), op.kv.group);
        let (first, rows) = (first as usize, rows as usize);
        Block { op, pool, pages, first, rows, kv_head: task % pool.heads(), group }
    }

    /// Positions that a row sees.
    fn visible(&self, op: &Attend, row: usize) -> Range<u32> {
        let end = self.position(op, row) + 1;
        op.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// All chunks of a block, in order.
    fn attend_block(&mut self, block: Block<'s>) {
        let stride = block.pool.shape().value_stride;
        let queries = block.rows * block.group;
        let sinks = block.op.sinks.map(|id| self.context.model.vector(id));
        let memory = &mut self.local.attention;
        memory.weights.clear();
        memory.weights.resize(queries, Weight { max: 0.0, sum: 0.0 });
        for (index, values) in memory.sums.floats_mut().chunks_exact_mut(stride).take(queries).enumerate() {
            let sink = sinks.map(|sinks| sinks[block.query(index).1]);
            State { weight: &mut memory.weights[index], values }.start(sink);
        }
        let rows = block.first..block.first + block.rows;
        let low = rows.clone().map(|row| self.visible(block.op, row).start).min().unwrap_or(0) as usize;
        let high = rows.map(|row| self.visible(block.op, row).end).max().unwrap_or(0) as usize;
        for chunk in low / CHUNK..high.div_ceil(CHUNK) {
            let mut first = 0;
            while first < queries {
                let count = self.tile(block, first, chunk);
                let memory = &mut self.local.attention;
                for t in 0..count.1 {
                    let sums = &mut memory.sums.floats_mut()[(first + t) * stride..(first + t + 1) * stride];
                    let values = &memory.values.floats()[t * stride..(t + 1) * stride];
                    State { weight: &mut memory.weights[first + t], values: sums }.merge(count.0[t], values);
                }
                first += count.1;
            }
        }
        for index in 0..queries {
            let (row, head) = block.query(index);
            let dim = block.pool.shape().value_dim;
            // SAFETY: this task's rows and heads.
            let out = unsafe { self.write(block.op.out, row, head * dim, dim) };
            let memory = &mut self.local.attention;
            let values = &mut memory.sums.floats_mut()[index * stride..(index + 1) * stride];
            State { weight: &mut memory.weights[index], values }.finish(out);
        }
    }

    /// The widest tile of queries from `first` on, over one chunk; how many it was.
    fn tile(&mut self, block: Block<'s>, first: usize, chunk: usize) -> ([Weight; QUERIES], usize) {
        let left = block.rows * block.group - first;
        let mut weights = [Weight { max: 0.0, sum: 0.0 }; QUERIES];
        let count = match left {
            QUERIES.. => self.tile_of::<QUERIES>(block, first, chunk, &mut weights),
            4.. => self.tile_of::<4>(block, first, chunk, &mut weights),
            3 => self.tile_of::<3>(block, first, chunk, &mut weights),
            2 => self.tile_of::<2>(block, first, chunk, &mut weights),
            _ => self.tile_of::<1>(block, first, chunk, &mut weights),
        };
        (weights, count)
    }

    fn tile_of<const T: usize>(
        &mut self,
        block: Block<'s>,
        first: usize,
        chunk: usize,
        weights: &mut [Weight; QUERIES],
    ) -> usize {
        let (op, shape) = (block.op, block.pool.shape());
        let queries = core::array::from_fn(|t| {
            let (row, head) = block.query(first + t);
            // SAFETY: queries are not written in this phase.
            let query = unsafe { self.read(op.query, row) };
            &query[head * shape.key_dim..(head + 1) * shape.key_dim]
        });
        let visible: [Range<u32>; T] = core::array::from_fn(|t| self.visible(op, block.query(first + t).0));
        let end = visible.iter().map(|range| range.end).max().unwrap_or(0) as usize;
        let mut parts = [core::ptr::null(); PAGES];
        let start = chunk * PAGES;
        let count = end.div_ceil(PAGE_TOKENS).saturating_sub(start).min(PAGES);
        for (part, &page) in parts.iter_mut().zip(&block.pages[start..start + count]) {
            *part = block.pool.part(page, op.kv, block.kv_head).cast_const();
        }
        let memory = &mut self.local.attention;
        let attention = Attention {
            shape,
            queries,
            visible,
            first: (chunk * CHUNK) as u32,
            pages: &parts[..count],
            scale: op.scale,
            soft_cap: op.soft_cap,
            scores: memory.scores.floats_mut(),
            values: memory.values.floats_mut(),
        };
        // SAFETY: the parts are the pool's; keys and values are not written in this phase.
        let found: [Weight; T] = self.context.isa.run(unsafe { attention.check() });
        weights[..T].copy_from_slice(&found);
        T
    }

    /// Two phases: each chunk by itself, then each query's chunks in order.
    fn attend_by_chunks(&mut self, op: &'s Attend, rows: usize, chunks: usize, group: usize) {
        let pool = &self.context.pools[op.kv.group.index()];
        let (stride, size) = (pool.shape().value_stride, partial_floats(pool.shape()));
        let blocks = self.local.attention.blocks.len() * pool.heads();
        let heads = op.heads as usize;
        let place = |row: usize, head: usize, chunk: usize| ((row * heads + head) * chunks + chunk) * size;
        for task in self.team.tasks(blocks * chunks) {
            let block = self.block(op, task / chunks, group);
            let chunk = task % chunks;
            let mut first = 0;
            while first < block.rows * group {
                let (weights, count) = self.tile(block, first, chunk);
                for (t, weight) in weights.iter().enumerate().take(count) {
                    let (row, head) = block.query(first + t);
                    // SAFETY: this task's rows, heads and chunk.
                    let partial = unsafe { self.context.partials.write(place(row, head, chunk), size) };
                    partial[..stride]
                        .copy_from_slice(&self.local.attention.values.floats()[t * stride..(t + 1) * stride]);
                    partial[stride] = weight.max;
                    partial[stride + 1] = weight.sum;
                }
                first += count;
            }
        }
        self.team.barrier();
        let sinks = op.sinks.map(|id| self.context.model.vector(id));
        for task in self.team.tasks(rows * heads) {
            let (row, head) = (task / heads, task % heads);
            let mut weight = Weight { max: 0.0, sum: 0.0 };
            let values = &mut self.local.attention.sums.floats_mut()[..stride];
            let mut state = State { weight: &mut weight, values };
            state.start(sinks.map(|sinks| sinks[head]));
            for chunk in 0..chunks {
                // SAFETY: written in the phase before.
                let partial = unsafe { self.context.partials.read(place(row, head, chunk), size) };
                let weight = Weight { max: partial[stride], sum: partial[stride + 1] };
                state.merge(weight, &partial[..stride]);
            }
            let dim = pool.shape().value_dim;
            let tensor = self.context.plan.tensor(op.out);
            let at = tensor.offset + row * tensor.width as usize + head * dim;
            // SAFETY: this task's row and head.
            state.finish(unsafe { self.context.arena.write(at, dim) });
        }
        self.team.barrier();
    }
}
