//! The plan itself: operations, activation tensors, and the layout of the tensors in the arena.

use super::id::TensorId;
use super::kv_type::KvError;
use super::op::Op;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use core::fmt;

/// The number of rows of a tensor, relative to the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// As many as the batch.
    Batch,
    /// As many as the batch has outputs.
    Outputs,
}

/// The type of a tensor's 4-byte cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// f32 values.
    F32,
    /// u32 indexes.
    U32,
}

/// An activation tensor: `[rows, width]`, dense, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Number of rows.
    pub rows: Rows,
    /// Cells per row.
    pub width: u32,
    /// Type of a cell.
    pub element: Element,
    /// First cell in the arena. Tensors that are never alive together may overlap.
    pub offset: usize,
}

/// The largest batch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shape {
    /// Rows.
    pub rows: u32,
    /// Output rows.
    pub outputs: u32,
}

/// A flat list of operations over activation tensors in one arena.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The largest batch.
    pub shape: Shape,
    /// In order of execution.
    pub ops: Vec<'a, Op>,
    /// By [`TensorId`].
    pub tensors: Vec<'a, Tensor>,
    /// Cells (4 bytes each) that the arena needs.
    pub arena: usize,
}

impl Plan<'_> {
    /// Bytes taken from the heap for operations and tensors; the arena is the backend's.
    pub fn heap_bytes(&self) -> usize {
        heap::held(&self.ops) + heap::held(&self.tensors)
    }

    /// A tensor of this plan.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }
}

/// A plan that could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PlanError {
    /// The heap refused.
    Memory(OutOfMemory),
    /// More activation tensors than [`TensorId`] can name.
    TooManyTensors,
    /// The arena's size overflows.
    TooLarge(Shape),
    /// Keys and values can't be stored in the type.
    Kv(KvError),
}

impl From<KvError> for PlanError {
    fn from(error: KvError) -> Self {
        Self::Kv(error)
    }
}

impl From<OutOfMemory> for PlanError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Kv(error) => error.fmt(f),
            Self::TooManyTensors => write!(f, "the plan needs more than {} activation tensors", u16::MAX),
            Self::TooLarge(shape) => {
                write!(
                    f,
                    "activations of {} rows do not fit the address space; use smaller batches",
                    shape.rows
                )
            }
        }
    }
}

impl core::error::Error for PlanError {}

/// Collects operations and tensors, then lays the tensors out by liveness.
pub(crate) struct Builder<'a> {
    plan: Plan<'a>,
    heap: Heap<'a>,
}

/// Cells are laid out in lines of 64 bytes.
const LINE: usize = 16;

impl<'a> Builder<'a> {
    pub(crate) fn new(shape: Shape, heap: Heap<'a>) -> Self {
        let plan = Plan { shape, ops: Vec::new_in(heap), tensors: Vec::new_in(heap), arena: 0 };
        Self { plan, heap }
    }

    pub(crate) fn tensor(&mut self, rows: Rows, width: u32, element: Element) -> Result<TensorId, PlanError> {
        let id = u16::try_from(self.plan.tensors.len()).map_err(|_| PlanError::TooManyTensors)?;
        heap::push(&mut self.plan.tensors, Tensor { rows, width, element, offset: 0 })?;
        Ok(TensorId(id))
    }

    pub(crate) fn op(&mut self, op: Op) -> Result<(), PlanError> {
        Ok(heap::push(&mut self.plan.ops, op)?)
    }

    /// Gives every tensor the lowest offset that is free from its first to its last use.
    pub(crate) fn finish(mut self) -> Result<Plan<'a>, PlanError> {
        let count = self.plan.tensors.len();
        let mut first = heap::filled(self.heap, count, usize::MAX)?;
        let mut last = heap::filled(self.heap, count, 0usize)?;
        for (at, op) in self.plan.ops.iter().enumerate() {
            op.each_tensor(|id| {
                let index = id.index();
                first[index] = first[index].min(at);
                last[index] = last[index].max(at);
            });
        }
        let mut order = heap::with_capacity(self.heap, count)?;
        order.extend((0..count).filter(|&index| first[index] != usize::MAX));
        order.sort_unstable_by_key(|&index| (first[index], index));
        // Tensors with an offset that are still alive, by offset.
        let mut alive: Vec<'a, (usize, usize, usize)> = heap::with_capacity(self.heap, count)?;
        for &index in &order {
            alive.retain(|&(_, _, until)| until >= first[index]);
            let cells = self.cells(index).ok_or(PlanError::TooLarge(self.plan.shape))?;
            let mut offset = 0usize;
            let mut position = 0;
            for &(start, len, _) in &alive {
                if offset + cells <= start {
                    break;
                }
                offset = offset.max(start + len);
                position += 1;
            }
            let end = offset.checked_add(cells).ok_or(PlanError::TooLarge(self.plan.shape))?;
            self.plan.tensors[index].offset = offset;
            self.plan.arena = self.plan.arena.max(end);
            alive.insert(position, (offset, cells, last[index]));
        }
        Ok(self.plan)
    }

    /// Cells of a tensor at the plan's shape, rounded up to whole lines.
    fn cells(&self, index: usize) -> Option<usize> {
        let tensor = &self.plan.tensors[index];
        let rows = match tensor.rows {
            Rows::Batch => self.plan.shape.rows,
            Rows::Outputs => self.plan.shape.outputs,
        };
        let cells = (rows as usize).checked_mul(tensor.width as usize)?;
        // Headroom so that sums of a few offsets cannot overflow either.
        cells.checked_next_multiple_of(LINE).filter(|&cells| cells < usize::MAX / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Global;
    use crate::plan::{Norm, NormAdd, Update, VectorId};

    #[test]
    fn tensors_share_cells_only_when_never_alive_together() {
        let heap: Heap<'_> = &Global;
        let mut builder = Builder::new(Shape { rows: 3, outputs: 1 }, heap);
        let mut ids = [TensorId(0); 4];
        for id in &mut ids {
            *id = builder.tensor(Rows::Batch, 20, Element::F32).unwrap();
        }
        let norm = Norm::rms(VectorId(0), 0.0);
        // 0 lives throughout, 1 then 2 then 3 in turn.
        for branch in 1..4 {
            builder.op(Op::Select { input: ids[0], out: ids[branch] }).unwrap();
            let add = NormAdd { input: ids[branch], norm, to: ids[0], update: Update::Add, scale: 1.0 };
            builder.op(Op::NormAdd(add)).unwrap();
        }
        let plan = builder.finish().unwrap();
        assert_eq!(plan.tensors.iter().map(|t| t.offset).collect::<heapless::Vec<_, 4>>(), [0, 64, 64, 64]);
        assert_eq!(plan.arena, 128);
    }
}
