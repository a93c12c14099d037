//! Mixtures of experts: the choice, and the chosen experts' feed-forward.
//!
//! Rows are sorted by expert, so that an expert's weights are read once for all its rows; an output row's experts are
//! added in ascending order, whatever else is in the batch.
//!
//! Of the hidden rows, those of an expert lie strip by strip, `[strips][choices][16]`, one expert after the other: what a
//! task writes is consecutive.

use super::inputs::{InputRows, Inputs, Layouts, Source};
use super::local::{MoeMemory, OwnActivations, Work};
use super::project::Adjusted;
use super::sizes::{OWN_CHOICES, OWN_ROWS};
use super::step::Step;
use crate::activations::{Layout, Quantize};
use crate::elementwise::{Exponential, GatedPairs, sigmoid};
use crate::features::Isa;
use crate::phase::{Cut, Phase, Phases, Region, Share};
use crate::product::{OUT_COLS, Selection};
use crate::simd::STRIP;
use core::ops::Range;
use doorbell_core::plan::{Experts, Gating, Route, TensorId, Update};
use doorbell_core::reference;

/// Hidden rows that a task computes: one strip of some choices of an expert.
struct HiddenTask {
    expert: usize,
    strip: usize,
    choices: Range<usize>,
}

impl Step<'_, '_> {
    /// True if the choice is made in the experts' first phase, by every thread for itself.
    pub(super) fn defers_choice(&self, op: &Route, experts: &Experts) -> bool {
        let same = experts.ids == op.ids && experts.weights == op.weights && experts.top_k == op.top_k;
        same && self.context.rows(op.input) <= OWN_ROWS
    }

