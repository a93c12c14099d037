//! The check that PM4 lists work on a device: whole steps as lists against the same steps as packets, before the first
//! step.
//!
//! Other drivers' command streams are such lists, but no firmware is documented to take them from an AQL queue. Where
//! it does not, steps are packets, which every runtime uses. Not here: what lists are made of (`record`).

use alloc::vec::Vec;
use doorbell_core::heap::Heap;
use doorbell_core::plan::{HeadResult, Plan, Shape};
use doorbell_kfd::packet::Encoding;
use doorbell_kfd::queue::Queue;

use super::GpuBackend;
use super::kernel_check::TestBatch;
use crate::error::GpuError;
use crate::kernel_check::{KernelCheckCache, NO_KEY, Pm4CheckFailure, key};

/// Milliseconds without progress after which a list counts as refused: a step of a few rows takes less by far.
const PATIENCE_MS: u32 = 2_000;

/// Cache key of this check; the number is raised when lists are written in another way.
const LISTS: &[u8] = b"PM4 lists 1";

impl GpuBackend<'_, '_, '_> {
    /// The reason why steps are packets although lists were wanted; `None` if lists work or were not wanted.
    pub fn pm4_check_failure(&self) -> Option<&Pm4CheckFailure> {
        self.pm4_check_failure.as_ref()
    }

    /// Falls back to packets if lists do not work; a result in `cache` is not tried again.
    ///
    /// # Errors
    /// Memory, faults of the device with packets, or a device that a list has cost.
    pub(super) fn check_lists(
        &mut self,
        cache: &mut dyn KernelCheckCache,
        heap: Heap<'_>,
    ) -> Result<(), GpuError> {
        if self.encoding != Encoding::Pm4 {
            return Ok(());
        }
        let key = key(NO_KEY, LISTS);
        let cached = cache.get(key).map(|error| (error > 0.0).then_some(Pm4CheckFailure::Known));
        let found = match cached {
            Some(found) => found,
            None => {
                let found = self.try_lists(heap)?;
                cache.insert(key, if found.is_some() { f64::INFINITY } else { 0.0 });
                found
            }
        };
        let Some(reason) = found else { return Ok(()) };
        self.submit_as(Encoding::Aql);
        if let Pm4CheckFailure::Failed(_) = &reason {
            self.recover()?;
        }
        self.pm4_check_failure = Some(reason);
        Ok(())
    }

    /// Runs a prompt and a token behind it as lists, then as packets: in this order nothing that a list leaves out is
    /// there already.
    fn try_lists(&mut self, heap: Heap<'_>) -> Result<Option<Pm4CheckFailure>, GpuError> {
        let [rows, _] = self.checked_rows();
        let plan = |rows| self.model.plan(Shape { rows, outputs: 1 }, HeadResult::Logits, heap);
        let steps = [(plan(rows)?, 0), (plan(1)?, rows)];
        let patience = self.settings.hang_ms;
        self.settings.hang_ms = patience.min(PATIENCE_MS);
        let by_list = self.answers(&steps);
        self.settings.hang_ms = patience;
        let by_list = match by_list {
            Err(GpuError::Fault(fault, _)) => return Ok(Some(Pm4CheckFailure::Failed(fault))),
            by_list => by_list?,
        };
        self.submit_as(Encoding::Aql);
        let expected = self.answers(&steps)?;
        self.submit_as(Encoding::Pm4);
        Ok((by_list != expected).then_some(Pm4CheckFailure::Differs))
    }

    /// The logits of steps, in bits.
    fn answers(&mut self, steps: &[(Plan<'_>, u32)]) -> Result<Vec<Vec<u32>>, GpuError> {
        let mut answers = Vec::new();
        for (plan, position) in steps {
            let test_batch = TestBatch::new(plan, *position, self.model);
            self.begin(plan, &test_batch.batch(), 1, false)?;
            while self.collect()?.is_none() {}
            answers.push(self.numbers.iter().map(|number| number.to_bits()).collect());
        }
        Ok(answers)
    }

    fn submit_as(&mut self, encoding: Encoding) {
        self.encoding = encoding;
        if let Some(device) = &mut self.device {
            self.recordings.clear(device);
        }
    }

    /// Replaces a queue that was lost to a list, and discards the scratch memory that the list left in an unknown
    /// state.
    fn recover(&mut self) -> Result<(), GpuError> {
        let fault = self.lost.take().flatten();
        let (Some(device), Some(queue)) = (&mut self.device, self.queue.take()) else {
            return Err(GpuError::Lost(fault));
        };
        let index = device.index;
        if queue.destroy(&mut device.process).is_err() || device.process.is_lost(index) {
            self.lost = Some(fault.clone());
            return Err(GpuError::Lost(fault));
        }
        self.queue = Some(Queue::create(&mut device.process, index, self.settings.queue())?);
        // Its counters have to begin at zero; it is made anew, zeroed, with the next step.
        if let Some(scratch) = self.buffers.scratch.take() {
            device.free(scratch);
        }
        Ok(())
    }
}
