//! The vocabulary scores: all of them, or the best.
#![expect(unsafe_code, reason = "tasks of a phase write disjoint cells of shared buffers")]

use super::step::Step;
use crate::elementwise::{Cap, RmsNorm};
use crate::product::OUT_COLS;
use doorbell_core::plan::{Head, HeadResult};

impl Step<'_, '_> {
    pub(super) fn head(&mut self, op: &Head) {
        if op.result == HeadResult::Hidden {
            return self.hidden(op);
        }
        let panels = self.panels(op.input, Some(op.norm), core::iter::once(&op.matrix));
        let outputs = self.rows(op.input);
        self.local.best.clear();
        self.local.best.resize(outputs, (f32::NEG_INFINITY, u32::MAX));
        let vocabulary = op.matrix.rows as usize;
        for task in self.team.tasks(vocabulary.div_ceil(OUT_COLS)) {
            let rows = self.pair(&op.matrix, &panels, task);
            let first = task * OUT_COLS;
            let count = OUT_COLS.min(vocabulary - first);
            let products = &mut self.local.products.floats_mut()[..rows * OUT_COLS];
            if op.soft_cap.is_some() || op.scale != 1.0 {
                self.context.isa.run(Cap { x: products, scale: op.scale, cap: op.soft_cap });
            }
            for (row, y) in products.as_chunks::<OUT_COLS>().0.iter().enumerate() {
                match op.result {
                    HeadResult::Logits => {
                        // SAFETY: this task's columns.
                        let out = unsafe { self.context.logits.write(row * vocabulary + first, count) };
                        out.copy_from_slice(&y[..count]);
                    }
                    HeadResult::ArgMax | HeadResult::Hidden => {
                        let best = &mut self.local.best[row];
                        for (column, &y) in y[..count].iter().enumerate() {
                            *best = better(*best, (y, (first + column) as u32));
                        }
                    }
                }
            }
        }
        if op.result == HeadResult::ArgMax {
            for (row, best) in self.local.best.iter().enumerate() {
                // SAFETY: this thread's cells.
                let cells = unsafe { self.context.best.write((self.team.index() * outputs + row) * 2, 2) };
                cells.copy_from_slice(&[best.0, f32::from_bits(best.1)]);
            }
        }
        self.team.barrier();
    }

    /// The input behind its norm, instead of scores.
    fn hidden(&mut self, op: &Head) {
        let width = self.context.plan.tensor(op.input).width as usize;
        let weight = self.context.model.vector(op.norm.weight);
        for row in self.team.tasks(self.rows(op.input)) {
            // SAFETY: the input is not written in this phase; the output row is this task's.
            let (x, out) =
                unsafe { (self.read(op.input, row), self.context.logits.write(row * width, width)) };
            self.context.isa.run(RmsNorm { x, weight, eps: op.norm.eps, out });
        }
        self.team.barrier();
    }
}

/// The larger value, the lower token on ties; a value that is not a number never wins.
pub(super) fn better(a: (f32, u32), b: (f32, u32)) -> (f32, u32) {
    if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
}
