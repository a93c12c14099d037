//! The results of each operation, in f64 sums over core's scalar functions, on the memory that kernels see.

use doorbell_core::backend::KvType;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Attend, DeltaNet, Epilogue, Experts, GroupId, Head, HeadResult, KvSlot, Matrix, Norm, NormAdd, Op,
    PAGE_TOKENS, Part, Plan, Project, RopeId, Route, RowRun, Rows, StateId, TensorId, Update,
};
use doorbell_core::quant;
use doorbell_core::reference::{
    AttendBuffers, Cache, Cached, DeltaBuffers, DeltaGateValues, DeltaInputs, DeltaState, DeltaWeights,
    Heads, attend_row, delta_step, glu, rms_norm, rotate, route_row, sigmoid, soft_cap,
};
use doorbell_kernels::KvLayout;
use half::f16;

/// The position of a row, and its pages per group.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) position: u32,
    pub(crate) pages: Vec<Vec<u32>>,
}

/// A batch as kernels see it.
#[derive(Clone, Debug)]
pub(crate) struct Rowset {
    pub(crate) tokens: Vec<u32>,
    pub(crate) locations: Vec<Location>,
    pub(crate) runs: Vec<RowRun>,
    /// The recurrent state of each run.
    pub(crate) states: Vec<StateId>,
    pub(crate) outputs: Vec<u32>,
}

/// Keys or values of a group, laid out by [`KvLayout`].
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) layout: KvLayout,
    pub(crate) cells: Vec<f32>,
}

impl Pool {
    fn at(&self, page: u32, layer: u32, head: usize, position: u32) -> usize {
        let dim = self.layout.dim as usize;
        let heads = self.layout.page_bytes() / self.layout.head_bytes();
        let row = page as usize * heads as usize + (layer * self.layout.heads) as usize + head;
        (row * PAGE_TOKENS + position as usize % PAGE_TOKENS) * dim
    }
}

/// All that an operation reads and writes.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) arena: Vec<u32>,
    /// Keys and values of each group.
    pub(crate) pools: Vec<[Pool; 2]>,
    /// Recurrent states, `[states, layers, floats]`.
    pub(crate) states: Vec<f32>,
    pub(crate) result: Vec<u32>,
}

/// An operation's oracle.
pub(crate) struct Oracle<'s, 'a> {
    pub(crate) model: &'s Model<'a>,
    pub(crate) plan: &'s Plan<'s>,
    pub(crate) rows: &'s Rowset,
    /// True if products take activations in codes of eight bits.
    pub(crate) coded: bool,
}

/// A row in codes of eight bits: those of core's Q8_0, with a factor of f32 for every 32.
fn coded(x: &[f32]) -> Vec<f32> {
    let each = x.chunks(quant::Activation::Q8_0.block_len()).flat_map(|x| {
        let mut block = vec![0; quant::Activation::Q8_0.block_bytes()];
        quant::Activation::Q8_0.quantize(x, &mut block).unwrap();
        let most = x.iter().fold(0f32, |most, x| most.max(x.abs()));
        // What is no number makes its block none.
        let factor = if x.iter().any(|x| x.is_nan()) { f32::NAN } else { most / 127.0 };
        block.split_off(2).into_iter().map(move |code| f32::from(code.cast_signed()) * factor)
    });
    each.collect()
}

struct Slot<'s> {
    pools: &'s [Pool; 2],
    slot: KvSlot,
    pages: &'s [u32],
}

impl Cache for Slot<'_> {
    fn read(&self, which: Cached, position: u32, head: usize, to: &mut [f32]) {
        let pool = &self.pools[usize::from(which == Cached::Value)];
        let page = self.pages[position as usize / PAGE_TOKENS];
        let at = pool.at(page, self.slot.layer.into(), head, position);
        to.copy_from_slice(&pool.cells[at..at + to.len()]);
    }
}

