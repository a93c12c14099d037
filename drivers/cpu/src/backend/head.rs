//! The vocabulary scores: all of them, or the best.

use super::inputs::{Layouts, Source};
use super::local::{Best, OwnActivations};
use super::step::Step;
use crate::elementwise::Cap;
use crate::phase::{Cut, Phases, Region};
use crate::product::OUT_COLS;
use doorbell_core::plan::{Head, HeadResult};

impl Step<'_, '_> {
    pub(super) fn head(&mut self, phases: &mut Phases<'_>, own: &mut OwnActivations<'_>, op: &Head) {
        if op.result == HeadResult::Hidden {
            return self.hidden(phases, op);
        }
        let context = self.context;
        let source = Source { input: op.input, norm: Some(op.norm) };
        let layouts = Layouts::of(context, core::iter::once(&op.matrix));
        self.share_inputs(phases, source, &layouts);
        let outputs = context.rows(op.input);
        self.work.best.clear();
        self.work.best.resize(outputs, Best::NONE);
        let vocabulary = op.matrix.rows as usize;
        let bests = Region::floats(context.buffers.best, 0, phases.threads(), 2 * outputs);
        let cuts = match op.result {
            HeadResult::Logits => {
                let logits = Region::floats(context.buffers.logits, 0, outputs, vocabulary);
                [logits.by_columns(vocabulary, OUT_COLS), bests.by_rows(0).by_thread()]
            }
            _ => [Cut::tasks(vocabulary.div_ceil(OUT_COLS)), bests.by_rows(2 * outputs).by_thread()],
        };
        let mut phase = phases.open(&cuts);
        let inputs = self.inputs(&phase, own, source, &layouts);
        while let Some(mut task) = phase.next_task() {
            let rows = self.pair(&op.matrix, &inputs, task.first());
            let first = task.first() * OUT_COLS;
            let count = OUT_COLS.min(vocabulary - first);
            let products = &mut self.work.products.floats_mut()[..rows * OUT_COLS];
            if op.soft_cap.is_some() || op.scale != 1.0 {
                context.isa.run(Cap { x: products, scale: op.scale, cap: op.soft_cap });
            }
            for (row, y) in products.as_chunks::<OUT_COLS>().0.iter().enumerate() {
                if op.result == HeadResult::Logits {
                    task.share(0).floats(row).copy_from_slice(&y[..count]);
                    continue;
                }
                let best = &mut self.work.best[row];
                for (column, &logit) in y[..count].iter().enumerate() {
                    *best = best.or(Best { logit, token: (first + column) as u32 });
                }
            }
        }
        if op.result == HeadResult::ArgMax
            && let Some(mut share) = phase.own(1)
        {
            for (cells, best) in share.floats(0).as_chunks_mut::<2>().0.iter_mut().zip(&self.work.best) {
                *cells = [best.logit, f32::from_bits(best.token)];
            }
        }
        phase.end();
    }

    /// The input behind its norm, instead of scores.
    fn hidden(&mut self, phases: &mut Phases<'_>, op: &Head) {
        let context = self.context;
        let (rows, width) = (context.rows(op.input), context.width(op.input));
        let cuts = [Region::floats(context.buffers.logits, 0, rows, width).by_rows(width)];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let x = context.read(&phase, op.input, task.first());
            let mut share = task.share(0);
            context.normalize(op.norm, x, share.floats(0));
        }
        phase.end();
    }
}
