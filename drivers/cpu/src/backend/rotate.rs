//! Heads that are rotated by an operation of their own.

use super::project::{HeadRule, HeadTarget};
use super::step::Step;
use crate::phase::Phases;
use doorbell_core::plan::{self, Norm, Rotate};

impl Step<'_, '_> {
    /// A task is a head of all rows.
    pub(super) fn rotate(&mut self, phases: &mut Phases<'_>, op: &Rotate) {
        let context = self.context;
        let (rows, width) = (context.rows(op.input), context.width(op.input));
        let (cut, head_dim, target) = match op.target {
            plan::HeadTarget::Query { head_dim, out } => {
                let dim = head_dim as usize;
                (context.region(out).by_columns(width, dim), dim, HeadTarget::Tensor)
            }
            plan::HeadTarget::Key(kv) => {
                let dim = context.pool(kv.group).layout.shape().key_dim;
                (self.key_cut(kv, width), dim, HeadTarget::Keys(kv))
            }
        };
        let rule = HeadRule { input: op.input, norm: None, rope: op.rope, head_dim, target };
        let cuts = [cut];
        let phase = phases.open(&cuts);
        while let Some(mut task) = phase.next_task() {
            let head = task.first() * head_dim..(task.first() + 1) * head_dim;
            let mut share = task.share(0);
            for row in 0..rows {
                let x = &context.read(&phase, op.input, row)[head.clone()];
                self.work.block.floats_mut()[row * head_dim..][..head_dim].copy_from_slice(x);
                self.rotate_head(&phase, rule, row);
                self.scale_head(op, rule, row, op.norm);
                self.store_head(rule, row, &mut share);
            }
        }
        phase.end();
    }

    /// The norm and the factor behind the rotation.
    fn scale_head(&mut self, op: &Rotate, rule: HeadRule, row: usize, norm: Option<Norm>) {
        let (context, dim) = (self.context, rule.head_dim);
        self.norm_head(norm, row, dim);
        if let Some(temperature) = op.temperature {
            let factor = temperature.factor(context.position(op.input, row).position);
            let head = &mut self.work.block.floats_mut()[row * dim..(row + 1) * dim];
            head.iter_mut().for_each(|x| *x *= factor);
        }
    }
}