impl Oracle<'_, '_> {
    pub(crate) fn count(&self, id: TensorId) -> usize {
        match self.plan.tensor(id).rows {
            Rows::Batch => self.rows.tokens.len(),
            Rows::Outputs => self.rows.outputs.len(),
        }
    }

    fn location(&self, id: TensorId, row: usize) -> &Location {
        match self.plan.tensor(id).rows {
            Rows::Batch => &self.rows.locations[row],
            Rows::Outputs => &self.rows.locations[self.rows.outputs[row] as usize],
        }
    }

    fn get(&self, state: &State, id: TensorId, row: usize) -> Vec<f32> {
        let tensor = self.plan.tensor(id);
        let start = tensor.offset + row * tensor.width as usize;
        state.arena[start..start + tensor.width as usize].iter().map(|x| f32::from_bits(*x)).collect()
    }

    fn put(&self, state: &mut State, id: TensorId, row: usize, values: &[f32]) {
        let tensor = self.plan.tensor(id);
        let start = tensor.offset + row * tensor.width as usize;
        let cells = &mut state.arena[start..start + tensor.width as usize];
        cells.iter_mut().zip(values).for_each(|(cell, value)| *cell = value.to_bits());
    }

    fn input(&self, state: &State, id: TensorId, row: usize, norm: Option<Norm>) -> Vec<f32> {
        let x = self.get(state, id, row);
        let Some(norm) = norm else { return x };
        let mut y = vec![0.0; x.len()];
        let weight = self.model.vector(norm.weight);
        for (x, y) in x.chunks_exact(weight.len()).zip(y.chunks_exact_mut(weight.len())) {
            rms_norm(x, weight, norm.eps, y);
        }
        y
    }

    fn product(&self, matrix: &Matrix, expert: usize, x: &[f32]) -> Vec<f32> {
        let weight = self.model.weight(matrix.weight);
        let rows = weight.slice(expert, matrix.first_row as usize, matrix.rows as usize);
        let scale = matrix.scale.map_or(1.0, |id| {
            let values = self.model.vector(id);
            values[expert.min(values.len() - 1)]
        });
        let bias = matrix.bias.map(|id| {
            let rows = matrix.rows as usize;
            &self.model.vector(id)[expert * rows..(expert + 1) * rows]
        });
        let mut values = vec![0.0; x.len()];
        let each = rows.chunks_exact(weight.row_bytes()).enumerate();
        each.map(|(index, row)| {
            quant::dequantize(weight.ty, row, &mut values).unwrap();
            let sum: f64 = values.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            sum as f32 * scale + bias.map_or(0.0, |bias| bias[index])
        })
        .collect()
    }

    fn add(&self, state: &mut State, to: TensorId, row: usize, values: &[f32], factor: f32) {
        let mut old = self.get(state, to, row);
        old.iter_mut().zip(values).for_each(|(old, value)| *old += factor * value);
        self.put(state, to, row, &old);
    }

    /// Runs an operation.
    pub(crate) fn run(&self, op: &Op, state: &mut State) {
        match op {
            Op::Embed { table, scale, out } => {
                let weight = self.model.weight(*table);
                for (row, token) in self.rows.tokens.iter().enumerate() {
                    let mut values = vec![0.0; weight.cols];
                    quant::dequantize(weight.ty, weight.slice(0, *token as usize, 1), &mut values).unwrap();
                    values.iter_mut().for_each(|x| *x *= scale);
                    self.put(state, *out, row, &values);
                }
            }
            Op::Select { input, out } => {
                for (row, from) in self.rows.outputs.iter().enumerate() {
                    let values = self.get(state, *input, *from as usize);
                    self.put(state, *out, row, &values);
                }
            }
            Op::Project(op) => self.project(op, state),
            Op::Attend(op) => self.attend(op, state),
            Op::Route(op) => self.route(op, state),
            Op::Experts(op) => self.experts(op, state),
            Op::NormAdd(op) => self.norm_add(op, state),
            Op::DeltaNet(op) => self.delta_net(op, state),
            Op::Rotate(_) => unreachable!("no kernel runs it"),
            Op::Head(op) => self.head(op, state),
        }
    }

