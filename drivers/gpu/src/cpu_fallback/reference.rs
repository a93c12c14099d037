//! The fallback without a lent driver: core's reference interpreter over copies of the activations. Slow, and always
//! available.

use alloc::vec::Vec;
use doorbell_core::heap::{Heap, OutOfMemory};
use doorbell_core::model::{Model, StateShape};
use doorbell_core::plan::{HeadResult, KvSlot, Op, PageId, StateId, StateSlot};
use doorbell_core::reference::{Cached, Interpreter, KvStore, Products};

use super::device_kv::DeviceKv;
use super::step_memory::StepMemory;
use crate::error::GpuError;

/// Runs operations by core's definitions.
pub(crate) struct ReferenceFallback<'m, 'a> {
    interpreter: Interpreter<'m, 'a>,
    /// Laid out as the largest plan's so far.
    arena: Vec<f32>,
    /// Recurrent states, `[states, layers, floats]`.
    states: Vec<f32>,
    shape: Option<StateShape>,
}

/// Keys and values in device memory, recurrent states in the host's.
struct Store<'s, 'c> {
    kv: &'s mut DeviceKv<'c>,
    states: &'s mut [f32],
    shape: Option<StateShape>,
}

impl KvStore for Store<'_, '_> {
    fn write(&mut self, which: Cached, slot: KvSlot, pages: &[PageId], position: u32, heads: &[f32]) {
        self.kv.write(which, slot, pages, position, heads);
    }

    fn read(
        &self,
        which: Cached,
        slot: KvSlot,
        pages: &[PageId],
        position: u32,
        head: usize,
        to: &mut [f32],
    ) {
        self.kv.read(which, slot, pages, position, head, to);
    }

    fn state(&mut self, state: StateId, slot: StateSlot) -> &mut [f32] {
        let Some(shape) = self.shape else { return &mut [] };
        &mut self.states[shape.layer(state, slot)]
    }
}

impl<'m, 'a> ReferenceFallback<'m, 'a> {
    /// For sequences of up to `pages` KV pages.
    pub(crate) fn new(model: &'m Model<'a>, pages: u32, heap: Heap<'m>) -> Result<Self, OutOfMemory> {
        let interpreter = Interpreter::new(model, pages, Products::Exact, heap)?;
        Ok(Self { interpreter, arena: Vec::new(), states: Vec::new(), shape: model.state })
    }

    /// Takes the memory of recurrent states.
    pub(crate) fn reserve_states(&mut self, count: u32) {
        let floats = self.shape.map_or(0, |shape| shape.floats());
        self.states.clear();
        self.states.resize(floats * count as usize, 0.0);
    }

    /// Copies a recurrent state.
    pub(crate) fn copy_state(&mut self, from: StateId, to: StateId) {
        let floats = self.shape.map_or(0, |shape| shape.floats());
        let (from, to) = (from.0 as usize * floats, to.0 as usize * floats);
        if from.max(to) + floats <= self.states.len() {
            self.states.copy_within(from..from + floats, to);
        }
    }

    /// Runs operations on the plan's tensors. Everything before them is complete and visible to the host.
    pub(crate) fn run(
        &mut self,
        memory: &mut StepMemory<'_, '_>,
        kv: &mut DeviceKv<'_>,
        ops: &[Op],
    ) -> Result<(), GpuError> {
        let Self { interpreter, arena, states, shape } = self;
        interpreter.reserve(memory.plan)?;
        arena.resize(memory.plan.arena.max(arena.len()), 0.0);
        memory.fetch(arena, ops);
        interpreter.run(memory.plan, memory.batch, ops, arena, &mut Store { kv, states, shape: *shape });
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
