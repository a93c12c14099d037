//! Device memory as the host sees it during a step: activations by tensor, keys and values, results.

use alloc::vec::Vec;
use doorbell_core::backend::KvType;
use doorbell_core::model::KvGroup;
use doorbell_core::plan::{Batch, Plan, Rows, TensorId};
use doorbell_kfd::memory::Buffer;

use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::model_buffers::KvBuffers;

/// What an operation on the host may touch. All buffers are mapped by the host: they were allocated as reachable.
pub(crate) struct Memory<'c, 'k> {
    pub(crate) device: &'c mut GpuDevice<'k>,
    pub(crate) plan: &'c Plan<'c>,
    pub(crate) batch: &'c Batch<'c>,
    pub(crate) arena: &'c Buffer,
    pub(crate) result: &'c Buffer,
    pub(crate) pools: &'c [KvBuffers],
    /// What the pools are laid out for.
    pub(crate) groups: &'c [KvGroup],
    pub(crate) kv: KvType,
}

/// 4-byte words of a buffer; zeros where the host does not map it.
pub(crate) fn read_words(buffer: &Buffer, offset: u64, count: usize) -> Vec<u32> {
    let mut bytes = alloc::vec![0; 4 * count];
    if let Some(window) = buffer.window() {
        window.read(offset as usize, &mut bytes);
    }
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

impl Memory<'_, '_> {
    /// Rows of a tensor in this batch.
    pub(crate) fn rows(&self, id: TensorId) -> usize {
        match self.plan.tensor(id).rows {
            Rows::Batch => self.batch.rows(),
            Rows::Outputs => self.batch.outputs.len(),
        }
    }

    /// Sequence and position of a tensor's row.
    pub(crate) fn place(&self, id: TensorId, row: usize) -> (u32, u32) {
        let row = match self.plan.tensor(id).rows {
            Rows::Batch => row as u32,
            Rows::Outputs => self.batch.outputs[row],
        };
        // The batch has been checked.
        self.batch.locate(row).unwrap_or_default()
    }

    /// Cells per row.
    pub(crate) fn width(&self, id: TensorId) -> usize {
        self.plan.tensor(id).width as usize
    }

    /// All rows of a tensor.
    pub(crate) fn words(&self, id: TensorId) -> Vec<u32> {
        read_words(self.arena, 4 * self.plan.tensor(id).offset as u64, self.rows(id) * self.width(id))
    }

    /// All rows of a tensor of numbers.
    pub(crate) fn floats(&self, id: TensorId) -> Vec<f32> {
        self.words(id).into_iter().map(f32::from_bits).collect()
    }

    /// Writes all rows of a tensor.
    pub(crate) fn put(&mut self, id: TensorId, words: &[u32]) -> Result<(), GpuError> {
        let offset = 4 * self.plan.tensor(id).offset as u64;
        self.device.write(self.arena, offset, bytemuck::cast_slice(words))
    }

    /// Writes all rows of a tensor of numbers.
    pub(crate) fn put_floats(&mut self, id: TensorId, values: &[f32]) -> Result<(), GpuError> {
        self.put(id, bytemuck::cast_slice(values))
    }
}