    /// A row as products take it.
    fn operand(&self, x: Vec<f32>) -> Vec<f32> {
        if self.coded { coded(&x) } else { x }
    }

    fn project(&self, op: &Project, state: &mut State) {
        for row in 0..self.count(op.input) {
            let x = self.operand(self.input(state, op.input, row, op.norm));
            for part in &op.parts {
                self.part(part, &x, self.location(op.input, row).clone(), row, state);
            }
        }
    }

    fn part(&self, part: &Part, x: &[f32], location: Location, row: usize, state: &mut State) {
        let mut y = self.product(&part.matrix, 0, x);
        match part.epilogue {
            Epilogue::Store { out } => self.put(state, out, row, &y),
            Epilogue::Add { to } => self.add(state, to, row, &y, 1.0),
            Epilogue::AddGated { to, gate } => {
                let factor = sigmoid(self.get(state, gate, row)[0]);
                self.add(state, to, row, &y, factor);
            }
            Epilogue::Gate { up, glu: kind, out } => {
                let up = self.product(&up, 0, x);
                y.iter_mut().zip(up).for_each(|(gate, up)| *gate = glu(kind, *gate, up));
                self.put(state, out, row, &y);
            }
            Epilogue::GateBy { by, column, glu: kind, out } => {
                let by = self.get(state, by, row).split_off(column as usize);
                y.iter_mut().zip(by).for_each(|(gate, by)| *gate = glu(kind, *gate, by));
                self.put(state, out, row, &y);
            }
            Epilogue::Activate { .. } => unreachable!("no kernel runs it"),
            Epilogue::Query { norm, rope, head_dim, out, gate } => {
                if let Some(gate) = gate {
                    let each = y.chunks_exact(head_dim as usize);
                    let heads: Vec<f32> = each.clone().step_by(2).flatten().copied().collect();
                    let gates: Vec<f32> = each.skip(1).step_by(2).flatten().copied().collect();
                    self.put(state, gate, row, &gates);
                    y = heads;
                }
                self.heads(&mut y, head_dim, norm, rope, location.position);
                self.put(state, out, row, &y);
            }
            Epilogue::Key { norm, rope, kv } => {
                self.heads(
                    &mut y,
                    self.model.groups[kv.group.index()].key_dim,
                    norm,
                    rope,
                    location.position,
                );
                Self::cache(state, 0, kv, &location, &y);
            }
            Epilogue::Value { norm, kv } => {
                let dim = self.model.groups[kv.group.index()].value_dim;
                self.heads(&mut y, dim, norm, None, location.position);
                Self::cache(state, 1, kv, &location, &y);
            }
        }
    }

    fn heads(&self, y: &mut [f32], dim: u32, norm: Option<Norm>, rope: Option<RopeId>, position: u32) {
        for head in y.chunks_exact_mut(dim as usize) {
            if let Some(norm) = norm {
                let copy = head.to_vec();
                rms_norm(&copy, self.model.vector(norm.weight), norm.eps, head);
            }
            if let Some(rope) = rope {
                let rope = &self.model.ropes[rope.index()];
                let pairs = rope.frequencies.len();
                let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
                rope.angles(position, &mut cos, &mut sin);
                rotate(rope.pairing, head, &cos, &sin);
            }
        }
    }

