//! Mixtures of experts: the choice, and the chosen experts' feed-forward.
//!
//! Rows are sorted by expert, so that an expert's weights are read once for all its rows; an output row's experts are
//! added in ascending order, whatever else is in the batch.
#![expect(unsafe_code, reason = "tasks of a phase write disjoint cells of shared buffers")]

use super::step::{OWN_CHOICES, OWN_ROWS, Panel, Step};
use crate::activations::{Layout, Quantize};
use crate::elementwise::{Exponential, GatedPairs, sigmoid};
use crate::product::{OUT_COLS, Products, Selection};
use crate::simd::STRIP;
use doorbell_core::plan::{Experts, Gating, Op, Route};

impl<'s> Step<'s, '_> {
    /// Router products, then the choice. For few rows every thread makes the choice for itself.
    pub(super) fn route(&mut self, op: &Route, next: Option<&Op>) {
        let rows = self.rows(op.input);
        let experts = op.router.rows as usize;
        let panels = self.panels(op.input, op.norm, core::iter::once(&op.router));
        for task in self.team.tasks(experts.div_ceil(OUT_COLS)) {
            let rows = self.pair(&op.router, &panels, task);
            let first = task * OUT_COLS;
            let count = OUT_COLS.min(experts - first);
            let products = self.local.products.floats().as_chunks::<OUT_COLS>().0;
            for (row, y) in products.iter().enumerate().take(rows) {
                // SAFETY: this task's columns.
                let out = unsafe { self.context.router.write(row * experts + first, count) };
                out.copy_from_slice(&y[..count]);
            }
        }
        self.team.barrier();
        let top_k = op.top_k as usize;
        if rows > OWN_ROWS {
            for row in self.team.tasks(rows) {
                self.choose(op, row, 0);
                self.publish_choice(op, row, 0);
            }
            return self.team.barrier();
        }
        (0..rows).for_each(|row| self.choose(op, row, row * top_k));
        if self.team.index() == 0 {
            (0..rows).for_each(|row| self.publish_choice(op, row, row * top_k));
        }
        if matches!(next, Some(Op::Experts(next)) if next.ids == op.ids && next.weights == op.weights) {
            self.local.moe.routed = Some(op.ids);
        } else {
            self.team.barrier();
        }
    }

    /// Chooses a row's experts into the thread's own lists, from `at` on.
    fn choose(&mut self, op: &Route, row: usize, at: usize) {
        let (experts, top_k) = (op.router.rows as usize, op.top_k as usize);
        let bias = op.selection_bias.map(|id| self.context.model.vector(id));
        // SAFETY: written in the phase before.
        let products = unsafe { self.context.router.read(row * experts, experts) };
        let scores = &mut self.local.block.floats_mut();
        let scores = &mut scores[..experts];
        scores.copy_from_slice(products);
        match op.gating {
            Gating::Softmax => softmax(self.context.isa, scores),
            Gating::Sigmoid => scores.iter_mut().for_each(|x| *x = sigmoid(*x)),
            Gating::SoftmaxOfChosen => {}
        }
        let moe = &mut self.local.moe;
        if moe.ids.len() < at + top_k {
            moe.ids.resize(at + top_k, 0);
            moe.weights.resize(at + top_k, 0.0);
        }
        let (ids, weights) = (&mut moe.ids[at..at + top_k], &mut moe.weights[at..at + top_k]);
        // `weights` holds the scores that were chosen by until the choice is made.
        let mut taken = 0;
        for (expert, &x) in scores.iter().enumerate() {
            let score = x + bias.map_or(0.0, |bias| bias[expert]);
            let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
            let mut place = taken;
            while place > 0 && score > weights[place - 1] {
                place -= 1;
            }
            if place < top_k {
                taken = (taken + 1).min(top_k);
                ids.copy_within(place..taken - 1, place + 1);
                weights.copy_within(place..taken - 1, place + 1);
                (ids[place], weights[place]) = (expert as u32, score);
            }
        }
        for (weight, &id) in weights.iter_mut().zip(&*ids) {
            *weight = scores[id as usize];
        }
        if op.gating == Gating::SoftmaxOfChosen {
            softmax(self.context.isa, weights);
        }
        if op.renormalize {
            let sum = weights.iter().sum::<f32>().max(Route::LEAST_SUM);
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        weights.iter_mut().for_each(|weight| *weight *= op.scale);
    }

    fn publish_choice(&self, op: &Route, row: usize, at: usize) {
        let top_k = op.top_k as usize;
        let moe = &self.local.moe;
        // SAFETY: this task's row.
        let (ids, weights) =
            unsafe { (self.write(op.ids, row, 0, top_k), self.write(op.weights, row, 0, top_k)) };
        for (out, &id) in ids.iter_mut().zip(&moe.ids[at..]) {
            *out = f32::from_bits(id);
        }
        weights.copy_from_slice(&moe.weights[at..at + top_k]);
    }

    /// Gate and up of all chosen experts, then down and the weighted sum.
    pub(super) fn experts(&mut self, op: &Experts) {
        self.sort(op);
        let panels = self.panels(op.input, op.norm, [&op.gate, &op.up].into_iter());
        let strips = (op.gate.rows as usize).div_ceil(STRIP);
        for task in self.team.tasks(self.local.moe.active.len() * strips) {
            let expert = self.local.moe.active[task / strips] as usize;
            self.expert_gate(op, &panels, expert, task % strips);
        }
        self.team.barrier();
        let hidden = self.hidden_panel(op);
        for task in self.team.tasks((op.down.rows as usize).div_ceil(OUT_COLS)) {
            self.experts_down(op, &hidden, task);
        }
        self.team.barrier();
    }

    /// Lists rows by expert. Every thread does it for itself.
    fn sort(&mut self, op: &Experts) {
        let (rows, top_k) = (self.rows(op.input), op.top_k as usize);
        let experts = self.context.model.weight(op.gate.weight).stack;
        let own = self.local.moe.routed.take() == Some(op.ids);
        if !own {
            let moe = &mut self.local.moe;
            moe.ids.clear();
            moe.weights.clear();
            for row in 0..rows {
                // SAFETY: not written in this phase.
                let (ids, weights) = unsafe { (self.read(op.ids, row), self.read(op.weights, row)) };
                let moe = &mut self.local.moe;
                moe.ids.extend(ids[..top_k].iter().map(|id| id.to_bits()));
                moe.weights.extend_from_slice(&weights[..top_k]);
            }
        }
        let moe = &mut self.local.moe;
        let ids = &moe.ids[..rows * top_k];
        moe.starts.clear();
        moe.starts.resize(experts + 1, 0);
        for &id in ids {
            moe.starts[id as usize + 1] += 1;
        }
        moe.active.clear();
        for expert in 0..experts {
            if moe.starts[expert + 1] > 0 {
                moe.active.push(expert as u32);
            }
            moe.starts[expert + 1] += moe.starts[expert];
        }
        moe.rows.clear();
        moe.rows.resize(ids.len(), 0);
        moe.factors.clear();
        moe.factors.resize(ids.len(), 0.0);
        // Filling moves each start to the next expert's; the shift below moves them back.
        for (choice, &id) in ids.iter().enumerate() {
            let place = moe.starts[id as usize] as usize;
            moe.starts[id as usize] += 1;
            moe.rows[place] = (choice / top_k) as u32;
            moe.factors[place] = moe.weights[choice];
        }
        moe.starts.copy_within(..experts, 1);
        moe.starts[0] = 0;
    }

    /// First and number of an expert's places in the sorted lists.
    fn places(&self, expert: usize) -> (usize, usize) {
        let starts = &self.local.moe.starts;
        (starts[expert] as usize, (starts[expert + 1] - starts[expert]) as usize)
    }

    /// One strip of an expert's hidden rows.
    fn expert_gate(&mut self, op: &Experts, panels: &[Option<Panel<'s>>; 4], expert: usize, strip: usize) {
        let (first, count) = self.places(expert);
        let (gate, up) = (self.weights(&op.gate, expert), self.weights(&op.up, expert));
        let isa = self.context.isa;
        let local = &mut *self.local;
        let rows = &local.moe.rows[first..first + count];
        let out = local.products.floats_mut();
        let of = |format: usize| {
            let (layout, bytes) = panels[format].as_ref().expect("a panel for gate and up");
            Products::new(isa, layout, bytes, Selection::Rows(rows))
        };
        let (left, right) = (of(gate.activation() as usize), of(up.activation() as usize));
        if gate.activation() == up.activation() {
            left.pair(gate.strip(strip), Some(up.strip(strip)), &mut local.scratch, out);
        } else {
            left.pair(gate.strip(strip), None, &mut local.scratch, out);
            right.right(up.strip(strip), &mut local.scratch, out);
        }
        self.adjust(&op.gate, expert, STRIP * strip, (0, STRIP), count);
        self.adjust(&op.up, expert, STRIP * strip, (STRIP, STRIP), count);
        let products = &mut self.local.products.floats_mut()[..count * OUT_COLS];
        isa.run(GatedPairs { kind: op.glu, rows: products });
        let width = op.gate.rows as usize;
        let columns = STRIP.min(width - STRIP * strip);
        for (row, y) in products.as_chunks::<OUT_COLS>().0.iter().enumerate() {
            // SAFETY: this task's places and columns.
            let out = unsafe { self.context.hidden.write((first + row) * width + STRIP * strip, columns) };
            out.copy_from_slice(&y[..columns]);
        }
    }

    /// The hidden rows as the down matrices take them.
    fn hidden_panel(&mut self, op: &Experts) -> Panel<'s> {
        let weights = self.weights(&op.down, 0);
        let layout =
            Layout::new(weights.activation(), weights.cols()).expect("the layout of an accepted weight");
        let choices = self.local.moe.rows.len();
        let own = choices <= OWN_CHOICES;
        let cells = if own { self.local.hidden_panel.cells() } else { self.context.hidden_panel };
        let (isa, hidden) = (self.context.isa, self.context.hidden);
        let quantize = |place: usize| {
            // SAFETY: hidden rows were written in the phase before; the panel's row is this task's or this thread's.
            unsafe {
                let values = hidden.read(place * layout.cols, layout.cols);
                let row = cells.write_bytes(place * layout.stride, layout.stride);
                isa.run(Quantize::new(&layout, values, row));
            }
        };
        if own {
            (0..choices).for_each(quantize);
        } else {
            self.team.tasks(choices).for_each(quantize);
            self.team.barrier();
        }
        // SAFETY: not written before the operation's last barrier.
        (layout, unsafe { cells.read_bytes(0, choices * layout.stride) })
    }

    /// A pair of output strips: all experts in ascending order, then the residual.
    fn experts_down(&mut self, op: &Experts, (layout, bytes): &Panel<'s>, task: usize) {
        let rows = self.rows(op.input);
        self.local.block.floats_mut()[..rows * OUT_COLS].fill(0.0);
        for index in 0..self.local.moe.active.len() {
            let expert = self.local.moe.active[index] as usize;
            let (first, count) = self.places(expert);
            let weights = self.weights(&op.down, expert);
            let products = Products::new(self.context.isa, layout, bytes, Selection::Range { first, count });
            let right = (2 * task + 1 < weights.strips()).then(|| weights.strip(2 * task + 1));
            let local = &mut *self.local;
            products.pair(weights.strip(2 * task), right, &mut local.scratch, local.products.floats_mut());
            self.adjust(&op.down, expert, OUT_COLS * task, (0, OUT_COLS), count);
            let local = &mut *self.local;
            let sums = local.block.floats_mut().as_chunks_mut::<OUT_COLS>().0;
            let products = local.products.floats().as_chunks::<OUT_COLS>().0;
            for (place, y) in products.iter().enumerate().take(count) {
                let (row, factor) = (local.moe.rows[first + place], local.moe.factors[first + place]);
                for (sum, y) in sums[row as usize].iter_mut().zip(y) {
                    *sum += factor * y;
                }
            }
        }
        let first = OUT_COLS * task;
        let count = OUT_COLS.min(op.down.rows as usize - first);
        for (row, sums) in self.local.block.floats().as_chunks::<OUT_COLS>().0.iter().enumerate().take(rows) {
            // SAFETY: this task's columns.
            let to = unsafe { self.write(op.to, row, first, count) };
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
        }
    }
}

/// Softmax in place; the largest value is subtracted first.
fn softmax(isa: crate::features::Isa, x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    isa.run(Exponential { x, minus: max });
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}
