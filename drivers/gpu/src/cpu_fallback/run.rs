//! The operations, by core's scalar definitions.

use alloc::vec;
use alloc::vec::Vec;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Attend, Epilogue, Experts, Head, HeadResult, KvSlot, Matrix, Norm, Op, Part, Project, RopeId, Route,
    TensorId, WeightId,
};
use doorbell_core::quant;
use doorbell_core::reference::{
    AttendBuffers, Cache as _, Cached, Heads, ProductScratch, Products, attend_row, glu, product, rms_norm,
    rotate, route_row, sigmoid, soft_cap,
};
use doorbell_kernels::KvLayout;
use doorbell_kfd::memory::Buffer;

use super::device_kv::Slot;
use super::memory::Memory;
use crate::error::GpuError;

/// Executes operations on the host.
pub(crate) struct Host<'m, 'a> {
    model: &'m Model<'a>,
    scratch: ProductScratch<'m>,
}

impl<'m, 'a> Host<'m, 'a> {
    pub(crate) fn new(model: &'m Model<'a>, heap: Heap<'m>) -> Result<Self, OutOfMemory> {
        let cols = model.weights.iter().map(|weight| weight.cols).max().unwrap_or(0);
        Ok(Self { model, scratch: ProductScratch::new(cols, heap)? })
    }

    /// Runs one operation. Everything before it is complete and visible to the host.
    pub(crate) fn run(&mut self, op: &Op, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        match op {
            Op::Embed { table, scale, out } => self.embed(*table, *scale, *out, memory),
            Op::Select { input, out } => select(*input, *out, memory),
            Op::Project(op) => self.project(op, memory),
            Op::Attend(op) => self.attend(op, memory),
            Op::Route(op) => self.route(op, memory),
            Op::Experts(op) => self.experts(op, memory),
            Op::NormAdd { input, norm, to } => {
                let rows = self.normed(*input, Some(*norm), memory);
                let mut sums = memory.floats(*to);
                sums.iter_mut().zip(&rows).for_each(|(sum, y)| *sum += y);
                memory.put_floats(*to, &sums)
            }
            Op::Head(op) => self.head(op, memory),
        }
    }