    fn cache(state: &mut State, which: usize, kv: KvSlot, location: &Location, y: &[f32]) {
        let group: GroupId = kv.group;
        let page = location.pages[group.index()][location.position as usize / PAGE_TOKENS];
        let pool = &mut state.pools[group.index()][which];
        let dim = pool.layout.dim as usize;
        for (head, values) in y.chunks_exact(dim).enumerate() {
            let at = pool.at(page, kv.layer.into(), head, location.position);
            let cells = &mut pool.cells[at..at + dim];
            match pool.layout.kv {
                KvType::F16 => {
                    cells.iter_mut().zip(values).for_each(|(cell, x)| *cell = f16::from_f32(*x).to_f32());
                }
                KvType::F32 => cells.copy_from_slice(values),
                KvType::Q8_0 => {
                    let mut bytes = vec![0; KvType::Q8_0.row_bytes(dim).unwrap()];
                    quant::Activation::Q8_0.quantize(values, &mut bytes).unwrap();
                    quant::dequantize(quant::Type::Q8_0, &bytes, cells).unwrap();
                }
            }
        }
    }

    fn attend(&self, op: &Attend, state: &mut State) {
        for row in 0..self.count(op.query) {
            let location = self.location(op.query, row);
            let query = self.get(state, op.query, row);
            let group = self.model.groups[op.kv.group.index()];
            let (key_dim, value_dim) = (group.key_dim as usize, group.value_dim as usize);
            let heads = Heads { query: op.heads as usize, kv: group.heads as usize, key_dim, value_dim };
            let mut scores = vec![0.0; location.position as usize + 1];
            let mut vector = vec![0.0; key_dim.max(value_dim)];
            let mut out = vec![0.0; op.heads as usize * value_dim];
            let slot = Slot {
                pools: &state.pools[op.kv.group.index()],
                slot: op.kv,
                pages: &location.pages[op.kv.group.index()],
            };
            let sinks = op.sinks.map(|id| self.model.vector(id));
            let buffers = AttendBuffers { scores: &mut scores, vector: &mut vector, out: &mut out };
            attend_row(op, heads, location.position, &query, &slot, sinks, buffers);
            if let Some(gate) = op.gate {
                let gates = self.get(state, gate, row);
                out.iter_mut().zip(gates).for_each(|(y, gate)| *y *= sigmoid(gate));
            }
            self.put(state, op.out, row, &out);
        }
    }

    fn route(&self, op: &Route, state: &mut State) {
        let bias = op.selection_bias.map(|id| self.model.vector(id));
        for row in 0..self.count(op.input) {
            let x = self.input(state, op.input, row, op.norm);
            let mut products = self.product(&op.router, 0, &x);
            let (mut ids, mut weights) = (vec![0; op.top_k as usize], vec![0.0; op.top_k as usize]);
            route_row(op, bias, &mut products, &mut ids, &mut weights);
            let ids: Vec<f32> = ids.into_iter().map(f32::from_bits).collect();
            self.put(state, op.ids, row, &ids);
            self.put(state, op.weights, row, &weights);
        }
    }

    fn experts(&self, op: &Experts, state: &mut State) {
        for row in 0..self.count(op.input) {
            let x = self.operand(self.input(state, op.input, row, op.norm));
            let ids = self.get(state, op.ids, row);
            let weights = self.get(state, op.weights, row);
            let mut sum = vec![0f32; op.down.rows as usize];
            for (id, weight) in ids.iter().zip(weights) {
                let expert = id.to_bits() as usize;
                let mut hidden = self.product(&op.gate, expert, &x);
                let up = self.product(&op.up, expert, &x);
                hidden.iter_mut().zip(up).for_each(|(gate, up)| *gate = glu(op.glu, *gate, up));
                let down = self.product(&op.down, expert, &self.operand(hidden));
                sum.iter_mut().zip(down).for_each(|(sum, down)| *sum += weight * down);
            }
            self.update(state, op.to, row, op.update, &sum);
        }
    }

    fn norm_add(&self, op: &NormAdd, state: &mut State) {
        for row in 0..self.count(op.input) {
            let values = self.input(state, op.input, row, Some(op.norm));
            self.update(state, op.to, row, op.update, &values);
            let mut sums = self.get(state, op.to, row);
            sums.iter_mut().for_each(|sum| *sum *= op.scale);
            self.put(state, op.to, row, &sums);
        }
    }

