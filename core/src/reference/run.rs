//! The reference backend: the interpreter with activations, keys and values in host memory.

use super::attention::Cached;
use super::interpreter::{Interpreter, KvStore};
use super::product::Products;
use super::scratch::Sizes;
use super::state::KvPool;
use crate::backend::{Backend, KvError, KvType, Output, PageError, PageFormat};
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::model::{Model, StateShape};
use crate::plan::{
    Batch, BatchError, GroupId, HeadResult, KvPages, KvSlot, MAX_GROUPS, Op, PageId, Plan, StateId, StateSlot,
};
use core::fmt;

/// A reference step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReferenceError {
    /// The heap refused.
    Memory(OutOfMemory),
    /// The batch breaks a rule.
    Batch(BatchError),
    /// Keys and values can't be stored in the type.
    Kv(KvError),
}

impl From<KvError> for ReferenceError {
    fn from(error: KvError) -> Self {
        Self::Kv(error)
    }
}

impl From<OutOfMemory> for ReferenceError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Batch(error) => error.fmt(f),
            Self::Kv(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReferenceError {}

/// Executes plans with scalar code.
pub struct Reference<'m, 'a> {
    model: &'m Model<'a>,
    interpreter: Interpreter<'m, 'a>,
    pages: KvPages,
    kv: KvType,
    pools: Vec<'m, KvPool<'m>>,
    /// `[states, layers, floats]`
    states: Vec<'m, f32>,
    arena: Vec<'m, f32>,
    finished: Option<HeadResult>,
}

impl<'m, 'a> Reference<'m, 'a> {
    /// A backend with these KV pages.
    ///
    /// # Errors
    /// The heap has no room for pools or scratch, or the model's heads can't be stored in the type.
    pub fn new(
        model: &'m Model<'a>,
        pages: impl Into<KvPages>,
        kv: KvType,
        products: Products,
        heap: Heap<'m>,
    ) -> Result<Self, ReferenceError> {
        kv.check(model)?;
        let pages = pages.into();
        let mut pools = heap::with_capacity(heap, model.groups.len())?;
        for (id, group) in (0..).map(GroupId).zip(&model.groups) {
            pools.push(KvPool::new(*group, pages.of(id), kv, heap)?);
        }
        let interpreter = Interpreter::new(model, pages.table(), products, heap)?;
        Ok(Self {
            model,
            interpreter,
            pages,
            kv,
            pools,
            states: Vec::new_in(heap),
            arena: Vec::new_in(heap),
            finished: None,
        })
    }

    /// Bytes of heap that a backend of the model takes beside KV pages, activations and logits.
    pub fn scratch_bytes(model: &Model<'_>, pages: impl Into<KvPages>) -> usize {
        model.groups.len() * size_of::<KvPool<'_>>() + Sizes::new(model, pages.into().table()).bytes()
    }
}

impl Reference<'_, '_> {
    /// Floats of one recurrent state; 0 where the model has none.
    fn state_floats(&self) -> usize {
        self.model.state.map_or(0, |state| state.floats())
    }

    /// Number of recurrent states.
    fn state_count(&self) -> u32 {
        self.states.len().checked_div(self.state_floats()).unwrap_or(0) as u32
    }

    /// The floats of a state that is there.
    fn state(&mut self, state: StateId) -> &mut [f32] {
        let floats = self.state_floats();
        &mut self.states[state.0 as usize * floats..][..floats]
    }

    fn form(&self) -> PageFormat {
        let mut pages = [0; MAX_GROUPS];
        pages.iter_mut().zip(&self.pools).for_each(|(bytes, pool)| *bytes = pool.page_bytes(self.kv));
        PageFormat { layout: "reference", kv: self.kv, pages, state: self.state_floats() * size_of::<f32>() }
    }
}

/// The pools of all groups, and the recurrent states.
struct HostStore<'p, 'm> {
    pools: &'p mut [KvPool<'m>],
    states: &'p mut [f32],
    shape: Option<StateShape>,
}

impl KvStore for HostStore<'_, '_> {
    fn state(&mut self, state: StateId, slot: StateSlot) -> &mut [f32] {
        let Some(shape) = self.shape else { return &mut [] };
        &mut self.states[shape.layer(state, slot)]
    }

    fn write(&mut self, which: Cached, slot: KvSlot, pages: &[PageId], position: u32, heads: &[f32]) {
        self.pools[slot.group.index()].write(which, slot, pages, position, heads);
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
        self.pools[slot.group.index()].read(which, slot, pages, position, head, to);
    }
}

impl Backend for Reference<'_, '_> {
    type Error = ReferenceError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), ReferenceError> {
        heap::grow(&mut self.arena, plan.arena)?;
        Ok(self.interpreter.reserve(plan)?)
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), ReferenceError> {
        self.states.clear();
        let floats = (count as usize).saturating_mul(self.state_floats());
        heap::grow(&mut self.states, floats)?;
        self.states.resize(floats, 0.0);
        Ok(())
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        let floats = self.state_floats();
        let (from, to) = (from.0 as usize * floats, to.0 as usize * floats);
        if from.max(to) + floats <= self.states.len() {
            self.states.copy_within(from..from + floats, to);
        }
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), ReferenceError> {
        self.finished = None;
        let states = self.state_count();
        batch.check(&self.model.limits(plan.shape, self.pages, states)).map_err(ReferenceError::Batch)?;
        self.reserve(plan)?;
        self.arena.resize(plan.arena.max(self.arena.len()), 0.0);
        let mut kv = HostStore { pools: &mut self.pools, states: &mut self.states, shape: self.model.state };
        self.interpreter.run(plan, batch, &plan.ops, &mut self.arena, &mut kv);
        self.finished = plan.ops.iter().find_map(|op| match op {
            Op::Head(head) => Some(head.result),
            _ => None,
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, ReferenceError> {
        Ok(self.finished.take().map(|result| match result {
            HeadResult::Logits => Output::Logits(self.interpreter.logits()),
            HeadResult::ArgMax => Output::Tokens(self.interpreter.tokens()),
            HeadResult::Hidden => Output::Hidden(self.interpreter.logits()),
        }))
    }

    fn page_format(&self) -> Option<PageFormat> {
        Some(self.form())
    }

    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.form().check(group, page, &self.pages, to.len())?;
        let pool = self.pools.get(group.index());
        pool.into_iter().for_each(|pool| pool.read_page(self.kv, page, to));
        Ok(())
    }

    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.form().check(group, page, &self.pages, from.len())?;
        let pool = self.pools.get_mut(group.index());
        pool.into_iter().for_each(|pool| pool.write_page(self.kv, page, from));
        Ok(())
    }

    fn read_state(&mut self, state: StateId, to: &mut [u8]) -> Result<(), PageError> {
        self.form().check_state(state, self.state_count(), to.len())?;
        let floats = self.state(state).iter();
        to.as_chunks_mut().0.iter_mut().zip(floats).for_each(|(to, x)| *to = x.to_le_bytes());
        Ok(())
    }

    fn write_state(&mut self, state: StateId, from: &[u8]) -> Result<(), PageError> {
        self.form().check_state(state, self.state_count(), from.len())?;
        let numbers = from.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        self.state(state).iter_mut().zip(numbers).for_each(|(to, x)| *to = x);
        Ok(())
    }
}
