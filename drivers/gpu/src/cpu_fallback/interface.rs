//! The host's own driver, where there is one: it runs what the device does not, with copies at the border.
//!
//! The driver is the caller's, for this crate knows none. It has an arena of its own, laid out as the plan's, and keys
//! and values of its own: an operation that uses a layer's keys and values runs where the others that do run.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use doorbell_core::heap::OutOfMemory;
use doorbell_core::plan::{Batch, BatchError, Element, Op, Plan, Rows, TensorId};
use doorbell_core::quant::Type;
use doorbell_kfd::memory::Buffer;

use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::kernel_check::outputs;

/// Why the host's driver can't run an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum CpuFallbackError {
    /// There isn't memory for it.
    Memory(OutOfMemory),
    /// It has no kernel for weights of a type.
    Weight(Type),
    /// A batch breaks a rule.
    Batch(BatchError),
    /// Threads can't be had: so many were wanted.
    Threads(usize),
    /// It can't keep keys and values of the device's type.
    Keys,
}

impl fmt::Display for CpuFallbackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Weight(kind) => {
                write!(f, "neither the GPU nor the CPU takes weights of type {}", kind.name())
            }
            Self::Batch(error) => error.fmt(f),
            Self::Keys => f.write_str("the CPU can't keep keys and values of this type; use another --kv"),
            Self::Threads(wanted) => write!(f, "{wanted} threads can't be had for the CPU's part"),
        }
    }
}

impl core::error::Error for CpuFallbackError {}

/// Runs operations on the host.
pub trait CpuFallback {
    /// Takes the memory that steps of a plan need.
    ///
    /// # Errors
    /// Memory or threads can't be had, or a weight has no kernel.
    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), CpuFallbackError>;

    /// Cells of the arena, laid out as a reserved plan's.
    fn arena(&mut self) -> &mut [f32];

    /// Runs operations of a reserved plan, in order, over the arena.
    ///
    /// # Errors
    /// The batch breaks a rule.
    fn run(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, ops: Range<usize>) -> Result<(), CpuFallbackError>;

    /// Appends what the head among the operations of the last run delivered, 4-byte words.
    fn result(&mut self, out: &mut Vec<u32>);
}

/// A fallback that may go to another thread with the backend.
pub type BoxedCpuFallback<'m> = alloc::boxed::Box<dyn CpuFallback + Send + 'm>;

/// The device's side of the border.
pub(crate) struct Border<'c, 'k> {
    pub(crate) device: &'c mut GpuDevice<'k>,
    pub(crate) arena: &'c Buffer,
    pub(crate) result: &'c Buffer,
    /// Expert counts by operation are in the model's stacks.
    pub(crate) model: &'c doorbell_core::model::Model<'c>,
}

/// Where a tensor's rows of this batch lie in the arena, in cells.
fn cells(plan: &Plan<'_>, batch: &Batch<'_>, id: TensorId) -> Range<usize> {
    let tensor = plan.tensor(id);
    let rows = match tensor.rows {
        Rows::Batch => batch.rows(),
        Rows::Outputs => batch.outputs.len(),
    };
    tensor.offset..tensor.offset + rows * tensor.width as usize
}

/// Whether an operation overwrites a tensor without looking at it.
fn replaces(op: &Op, id: TensorId) -> bool {
    use doorbell_core::plan::Epilogue;
    match op {
        Op::Embed { out, .. } | Op::Select { out, .. } => *out == id,
        Op::Project(op) => op.parts.iter().any(|part| match part.epilogue {
            Epilogue::Store { out } | Epilogue::Gate { out, .. } | Epilogue::Query { out, .. } => out == id,
            _ => false,
        }),
        Op::Attend(op) => op.out == id,
        Op::Route(op) => op.ids == id || op.weights == id,
        Op::Experts(_) | Op::NormAdd { .. } | Op::Head(_) => false,
    }
}

impl Border<'_, '_> {
    /// Runs operations on the host. Everything before them is complete and visible to it.
    pub(crate) fn run(
        &mut self,
        fallback: &mut dyn CpuFallback,
        (plan, batch): (&Plan<'_>, &Batch<'_>),
        ops: Range<usize>,
    ) -> Result<(), GpuError> {
        let part = &plan.ops[ops.clone()];
        let (mut known, mut written): (Vec<TensorId>, Vec<TensorId>) = (Vec::new(), Vec::new());
        for op in part {
            op.each_tensor(|id| {
                if !known.contains(&id) {
                    known.push(id);
                    if !replaces(op, id) {
                        self.fetch(fallback, plan, (id, cells(plan, batch, id)), op);
                    }
                }
            });
            for id in outputs(op) {
                if !written.contains(&id) {
                    written.push(id);
                }
            }
        }
        fallback.run(plan, batch, ops)?;
        for id in written {
            let cells = cells(plan, batch, id);
            let at = 4 * cells.start as u64;
            self.device.write(self.arena, at, bytemuck::cast_slice(&fallback.arena()[cells]))?;
        }
        if part.iter().any(|op| matches!(op, Op::Head(_))) {
            let mut words = Vec::new();
            fallback.result(&mut words);
            self.device.write(self.result, 0, bytemuck::cast_slice(&words))?;
        }
        Ok(())
    }

    /// Copies a tensor to the host.
    fn fetch(
        &self,
        fallback: &mut dyn CpuFallback,
        plan: &Plan<'_>,
        (id, cells): (TensorId, Range<usize>),
        op: &Op,
    ) {
        let at = 4 * cells.start;
        let Some(own) = fallback.arena().get_mut(cells) else { return };
        if let Some(window) = self.arena.window() {
            window.read(at, bytemuck::cast_slice_mut(own));
        }
        if let (Op::Experts(op), Element::U32) = (op, plan.tensor(id).element) {
            // A device that wrote nonsense must not end the program.
            let last = self.model.weight(op.gate.weight).stack.saturating_sub(1) as u32;
            own.iter_mut().for_each(|cell| *cell = f32::from_bits(cell.to_bits().min(last)));
        }
    }
}
