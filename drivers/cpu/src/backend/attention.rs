//! Attention: blocks of rows against KV heads, or single chunks of positions when there are few rows.

use super::sizes::{BLOCK_QUERIES, partial_floats};
use super::step::Step;
use crate::attention::{Attention, CHUNK, QUERIES, State, Weight};
use crate::phase::{Phase, Phases, Region, Share};
use core::ops::Range;
use doorbell_core::plan::{Attend, PAGE_TOKENS, PageId};

/// Pages of a chunk.
const PAGES: usize = CHUNK / PAGE_TOKENS;

/// Sizes of an attention operation.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    kv_heads: usize,
    /// Query heads of a KV head.
    group: usize,
    /// Rows of a block at most.
    most: usize,
    /// The first chunk that any row sees.
    first_chunk: usize,
    /// Chunks from there to the end of the longest sequence.
    chunks: usize,
    /// Floats of a query's partial result.
    partial: usize,
}

/// Rows of one sequence and the KV head they are attended with.
#[derive(Clone, Copy)]
struct Block<'s> {
    op: &'s Attend,
    pages: &'s [PageId],
    /// First row of the query tensor, and rows.
    first: usize,
    rows: usize,
    kv_head: usize,
    /// Query heads of the KV head.
    group: usize,
}

impl Block<'_> {
    /// Row of query `index`.
    fn row(&self, index: usize) -> usize {
        self.first + index / self.group
    }

    /// Query head of query `index`.
    fn head(&self, index: usize) -> usize {
        self.kv_head * self.group + index % self.group
    }
}

/// Queries of a block, and the chunk they meet.
#[derive(Clone, Copy)]
struct Tile {
    /// First query of the block.
    first: usize,
    chunk: usize,
}

