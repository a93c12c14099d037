//! Activations and results of a step in device memory, as the host reads and writes them.

use alloc::vec::Vec;
use core::ops::Range;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, Element, Op, Plan, TensorId};
use doorbell_kfd::memory::Buffer;

use super::interface::CpuFallback;
use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::operands::{outputs, overwrites};

/// The memory of a step. All buffers are mapped by the host: they were allocated as reachable.
pub(crate) struct StepMemory<'c, 'k> {
    pub(crate) device: &'c mut GpuDevice<'k>,
    pub(crate) plan: &'c Plan<'c>,
    pub(crate) batch: &'c Batch<'c>,
    pub(crate) arena: &'c Buffer,
    pub(crate) result: &'c Buffer,
    pub(crate) model: &'c Model<'c>,
}

/// Reads 4-byte words of a buffer; zeros if the host does not map it.
pub(crate) fn read_words(buffer: &Buffer, offset: u64, count: usize) -> Vec<u32> {
    let mut bytes = alloc::vec![0; 4 * count];
    if let Some(window) = buffer.window() {
        window.read(offset as usize, &mut bytes);
    }
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

impl StepMemory<'_, '_> {
    /// Rows of a tensor in this batch.
    pub(crate) fn rows(&self, id: TensorId) -> usize {
        self.batch.rows_of(self.plan.tensor(id).rows)
    }

    /// Range of the arena, in cells, that holds a tensor's rows of this batch.
    fn cells(&self, id: TensorId) -> Range<usize> {
        let tensor = self.plan.tensor(id);
        tensor.offset..tensor.offset + self.rows(id) * tensor.width as usize
    }

    /// Reads all rows of a tensor.
    pub(crate) fn words(&self, id: TensorId) -> Vec<u32> {
        let cells = self.cells(id);
        read_words(self.arena, 4 * cells.start as u64, cells.len())
    }

    /// Writes all rows of a tensor.
    pub(crate) fn write(&mut self, id: TensorId, words: &[u32]) -> Result<(), GpuError> {
        let offset = 4 * self.plan.tensor(id).offset as u64;
        self.device.write(self.arena, offset, bytemuck::cast_slice(words))
    }

    /// Runs operations of the plan on a lent fallback. Everything before them is complete and visible to the host.
    pub(crate) fn run(&mut self, fallback: &mut dyn CpuFallback, ops: Range<usize>) -> Result<(), GpuError> {
        let (plan, batch) = (self.plan, self.batch);
        self.fetch(fallback.arena(), &plan.ops[ops.clone()]);
        fallback.run(plan, batch, ops.clone())?;
        let mut result = Vec::new();
        if plan.ops[ops.clone()].iter().any(|op| matches!(op, Op::Head(_))) {
            fallback.result(&mut result);
        }
        self.store(fallback.arena(), &plan.ops[ops], &result)
    }

    /// Copies the tensors that operations read into the host's arena.
    pub(super) fn fetch(&self, arena: &mut [f32], ops: &[Op]) {
        let mut fetched: Vec<TensorId> = Vec::new();
        for op in ops {
            op.each_tensor(|id| {
                if !fetched.contains(&id) {
                    fetched.push(id);
                    if !overwrites(op, id) {
                        self.fetch_tensor(arena, id, op);
                    }
                }
            });
        }
    }

    fn fetch_tensor(&self, arena: &mut [f32], id: TensorId, op: &Op) {
        let cells = self.cells(id);
        let at = 4 * cells.start;
        let Some(own) = arena.get_mut(cells) else { return };
        if let Some(window) = self.arena.window() {
            window.read(at, bytemuck::cast_slice_mut(own));
        }
        if let (Op::Experts(op), Element::U32) = (op, self.plan.tensor(id).element) {
            // Wrong values written by a faulty device must not end the program.
            let last = self.model.weight(op.gate.weight).stack.saturating_sub(1) as u32;
            own.iter_mut().for_each(|cell| *cell = f32::from_bits(cell.to_bits().min(last)));
        }
    }

    /// Copies the tensors that operations wrote, and the result of a head among them, to device memory.
    pub(super) fn store(&mut self, arena: &[f32], ops: &[Op], result: &[u32]) -> Result<(), GpuError> {
        let mut written: Vec<TensorId> = Vec::new();
        for id in ops.iter().flat_map(outputs) {
            if !written.contains(&id) {
                written.push(id);
            }
        }
        for id in written {
            self.write(id, bytemuck::cast_slice(&arena[self.cells(id)]))?;
        }
        if result.is_empty() {
            Ok(())
        } else {
            self.device.write(self.result, 0, bytemuck::cast_slice(result))
        }
    }
}