    fn update(&self, state: &mut State, to: TensorId, row: usize, update: Update, values: &[f32]) {
        match update {
            Update::Add => self.add(state, to, row, values, 1.0),
            Update::Replace => self.put(state, to, row, values),
        }
    }

    fn delta_net(&self, op: &DeltaNet, state: &mut State) {
        let shape = self.model.state.unwrap();
        let vector = |id| self.model.vector(id);
        let weights = DeltaWeights {
            convolution: vector(op.convolution),
            decay: vector(op.decay),
            step_bias: vector(op.step_bias),
            norm: vector(op.norm.weight),
        };
        let (taps, channels) = (op.shape.taps as usize, op.shape.channels());
        for (run, id) in self.rows.runs.iter().zip(&self.rows.states) {
            let cells = shape.layer(*id, op.state);
            let mut own = state.states[cells.clone()].to_vec();
            if run.position == 0 {
                own.fill(0.0);
            }
            // Before the first position there is nothing.
            own[..taps * channels]
                .chunks_exact_mut(channels)
                .skip(run.position as usize)
                .for_each(|row| row.fill(0.0));
            let (convolution, recurrent) = own.split_at_mut(op.shape.convolution_state());
            for (row, position) in (run.first_row as usize..).zip(run.position..run.position + run.rows) {
                let [mixed, gate] = [op.mixed, op.gate].map(|id| self.get(state, id, row));
                let [beta, alpha] = op.gates.tensors().map(|id| self.get(state, id, row));
                let inputs =
                    DeltaInputs { mixed: &mixed, gate: &gate, gates: &GateColumns { op, beta, alpha } };
                let mut out = vec![0.0; op.shape.value_width()];
                let buffers = DeltaBuffers {
                    mixed: &mut vec![0.0; channels],
                    change: &mut vec![0.0; op.shape.value_dim as usize],
                    out: &mut out,
                };
                let own = DeltaState { convolution: &mut *convolution, recurrent: &mut *recurrent };
                delta_step(op, position, weights, inputs, own, buffers);
                self.put(state, op.out, row, &out);
            }
            // Rows of the convolution's state that have no position keep what they had.
            let kept = &mut state.states[cells];
            kept[taps * channels..].copy_from_slice(recurrent);
            for position in (run.position..run.position + run.rows).rev().take(taps) {
                let row = position as usize % taps * channels;
                kept[row..row + channels].copy_from_slice(&convolution[row..row + channels]);
            }
        }
    }

    fn head(&self, op: &Head, state: &mut State) {
        let width = op.matrix.rows as usize;
        for row in 0..self.rows.outputs.len() {
            let x = self.input(state, op.input, row, Some(op.norm));
            let mut logits = self.product(&op.matrix, 0, &x);
            for logit in &mut logits {
                *logit *= op.scale;
                if let Some(cap) = op.soft_cap {
                    *logit = soft_cap(*logit, cap);
                }
            }
            if op.result == HeadResult::ArgMax {
                let best = (0..width).reduce(|best, id| if logits[id] > logits[best] { id } else { best });
                state.result[row] = best.unwrap() as u32;
            } else {
                let cells = state.result[row * width..(row + 1) * width].iter_mut();
                cells.zip(&logits).for_each(|(cell, logit)| *cell = logit.to_bits());
            }
        }
    }
}

/// One row's betas and alphas.
#[derive(Debug)]
struct GateColumns<'s> {
    op: &'s DeltaNet,
    beta: Vec<f32>,
    alpha: Vec<f32>,
}

impl DeltaGateValues for GateColumns<'_> {
    fn of(&self, head: usize) -> (f32, f32) {
        let [beta, alpha] = self.op.gates.columns(&self.op.shape, head as u32);
        (self.beta[beta], self.alpha[alpha])
    }
}

/// The heap of tests.
pub(crate) const HEAP: Heap<'static> = &Global;
