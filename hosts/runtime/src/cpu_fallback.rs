//! The CPU driver as the fallback of a GPU backend: it runs the operations that the GPU does not run.
//!
//! Not here: the choice of these operations (`doorbell-gpu`).

use core::ops::Range;
use doorbell_core::backend::{Backend as _, KvType, Output};
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, KvPages, Plan, StateId};
use doorbell_cpu::backend::{CpuBackend, CpuError};
use doorbell_gpu::{CpuFallback, CpuFallbackError};

/// The CPU driver, created on first use: most models run on the GPU alone.
pub(crate) struct CpuDriverFallback<'m, 'a> {
    model: &'m Model<'a>,
    pages: KvPages,
    kv: KvType,
    threads: usize,
    heap: Heap<'m>,
    /// Recurrent states that a driver has to have.
    states: u32,
    driver: Option<CpuBackend<'m, 'a>>,
}

impl<'m, 'a> CpuDriverFallback<'m, 'a> {
    /// A fallback for a model with these KV pages, on `threads` threads.
    #[must_use]
    pub(crate) fn new(
        model: &'m Model<'a>,
        pages: impl Into<KvPages>,
        kv: KvType,
        threads: usize,
        heap: Heap<'m>,
    ) -> Self {
        let pages = pages.into();
        Self { model, pages, kv, threads, heap, states: 0, driver: None }
    }

    fn driver(&mut self) -> Result<&mut CpuBackend<'m, 'a>, CpuError> {
        if self.driver.is_none() {
            let mut driver = CpuBackend::new(self.model, self.pages, self.kv, self.threads, self.heap)?;
            driver.reserve_states(self.states)?;
            self.driver = Some(driver);
        }
        match &mut self.driver {
            Some(driver) => Ok(driver),
            None => Err(CpuError::Thread { wanted: self.threads }),
        }
    }
}

fn refusal(error: CpuError) -> CpuFallbackError {
    match error {
        CpuError::Memory(error) => CpuFallbackError::Memory(error),
        CpuError::Batch(error) => CpuFallbackError::Batch(error),
        CpuError::Weight { ty } => CpuFallbackError::Weight(ty),
        CpuError::Thread { wanted } => CpuFallbackError::Threads(wanted),
        _ => CpuFallbackError::Keys,
    }
}

impl CpuFallback for CpuDriverFallback<'_, '_> {
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), CpuFallbackError> {
        self.driver().and_then(|driver| driver.reserve(plan)).map_err(refusal)
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), CpuFallbackError> {
        self.states = count;
        match &mut self.driver {
            Some(driver) => driver.reserve_states(count).map_err(refusal),
            None => Ok(()),
        }
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        if let Some(driver) = &mut self.driver {
            driver.copy_state(from, to);
        }
    }

    fn arena(&mut self) -> &mut [f32] {
        self.driver.as_mut().map_or(&mut [], CpuBackend::arena)
    }

    fn run(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, ops: Range<usize>) -> Result<(), CpuFallbackError> {
        self.driver().and_then(|driver| driver.run_part(plan, batch, ops)).map_err(refusal)
    }

    fn result(&mut self, out: &mut Vec<u32>) {
        let delivered = self.driver.as_mut().and_then(|driver| driver.poll().ok().flatten());
        match delivered {
            Some(Output::Logits(values) | Output::Hidden(values)) => {
                out.extend(values.iter().map(|value| value.to_bits()));
            }
            Some(Output::Tokens(tokens)) => out.extend(tokens.iter().map(|token| token.0)),
            None => {}
        }
    }
}