    /// The choice, after the router products.
    pub(super) fn route(&mut self, phases: &mut Phases<'_>, op: &Route) {
        let top_k = op.top_k as usize;
        let cuts = [op.ids, op.weights].map(|id| self.context.region(id).by_rows(top_k));
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            self.choose(&phase, op, task.first(), 0);
            self.work.publish_ids(&mut task.share(0), 0, 0..top_k);
            self.work.publish_weights(&mut task.share(1), 0, 0..top_k);
        }
        phase.end();
    }

    /// The products of the router.
    pub(super) fn router_products(
        &mut self,
        phases: &mut Phases<'_>,
        own: &mut OwnActivations<'_>,
        op: &Route,
    ) {
        let context = self.context;
        let (rows, experts) = (context.rows(op.input), op.router.rows as usize);
        let source = Source { input: op.input, norm: op.norm };
        let layouts = Layouts::of(context, core::iter::once(&op.router));
        self.share_inputs(phases, source, &layouts);
        let router = Region::floats(context.buffers.router, 0, rows, experts);
        let cuts = [router.by_columns(experts, OUT_COLS)];
        let phase = phases.open(&cuts);
        let inputs = self.inputs(&phase, own, source, &layouts);
        while let Some(mut task) = phase.next_task() {
            let rows = self.pair(&op.router, &inputs, task.first());
            let mut share = task.share(0);
            let products = self.work.products.floats().as_chunks::<OUT_COLS>().0;
            for (row, y) in products.iter().enumerate().take(rows) {
                let out = share.floats(row);
                out.copy_from_slice(&y[..out.len()]);
            }
        }
        phase.end();
    }

    /// Chooses a row's experts into the thread's own lists, from `at` on.
    fn choose(&mut self, phase: &Phase<'_>, op: &Route, row: usize, at: usize) {
        let (experts, top_k) = (op.router.rows as usize, op.top_k as usize);
        let bias = op.selection_bias.map(|id| self.context.model.vector(id));
        let scores = &mut self.work.block.floats_mut()[..experts];
        scores.copy_from_slice(phase.floats(self.context.buffers.router, row * experts, experts));
        match op.gating {
            Gating::Softmax => softmax(self.context.isa, scores),
            Gating::Sigmoid => scores.iter_mut().for_each(|x| *x = sigmoid(*x)),
            Gating::SoftmaxOfChosen => {}
        }
        if let Some(groups) = op.groups {
            reference::close_groups(groups, bias, scores);
        }
        let moe = &mut self.work.moe;
        if moe.ids.len() < at + top_k {
            moe.ids.resize(at + top_k, 0);
            moe.weights.resize(at + top_k, 0.0);
        }
        let (ids, weights) = (&mut moe.ids[at..at + top_k], &mut moe.weights[at..at + top_k]);
        largest(scores, bias, ids, weights);
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

    /// Gate and up of all chosen experts, then down and the weighted sum. With `route` the choice is made here.
    pub(super) fn experts(
        &mut self,
        phases: &mut Phases<'_>,
        own: &mut OwnActivations<'_>,
        op: &Experts,
        route: Option<&Route>,
    ) {
        let context = self.context;
        let (rows, top_k) = (context.rows(op.input), op.top_k as usize);
        let source = Source { input: op.input, norm: op.norm };
        let layouts = Layouts::of(context, [&op.gate, &op.up].into_iter());
        self.share_inputs(phases, source, &layouts);
        let strips = (op.gate.rows as usize).div_ceil(STRIP);
        // A task is a strip of one choice; a strip of an expert takes several.
        let hidden = Region::floats(context.buffers.hidden, 0, rows * top_k * strips, STRIP).by_rows(STRIP);
        let choice = |id: TensorId| context.region(id).by_columns(top_k, top_k).by_thread();
        let cuts = [hidden, choice(op.ids), choice(op.weights)];
        let cuts: &[Cut] = if route.is_some() { &cuts } else { &cuts[..1] };
        let mut phase = phases.open(cuts);
        match route {
            Some(route) => self.choose_here(&mut phase, route, rows),
            None => self.read_choice(&phase, op, rows),
        }
        self.sort(op, rows);
        let inputs = self.inputs(&phase, own, source, &layouts);
        let hidden_task = |step: &Self, first: usize| step.work.moe.hidden_task(strips, first);
        while let Some(mut task) = phase.next_run(|first, _| hidden_task(self, first).choices.len()) {
            let mut hidden = hidden_task(self, task.first());
            hidden.choices.end = hidden.choices.start + task.count();
            self.expert_gate(op, &inputs, hidden, &mut task.share(0));
        }
        phase.end();
        self.experts_down(phases, own, op);
    }

    /// Chooses the experts of all rows into the thread's own lists; the first thread writes them to the tensors too.
    fn choose_here(&mut self, phase: &mut Phase<'_>, op: &Route, rows: usize) {
        let top_k = op.top_k as usize;
        (0..rows).for_each(|row| self.choose(phase, op, row, row * top_k));
        if let Some(mut ids) = phase.own(1) {
            (0..rows).for_each(|row| self.work.publish_ids(&mut ids, row, row * top_k..(row + 1) * top_k));
        }
        if let Some(mut weights) = phase.own(2) {
            let choices = |row| row * top_k..(row + 1) * top_k;
            (0..rows).for_each(|row| self.work.publish_weights(&mut weights, row, choices(row)));
        }
    }

    /// Reads the choice of all rows into the thread's own lists.
    fn read_choice(&mut self, phase: &Phase<'_>, op: &Experts, rows: usize) {
        let (moe, top_k) = (&mut self.work.moe, op.top_k as usize);
        moe.ids.clear();
        moe.weights.clear();
        for row in 0..rows {
            let ids = &self.context.read(phase, op.ids, row)[..top_k];
            moe.ids.extend(ids.iter().map(|id| id.to_bits()));
            moe.weights.extend_from_slice(&self.context.read(phase, op.weights, row)[..top_k]);
        }
    }

    /// Lists rows by expert. Every thread does it for itself.
    fn sort(&mut self, op: &Experts, rows: usize) {
        let top_k = op.top_k as usize;
        let experts = self.context.model.weight(op.gate.weight).stack;
        let moe = &mut self.work.moe;
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
            let at = moe.starts[id as usize] as usize;
            moe.starts[id as usize] += 1;
            moe.rows[at] = (choice / top_k) as u32;
            moe.factors[at] = moe.weights[choice];
        }
        moe.starts.copy_within(..experts, 1);
        moe.starts[0] = 0;
    }

    /// One strip of hidden rows of an expert.
    fn expert_gate(&mut self, op: &Experts, inputs: &Inputs<'_>, task: HiddenTask, out: &mut Share<'_>) {
        let HiddenTask { expert, strip, choices } = task;
        let (gate, up) = (self.weights(&op.gate, expert), self.weights(&op.up, expert));
        let isa = self.context.isa;
        let work = &mut *self.work;
        let rows = &work.moe.rows[choices];
        let selection = Selection::Rows(rows);
        let products = work.products.floats_mut();
        if gate.activation() == up.activation() {
            let (left, right) = (gate.strip(strip), up.strip(strip));
            inputs.rows(&gate).products(isa, selection).pair(left, Some(right), &mut work.scratch, products);
        } else {
            inputs.rows(&gate).products(isa, selection).pair(
                gate.strip(strip),
                None,
                &mut work.scratch,
                products,
            );
            inputs.rows(&up).products(isa, selection).right(up.strip(strip), &mut work.scratch, products);
        }
        let rows = rows.len();
        let part = |columns| Adjusted { expert, first: STRIP * strip, columns, rows };
        self.adjust(&op.gate, part(0..STRIP));
        self.adjust(&op.up, part(STRIP..OUT_COLS));
        let products = &mut self.work.products.floats_mut()[..rows * OUT_COLS];
        isa.run(GatedPairs { glu: op.glu, rows: products });
        for (row, y) in products.as_chunks::<OUT_COLS>().0.iter().enumerate() {
            out.floats(row).copy_from_slice(&y[..STRIP]);
        }
    }

    /// The hidden rows as the down matrices take them, then their products and the weighted sum.
    fn experts_down(&mut self, phases: &mut Phases<'_>, own: &mut OwnActivations<'_>, op: &Experts) {
        let context = self.context;
        let weights = self.weights(&op.down, 0);
        let layout =
            Layout::new(weights.activation(), weights.cols()).expect("the layout of an accepted weight");
        let choices = self.work.moe.rows.len();
        let (buffer, bytes) = (context.buffers.hidden_activations, choices * layout.stride);
        if choices > OWN_CHOICES {
            let cuts = [Region::bytes(buffer, 0, choices, layout.stride).by_rows(layout.stride)];
            let phase = phases.open(&cuts);
            while let Some(mut task) = phase.next_task() {
                self.quantize_hidden(&phase, &layout, task.first(), task.share(0).bytes(0));
            }
            phase.end();
        }
        let cuts = [context.region(op.to).by_columns(op.down.rows as usize, OUT_COLS)];
        let phase = phases.open(&cuts);
        let bytes = if choices > OWN_CHOICES {
            phase.bytes(buffer, 0, bytes)
        } else {
            let rows = own.hidden.bytes_mut()[..bytes].chunks_exact_mut(layout.stride);
            rows.enumerate().for_each(|(choice, row)| self.quantize_hidden(&phase, &layout, choice, row));
            &own.hidden.bytes()[..bytes]
        };
        let hidden = InputRows { layout, bytes };
        while let Some(mut task) = phase.next_task() {
            let pair = task.first();
            self.weighted_sums(op, &hidden, pair, &mut task.share(0));
        }
        phase.end();
    }

    /// Collects a choice's hidden row from the strips of its expert, and quantizes it.
    fn quantize_hidden(&mut self, phase: &Phase<'_>, layout: &Layout, choice: usize, to: &mut [u8]) {
        let Work { moe, row, .. } = &mut *self.work;
        let choices = moe.choices(moe.expert_of(choice));
        let strips = layout.cols.div_ceil(STRIP);
        let values = row.floats_mut();
        for (strip, to) in values.as_chunks_mut::<STRIP>().0.iter_mut().enumerate().take(strips) {
            let unit = choices.start * strips + strip * choices.len() + (choice - choices.start);
            to.copy_from_slice(phase.floats(self.context.buffers.hidden, unit * STRIP, STRIP));
        }
        self.context.isa.run(Quantize::new(layout, &values[..layout.cols], to));
    }

    /// A pair of output strips: all experts in ascending order, then the residual.
    fn weighted_sums(&mut self, op: &Experts, hidden: &InputRows<'_>, task: usize, out: &mut Share<'_>) {
        let rows = self.context.rows(op.input);
        self.work.block.floats_mut()[..rows * OUT_COLS].fill(0.0);
        for index in 0..self.work.moe.active.len() {
            let expert = self.work.moe.active[index] as usize;
            let choices = self.work.moe.choices(expert);
            let weights = self.weights(&op.down, expert);
            let selection = Selection::Range { first: choices.start, count: choices.len() };
            let products = hidden.products(self.context.isa, selection);
            let right = (2 * task + 1 < weights.strips()).then(|| weights.strip(2 * task + 1));
            let work = &mut *self.work;
            products.pair(weights.strip(2 * task), right, &mut work.scratch, work.products.floats_mut());
            let (first, rows) = (OUT_COLS * task, choices.len());
            self.adjust(&op.down, Adjusted { expert, first, columns: 0..OUT_COLS, rows });
            let work = &mut *self.work;
            let sums = work.block.floats_mut().as_chunks_mut::<OUT_COLS>().0;
            let products = work.products.floats().as_chunks::<OUT_COLS>().0;
            for (choice, y) in choices.zip(products) {
                let factor = work.moe.factors[choice];
                for (sum, y) in sums[work.moe.rows[choice] as usize].iter_mut().zip(y) {
                    *sum += factor * y;
                }
            }
        }
        for (row, sums) in self.work.block.floats().as_chunks::<OUT_COLS>().0.iter().enumerate().take(rows) {
            let adds = op.update == Update::Add;
            for (to, sum) in out.floats(row).iter_mut().zip(sums) {
                *to = if adds { *to + sum } else { *sum };
            }
        }
    }
}

