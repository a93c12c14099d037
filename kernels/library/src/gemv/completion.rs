//! Work of the workgroup that is the last to finish something.

use crate::builder_ext::BuilderExt;
use crate::rope::spec::BatchArguments;
use doorbell_compiler::ir::{Builder, Value, Width};

/// Arguments and LDS for finding the last workgroup.
pub(crate) struct Completion {
    pub(crate) counters: Value,
    /// LDS of an arrival.
    pub(crate) slot: u32,
    /// Positions and pages of the batch's rows.
    pub(crate) batch: Option<BatchArguments>,
}

impl Completion {
    /// Runs `body` for each row, a wave each, in the last of `total` workgroups that count on `counter`.
    pub(crate) fn when_last(
        &self,
        k: &mut Builder,
        counter: Value,
        total: Value,
        rows: Value,
        body: impl FnOnce(&mut Builder, Value),
    ) {
        let offset = k.eval(counter << 2);
        let counter = k.global(self.counters, offset);
        let last = k.last_arrival(counter, total, self.slot);
        k.when(last, |k| {
            k.store(counter, Width::Dwords(1), 0);
            let wave = k.wave();
            k.when(wave.lt(rows), |k| body(k, wave));
        });
    }
}
