//! The fallback without a lent driver: core's reference interpreter over copies of the activations. Slow, and always
//! available.

use alloc::vec::Vec;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op};
use doorbell_core::reference::{Interpreter, Products};

use super::device_kv::DeviceKv;
use super::step_memory::StepMemory;
use crate::error::GpuError;

/// Runs operations by core's definitions, on keys, values and states in device memory.
pub(crate) struct ReferenceFallback<'m, 'a> {
    interpreter: Interpreter<'m, 'a>,
    /// Laid out as the largest plan's so far.
    arena: Vec<f32>,
}

impl<'m, 'a> ReferenceFallback<'m, 'a> {
    /// For sequences of up to `pages` KV pages.
    pub(crate) fn new(model: &'m Model<'a>, pages: u32, heap: Heap<'m>) -> Result<Self, OutOfMemory> {
        let interpreter = Interpreter::new(model, pages, Products::Exact, heap)?;
        Ok(Self { interpreter, arena: Vec::new() })
    }

    /// Runs operations on the plan's tensors. Everything before them is complete and visible to the host.
    pub(crate) fn run(
        &mut self,
        memory: &mut StepMemory<'_, '_>,
        kv: &mut DeviceKv<'_>,
        ops: &[Op],
    ) -> Result<(), GpuError> {
        let Self { interpreter, arena } = self;
        interpreter.reserve(memory.plan)?;
        arena.resize(memory.plan.arena.max(arena.len()), 0.0);
        memory.fetch(arena, ops);
        interpreter.run(memory.plan, memory.batch, ops, arena, kv);
        kv.flush(memory.device)?;
        let head = ops.iter().find_map(|op| if let Op::Head(head) = op { Some(head.result) } else { None });
        let result: Vec<u32> = match head {
            Some(HeadResult::ArgMax) => interpreter.tokens().iter().map(|token| token.0).collect(),
            Some(_) => interpreter.logits().iter().map(|value| value.to_bits()).collect(),
            None => Vec::new(),
        };
        memory.store(arena, ops, &result)
    }
}
