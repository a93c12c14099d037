//! What the workgroup does that is the last to finish something.

use crate::builder_ext::BuilderExt;
use doorbell_compiler::ir::{Builder, Value, Width};

/// What workgroups that complete something need.
pub(crate) struct Completion {
    pub(crate) counters: Value,
    /// LDS of an arrival.
    pub(crate) slot: u32,
    /// Positions, page-table starts, pages.
    pub(crate) batch: Option<[Value; 3]>,
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
        let place = k.left(counter, 2);
        let counter = k.global(self.counters, place);
        let last = k.last_arrival(counter, total, self.slot);
        k.when(last, |k| {
            let zero = k.int(0);
            k.store(counter, Width::Dwords(1), zero);
            let wave = k.wave();
            let real = k.lt_u(wave, rows);
            k.when(real, |k| body(k, wave));
        });
    }
}
