//! Buffers of a backend that grow with the plans.

use doorbell_core::plan::{Batch, Plan};
use doorbell_kernels::{RING, scratch_bytes};
use doorbell_kfd::memory::{Buffer, Name, Usage};

use super::{Buffers, GpuBackend};
use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::input_block::Layout;

impl GpuBackend<'_, '_, '_> {
    /// Grows the buffers for a plan; recordings with old addresses are discarded.
    pub(super) fn grow(&mut self, plan: &Plan<'_>) -> Result<(), GpuError> {
        let device = self.device.as_mut().ok_or(GpuError::Lost(None))?;
        let result = 4
            * u64::from(plan.shape.outputs)
            * u64::from(self.model.vocabulary.max(self.model.hparams.width));
        let inputs = Layout::new(plan.shape, self.model.groups.len()).fixed_bytes();
        let pages = u64::from(self.settings.pages.table());
        let tables = u64::from(plan.shape.outputs) * pages * self.model.groups.len() as u64;
        let reachable = device.reachable_usage();
        let scratch = scratch_bytes(plan, &self.kept);
        let Buffers { arena, scratch: kept_scratch, result: kept_result, inputs: kept_inputs, ring } =
            &mut self.buffers;
        let mut moved = enlarge(device, arena, reachable, 4 * plan.arena as u64, "activations")?;
        if enlarge(device, kept_scratch, device.usage(), scratch.max(1), "kernel scratch")? {
            moved = true;
            if let Some(buffer) = kept_scratch {
                zero(device, buffer)?;
            }
        }
        moved |= enlarge(device, kept_result, Usage::Staging, result, "results")?;
        moved |= enlarge(device, kept_inputs, Usage::Staging, inputs + 4 * tables, "inputs")?;
        let ring_bytes = 4 * u64::from(plan.shape.outputs) * u64::from(RING);
        moved |= enlarge(device, ring, Usage::Signals, ring_bytes, "picked tokens")?;
        if moved {
            self.recordings.clear(device);
        }
        Ok(())
    }

    /// Writes the input block of a batch. Page tables reach to `positions`, with the pages of sequences that grow by
    /// `ahead` more.
    pub(super) fn write_inputs(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        ahead: u32,
        positions: u32,
    ) -> Result<(), GpuError> {
        let layout = Layout::new(plan.shape, self.model.groups.len());
        layout.write(batch, ahead, positions, &mut self.block);
        let device = self.device.as_mut().ok_or(GpuError::Lost(None))?;
        let bytes = self.block.len() as u64;
        if enlarge(device, &mut self.buffers.inputs, Usage::Staging, bytes, "inputs")? {
            self.recordings.clear(device);
        }
        if let Some(window) = self.buffers.inputs.as_ref().and_then(Buffer::window) {
            window.write(0, &self.block);
        }
        Ok(())
    }
}

/// Grows a buffer to at least `bytes`; returns true if its address changed.
pub(super) fn enlarge(
    device: &mut GpuDevice<'_>,
    buffer: &mut Option<Buffer>,
    usage: Usage,
    bytes: u64,
    name: &str,
) -> Result<bool, GpuError> {
    if buffer.as_ref().is_some_and(|buffer| buffer.bytes() >= bytes) {
        return Ok(false);
    }
    if let Some(old) = buffer.take() {
        device.free(old);
    }
    *buffer = Some(device.allocate(usage, bytes, Name::new(name))?);
    Ok(true)
}

/// Fills a buffer with zeros.
fn zero(device: &mut GpuDevice<'_>, buffer: &Buffer) -> Result<(), GpuError> {
    const PIECE: u64 = 1 << 16;
    let zeros = alloc::vec![0; PIECE as usize];
    let mut at = 0;
    while at < buffer.bytes() {
        let count = PIECE.min(buffer.bytes() - at);
        device.write(buffer, at, &zeros[..count as usize])?;
        at += count;
    }
    Ok(())
}