    fn multiply(&mut self, matrix: &Matrix, expert: usize, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; matrix.rows as usize];
        product(self.model, matrix, expert, x, Products::Exact, &mut out, &mut self.scratch);
        out
    }

    /// All rows of an input, normalized if asked.
    fn normed(&self, id: TensorId, norm: Option<Norm>, memory: &Memory<'_, '_>) -> Vec<f32> {
        let rows = memory.floats(id);
        let Some(norm) = norm else { return rows };
        let (width, mut out) = (memory.width(id), rows.clone());
        for (x, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            rms_norm(x, self.model.vector(norm.weight), norm.eps, out);
        }
        out
    }

    fn embed(
        &self,
        table: WeightId,
        scale: f32,
        out: TensorId,
        memory: &mut Memory<'_, '_>,
    ) -> Result<(), GpuError> {
        let weight = self.model.weight(table);
        let width = memory.width(out);
        let mut rows = vec![0.0; memory.rows(out) * width];
        for (token, row) in memory.batch.tokens.iter().zip(rows.chunks_exact_mut(width)) {
            // The binder has checked type and length, the batch's check the token.
            let _ = quant::dequantize(weight.ty, weight.slice(0, token.0 as usize, 1), row);
            row.iter_mut().for_each(|x| *x *= scale);
        }
        memory.put_floats(out, &rows)
    }

    fn project(&mut self, op: &Project, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        let (rows, width) = (self.normed(op.input, op.norm, memory), memory.width(op.input));
        for part in &op.parts {
            let products: Vec<Vec<f32>> =
                rows.chunks_exact(width).map(|x| self.multiply(&part.matrix, 0, x)).collect();
            self.part(op.input, part, products, &rows, memory)?;
        }
        Ok(())
    }

    fn part(
        &mut self,
        input: TensorId,
        part: &Part,
        mut products: Vec<Vec<f32>>,
        rows: &[f32],
        memory: &mut Memory<'_, '_>,
    ) -> Result<(), GpuError> {
        match part.epilogue {
            Epilogue::Store { out } => memory.put_floats(out, &products.concat()),
            Epilogue::Add { to } => add(to, &products, |_| 1.0, memory),
            Epilogue::AddGated { to, gate } => {
                let gates = memory.floats(gate);
                add(to, &products, |row| sigmoid(gates[row]), memory)
            }
            Epilogue::Gate { up, glu: kind, out } => {
                let width = memory.width(input);
                for (gates, x) in products.iter_mut().zip(rows.chunks_exact(width)) {
                    let ups = self.multiply(&up, 0, x);
                    gates.iter_mut().zip(ups).for_each(|(gate, up)| *gate = glu(kind, *gate, up));
                }
                memory.put_floats(out, &products.concat())
            }
            Epilogue::Query { norm, rope, head_dim, out } => {
                for (row, heads) in products.iter_mut().enumerate() {
                    self.heads(head_dim, norm, rope, memory.place(input, row).1, heads);
                }
                memory.put_floats(out, &products.concat())
            }
            Epilogue::Key { norm, rope, kv } => {
                let head_dim = self.model.groups[kv.group.index()].key_dim;
                for (row, heads) in products.iter_mut().enumerate() {
                    self.heads(head_dim, norm, rope, memory.place(input, row).1, heads);
                }
                self.store(Cached::Key, input, kv, &products, memory)
            }
            Epilogue::Value { kv } => self.store(Cached::Value, input, kv, &products, memory),
        }
    }

    /// Per-head norm, then rotation.
    fn heads(&self, dim: u32, norm: Option<Norm>, rope: Option<RopeId>, position: u32, heads: &mut [f32]) {
        let rope = rope.map(|id| &self.model.ropes[id.index()]);
        let pairs = rope.map_or(0, |rope| rope.frequencies.len());
        let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
        if let Some(rope) = rope {
            rope.angles(position, &mut cos, &mut sin);
        }
        for head in heads.chunks_exact_mut(dim as usize) {
            if let Some(norm) = norm {
                let copy = head.to_vec();
                rms_norm(&copy, self.model.vector(norm.weight), norm.eps, head);
            }
            if let Some(rope) = rope {
                rotate(rope.pairing, head, &cos, &sin);
            }
        }
    }

    /// Writes keys or values of all rows.
    fn store(
        &self,
        which: Cached,
        input: TensorId,
        kv: KvSlot,
        products: &[Vec<f32>],
        memory: &mut Memory<'_, '_>,
    ) -> Result<(), GpuError> {
        let group = &memory.groups[kv.group.index()];
        let dim = if which == Cached::Key { group.key_dim } else { group.value_dim };
        let mut last: Option<(&Buffer, u64, Vec<u8>)> = None;
        for (row, values) in products.iter().enumerate() {
            let (sequence, position) = memory.place(input, row);
            let pages = memory.batch.tables.of(sequence, kv.group);
            let pool = &memory.pools[kv.group.index()];
            for (head, values) in values.chunks_exact(dim as usize).enumerate() {
                let slot = Slot {
                    buffers: [&pool.keys, &pool.values],
                    layouts: [KvLayout::keys(group, memory.kv), KvLayout::values(group, memory.kv)],
                    slot: kv,
                    pages,
                };
                let (_, at, bytes) = slot.encoded(which, position, head, values);
                let buffer = if which == Cached::Key { &pool.keys } else { &pool.values };
                if let Some(window) = buffer.window() {
                    window.write(at as usize, &bytes);
                }
                last = Some((buffer, at, bytes));
            }
        }
        match last {
            // The last one once more, by the way that makes all of them visible.
            Some((buffer, at, bytes)) => memory.device.write(buffer, at, &bytes),
            None => Ok(()),
        }
    }

    /// Keys and values of a group that an operation has written for the batch's rows; `None` if it writes none.
    pub(crate) fn cached(&self, op: &Op, group: usize, memory: &Memory<'_, '_>) -> Option<Vec<u32>> {
        let Op::Project(op) = op else { return None };
        let (shape, pool) = (&memory.groups[group], &memory.pools[group]);
        let mut words = Vec::new();
        for part in &op.parts {
            let (which, kv, dim) = match part.epilogue {
                Epilogue::Key { kv, .. } => (Cached::Key, kv, shape.key_dim),
                Epilogue::Value { kv } => (Cached::Value, kv, shape.value_dim),
                _ => continue,
            };
            if kv.group.index() != group {
                continue;
            }
            for row in 0..memory.rows(op.input) {
                let (sequence, position) = memory.place(op.input, row);
                let slot = Slot {
                    buffers: [&pool.keys, &pool.values],
                    layouts: [KvLayout::keys(shape, memory.kv), KvLayout::values(shape, memory.kv)],
                    slot: kv,
                    pages: memory.batch.tables.of(sequence, kv.group),
                };
                let mut vector = vec![0.0; dim as usize];
                for head in 0..shape.heads as usize {
                    slot.read(which, position, head, &mut vector);
                    words.extend(vector.iter().map(|value| value.to_bits()));
                }
            }
        }
        (!words.is_empty()).then_some(words)
    }

    fn attend(&self, op: &Attend, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        let group = &memory.groups[op.kv.group.index()];
        let (key_dim, value_dim) = (group.key_dim as usize, group.value_dim as usize);
        let heads = Heads { query: op.heads as usize, kv: group.heads as usize, key_dim, value_dim };
        let (queries, width) = (memory.floats(op.query), memory.width(op.query));
        let sinks = op.sinks.map(|id| self.model.vector(id));
        let mut out = vec![0.0; memory.rows(op.query) * heads.query * value_dim];
        let mut vector = vec![0.0; key_dim.max(value_dim)];
        let rows = out.chunks_exact_mut(heads.query * value_dim).zip(queries.chunks_exact(width));
        for (row, (out, query)) in rows.enumerate() {
            let (sequence, position) = memory.place(op.query, row);
            let pool = &memory.pools[op.kv.group.index()];
            let slot = Slot {
                buffers: [&pool.keys, &pool.values],
                layouts: [KvLayout::keys(group, memory.kv), KvLayout::values(group, memory.kv)],
                slot: op.kv,
                pages: memory.batch.tables.of(sequence, op.kv.group),
            };
            let mut scores = vec![0.0; position as usize + 1];
            let buffers = AttendBuffers { scores: &mut scores, vector: &mut vector, out };
            attend_row(op, heads, position, query, &slot, sinks, buffers);
        }
        memory.put_floats(op.out, &out)
    }

    fn route(&mut self, op: &Route, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        let (rows, width) = (self.normed(op.input, op.norm, memory), memory.width(op.input));
        let top_k = op.top_k as usize;
        let count = memory.rows(op.input);
        let (mut ids, mut weights) = (vec![0; count * top_k], vec![0.0; count * top_k]);
        let out = ids.chunks_exact_mut(top_k).zip(weights.chunks_exact_mut(top_k));
        for (x, (ids, weights)) in rows.chunks_exact(width).zip(out) {
            let mut products = self.multiply(&op.router, 0, x);
            let bias = op.selection_bias.map(|id| self.model.vector(id));
            route_row(op, bias, &mut products, ids, weights);
        }
        memory.put(op.ids, &ids)?;
        memory.put_floats(op.weights, &weights)
    }

    fn experts(&mut self, op: &Experts, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        let (rows, width) = (self.normed(op.input, op.norm, memory), memory.width(op.input));
        let (ids, weights) = (memory.words(op.ids), memory.floats(op.weights));
        let stack = self.model.weight(op.gate.weight).stack;
        let (top_k, mut sums) = (op.top_k as usize, memory.floats(op.to));
        let to = sums.chunks_exact_mut(op.down.rows as usize);
        let choices = ids.chunks_exact(top_k).zip(weights.chunks_exact(top_k));
        for ((x, to), (ids, weights)) in rows.chunks_exact(width).zip(to).zip(choices) {
            let mut sum = vec![0.0; to.len()];
            for (&id, weight) in ids.iter().zip(weights) {
                // A device that wrote nonsense must not end the program.
                let expert = (id as usize).min(stack - 1);
                let mut hidden = self.multiply(&op.gate, expert, x);
                let up = self.multiply(&op.up, expert, x);
                hidden.iter_mut().zip(up).for_each(|(gate, up)| *gate = glu(op.glu, *gate, up));
                let down = self.multiply(&op.down, expert, &hidden);
                sum.iter_mut().zip(down).for_each(|(sum, down)| *sum += weight * down);
            }
            to.iter_mut().zip(sum).for_each(|(to, sum)| *to += sum);
        }
        memory.put_floats(op.to, &sums)
    }

    fn head(&mut self, op: &Head, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
        let (rows, width) = (self.normed(op.input, Some(op.norm), memory), memory.width(op.input));
        let mut words: Vec<u32> = Vec::new();
        if op.result == HeadResult::Hidden {
            return memory.device.write(memory.result, 0, bytemuck::cast_slice(&rows));
        }
        for x in rows.chunks_exact(width) {
            let mut logits = self.multiply(&op.matrix, 0, x);
            for logit in &mut logits {
                *logit *= op.scale;
                if let Some(cap) = op.soft_cap {
                    *logit = soft_cap(*logit, cap);
                }
            }
            match op.result {
                HeadResult::Logits => words.extend(logits.iter().map(|logit| logit.to_bits())),
                HeadResult::ArgMax => {
                    let better = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
                    words.push((0..logits.len()).reduce(better).unwrap_or(0) as u32);
                }
                // Answered above.
                HeadResult::Hidden => {}
            }
        }
        memory.device.write(memory.result, 0, bytemuck::cast_slice(&words))
    }
}

fn select(input: TensorId, out: TensorId, memory: &mut Memory<'_, '_>) -> Result<(), GpuError> {
    let (rows, width) = (memory.words(input), memory.width(input));
    let chosen = memory.batch.outputs.iter();
    let rows: Vec<u32> =
        chosen.flat_map(|&row| &rows[row as usize * width..(row as usize + 1) * width]).copied().collect();
    memory.put(out, &rows)
}

/// Adds products to a tensor's rows, each with its row's factor.
fn add(
    to: TensorId,
    products: &[Vec<f32>],
    factor: impl Fn(usize) -> f32,
    memory: &mut Memory<'_, '_>,
) -> Result<(), GpuError> {
    let (mut sums, width) = (memory.floats(to), memory.width(to));
    for (row, (sums, products)) in sums.chunks_exact_mut(width).zip(products).enumerate() {
        let factor = factor(row);
        sums.iter_mut().zip(products).for_each(|(sum, y)| *sum += factor * y);
    }
    memory.put_floats(to, &sums)
}