impl Work<'_> {
    /// Writes some chosen experts to piece `at` of a share.
    fn publish_ids(&self, to: &mut Share<'_>, at: usize, choices: Range<usize>) {
        for (out, &id) in to.floats(at).iter_mut().zip(&self.moe.ids[choices]) {
            *out = f32::from_bits(id);
        }
    }

    /// Writes the weights of some chosen experts to piece `at` of a share.
    fn publish_weights(&self, to: &mut Share<'_>, at: usize, choices: Range<usize>) {
        to.floats(at).copy_from_slice(&self.moe.weights[choices]);
    }
}

impl MoeMemory<'_> {
    /// The hidden rows from task `first` on that have its strip and expert.
    fn hidden_task(&self, strips: usize, first: usize) -> HiddenTask {
        let expert = self.expert_of(first / strips);
        let choices = self.choices(expert);
        let at = first - choices.start * strips;
        let (strip, choice) = (at / choices.len(), at % choices.len());
        HiddenTask { expert, strip, choices: choices.start + choice..choices.end }
    }
}

/// Fills `ids` with the experts of the largest scores (with `bias`), larger ones and lower numbers first, and `taken`
/// with the scores.
fn largest(scores: &[f32], bias: Option<&[f32]>, ids: &mut [u32], taken: &mut [f32]) {
    let mut count = 0;
    for (expert, &x) in scores.iter().enumerate() {
        let score = x + bias.map_or(0.0, |bias| bias[expert]);
        let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
        let mut at = count;
        while at > 0 && score > taken[at - 1] {
            at -= 1;
        }
        if at < ids.len() {
            count = (count + 1).min(ids.len());
            ids.copy_within(at..count - 1, at + 1);
            taken.copy_within(at..count - 1, at + 1);
            (ids[at], taken[at]) = (expert as u32, score);
        }
    }
}

/// Softmax in place; the largest value is subtracted first.
fn softmax(isa: Isa, x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    isa.run(Exponential { x, minus: max });
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|x| *x /= sum);
}