impl<'s> Step<'s, '_> {
    pub(super) fn attend(&mut self, phases: &mut Phases<'_>, op: &'s Attend) {
        let context = self.context;
        let layout = &context.pool(op.kv.group).layout;
        let (rows, kv_heads) = (context.rows(op.query), layout.heads());
        let group = op.heads as usize / kv_heads;
        let seen = (0..rows).map(|row| self.visible(op, row));
        let (low, high) =
            seen.fold((u32::MAX, 0), |(low, high), seen| (low.min(seen.start), high.max(seen.end)));
        let first_chunk = (low.min(high) as usize) / CHUNK;
        let chunks = (high as usize).div_ceil(CHUNK) - first_chunk;
        let most = (BLOCK_QUERIES / group).max(1);
        let partial = partial_floats(layout.shape());
        let shape = Shape { rows, kv_heads, group, most, first_chunk, chunks, partial };
        let tasks = self.blocks(op, shape) * kv_heads;
        let needed = rows * op.heads as usize * chunks * shape.partial;
        if chunks > 1 && tasks < 2 * phases.threads() && needed <= context.partial_floats {
            self.attend_chunks(phases, op, shape);
            return self.merge_chunks(phases, op, shape);
        }
        let dim = group * layout.shape().value_dim;
        // A task is a row and a KV head; a block takes several.
        let cuts = [context.region(op.out).by_cells(kv_heads * dim, dim)];
        let phase = phases.open(&cuts);
        while let Some(mut task) =
            phase.next_run(|first, left| self.block_rows(op, shape, first % rows, left))
        {
            let kv_head = task.first() / rows;
            let block = self.block(op, shape, task.first() % rows, task.count(), kv_head);
            self.attend_block(&phase, block, &mut task.share(0));
        }
        phase.end();
    }

    /// Position of a query row in its sequence.
    fn position(&self, op: &Attend, row: usize) -> u32 {
        self.context.position(op.query, row).position
    }

    /// Rows of a block that begins at row `first`: of one sequence, and no more than `left`.
    fn block_rows(&self, op: &Attend, shape: Shape, first: usize, left: usize) -> usize {
        let sequence = |row: usize| self.context.position(op.query, row).sequence;
        let end = shape.rows.min(first + left.min(shape.most));
        (first..end).take_while(|&row| sequence(row) == sequence(first)).count()
    }

    /// Number of blocks of all rows.
    fn blocks(&self, op: &Attend, shape: Shape) -> usize {
        let (mut count, mut row) = (0, 0);
        while row < shape.rows {
            row += self.block_rows(op, shape, row, shape.rows);
            count += 1;
        }
        count
    }

    fn block(&self, op: &'s Attend, shape: Shape, first: usize, rows: usize, kv_head: usize) -> Block<'s> {
        let at = self.context.position(op.query, first);
        let pages = self.context.batch.tables.of(at.sequence, op.kv.group);
        Block { op, pages, first, rows, kv_head, group: shape.group }
    }

    /// Positions that a row sees.
    fn visible(&self, op: &Attend, row: usize) -> Range<u32> {
        let end = self.position(op, row) + 1;
        op.window.map_or(0, |window| end.saturating_sub(window))..end
    }

    /// All chunks of a block, in order.
    fn attend_block(&mut self, phase: &Phase<'_>, block: Block<'s>, out: &mut Share<'_>) {
        let shape = *self.context.pool(block.op.kv.group).layout.shape();
        let (stride, dim) = (shape.value_stride, shape.value_dim);
        let queries = block.rows * block.group;
        let sinks = block.op.sinks.map(|id| self.context.model.vector(id));
        let memory = &mut self.work.attention;
        memory.weights.clear();
        memory.weights.resize(queries, Weight { max: 0.0, sum: 0.0 });
        for (index, values) in memory.sums.floats_mut().chunks_exact_mut(stride).take(queries).enumerate() {
            let sink = sinks.map(|sinks| sinks[block.head(index)]);
            State { weight: &mut memory.weights[index], values }.start(sink);
        }
        let rows = block.first..block.first + block.rows;
        let low = rows.clone().map(|row| self.visible(block.op, row).start).min().unwrap_or(0) as usize;
        let high = rows.map(|row| self.visible(block.op, row).end).max().unwrap_or(0) as usize;
        for chunk in low / CHUNK..high.div_ceil(CHUNK) {
            let mut first = 0;
            while first < queries {
                let mut weights = [Weight { max: 0.0, sum: 0.0 }; QUERIES];
                let count = self.tile(phase, block, Tile { first, chunk }, &mut weights);
                let memory = &mut self.work.attention;
                let values = memory.values.floats().chunks_exact(stride);
                let sums = memory.sums.floats_mut()[first * stride..].chunks_exact_mut(stride);
                for (t, (sums, values)) in sums.zip(values).take(count).enumerate() {
                    State { weight: &mut memory.weights[first + t], values: sums }.merge(weights[t], values);
                }
                first += count;
            }
        }
        let memory = &mut self.work.attention;
        for (index, values) in memory.sums.floats_mut().chunks_exact_mut(stride).take(queries).enumerate() {
            let heads = out.floats(index / block.group);
            let out = &mut heads[index % block.group * dim..][..dim];
            State { weight: &mut memory.weights[index], values }.finish(out);
        }
    }

    /// The widest tile of queries, over one chunk; returns the number of queries.
    fn tile(
        &mut self,
        phase: &Phase<'_>,
        block: Block<'s>,
        tile: Tile,
        weights: &mut [Weight; QUERIES],
    ) -> usize {
        match block.rows * block.group - tile.first {
            QUERIES.. => self.tile_of::<QUERIES>(phase, block, tile, weights),
            4.. => self.tile_of::<4>(phase, block, tile, weights),
            3 => self.tile_of::<3>(phase, block, tile, weights),
            2 => self.tile_of::<2>(phase, block, tile, weights),
            _ => self.tile_of::<1>(phase, block, tile, weights),
        }
    }

    fn tile_of<const T: usize>(
        &mut self,
        phase: &Phase<'_>,
        block: Block<'s>,
        Tile { first, chunk }: Tile,
        weights: &mut [Weight; QUERIES],
    ) -> usize {
        let (context, op) = (self.context, block.op);
        let pool = context.pool(op.kv.group);
        let shape = pool.layout.shape();
        let queries = core::array::from_fn(|t| {
            let (row, head) = (block.row(first + t), block.head(first + t));
            &context.read(phase, op.query, row)[head * shape.key_dim..(head + 1) * shape.key_dim]
        });
        let visible: [Range<u32>; T] = core::array::from_fn(|t| self.visible(op, block.row(first + t)));
        let end = visible.iter().map(|range| range.end).max().unwrap_or(0) as usize;
        let mut parts: [&[u8]; PAGES] = [&[]; PAGES];
        let start = chunk * PAGES;
        let count = end.div_ceil(PAGE_TOKENS).saturating_sub(start).min(PAGES);
        // A short sequence has no pages in chunks that only others reach.
        let pages = block.pages.get(start..start + count).unwrap_or_default();
        for (part, &page) in parts.iter_mut().zip(pages) {
            // Nothing is read of pages that are behind the window: any page stands for them.
            let page = if page == PageId::NONE { PageId(0) } else { page };
            let range = pool.layout.part(page, op.kv, block.kv_head);
            *part = phase.bytes(pool.buffer, range.start, range.len());
        }
        let memory = &mut self.work.attention;
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
        let found: [Weight; T] = context.isa.run(attention);
        weights[..T].copy_from_slice(&found);
        T
    }

    /// Each chunk by itself, its results to `partials`.
    fn attend_chunks(&mut self, phases: &mut Phases<'_>, op: &'s Attend, shape: Shape) {
        let Shape { rows, kv_heads, group, first_chunk, chunks, partial: size, .. } = shape;
        let stride = self.context.pool(op.kv.group).layout.shape().value_stride;
        let columns = kv_heads * chunks * group * size;
        // A task is a row, a KV head and a chunk.
        let partials = Region::floats(self.context.buffers.partials, 0, rows, columns);
        let cuts = [partials.by_cells(columns, group * size)];
        let phase = phases.open(&cuts);
        while let Some(mut task) =
            phase.next_run(|first, left| self.block_rows(op, shape, first % rows, left))
        {
            let (row, column) = (task.first() % rows, task.first() / rows);
            let block = self.block(op, shape, row, task.count(), column / chunks);
            let mut out = task.share(0);
            let mut first = 0;
            while first < block.rows * group {
                let mut weights = [Weight { max: 0.0, sum: 0.0 }; QUERIES];
                let tile = Tile { first, chunk: first_chunk + column % chunks };
                let count = self.tile(&phase, block, tile, &mut weights);
                let values = self.work.attention.values.floats().chunks_exact(stride);
                for (t, (weight, values)) in weights.iter().zip(values).take(count).enumerate() {
                    let index = first + t;
                    let partial = &mut out.floats(index / group)[index % group * size..][..size];
                    partial[..stride].copy_from_slice(values);
                    partial[stride] = weight.max;
                    partial[stride + 1] = weight.sum;
                }
                first += count;
            }
        }
        phase.end();
    }

    /// Each query's chunks, in order.
    fn merge_chunks(&mut self, phases: &mut Phases<'_>, op: &'s Attend, shape: Shape) {
        let Shape { rows, kv_heads, group, chunks, partial: size, .. } = shape;
        let context = self.context;
        let page = context.pool(op.kv.group).layout.shape();
        let (stride, dim) = (page.value_stride, page.value_dim);
        let sinks = op.sinks.map(|id| context.model.vector(id));
        // A task is a row and a query head.
        let cuts = [context.region(op.out).by_cells(op.heads as usize * dim, dim)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let (row, head) = (task.first() % rows, task.first() / rows);
            let mut weight = Weight { max: 0.0, sum: 0.0 };
            let values = &mut self.work.attention.sums.floats_mut()[..stride];
            let mut state = State { weight: &mut weight, values };
            state.start(sinks.map(|sinks| sinks[head]));
            for chunk in 0..chunks {
                let column = (head / group * chunks + chunk) * group + head % group;
                let first = (row * kv_heads * chunks * group + column) * size;
                let partial = phase.floats(context.buffers.partials, first, size);
                let weight = Weight { max: partial[stride], sum: partial[stride + 1] };
                state.merge(weight, &partial[..stride]);
            }
            state.finish(task.share(0).floats(0));
        }
        phase.end();
    }
}
