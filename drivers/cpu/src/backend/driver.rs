//! The backend: the state between steps, and the start and end of a step.

use super::context::{BufferIds, Context, GROUPS, PoolView, RowPosition};
use super::error::CpuError;
use super::local::{Best, Local};
use super::sizes::{Sizes, partial_floats};
use super::states::States;
use super::step;
use crate::budget::Budget;
use crate::features::Isa;
use crate::kv::{KvPool, PageShape};
use crate::lines::Lines;
use crate::phase::{self, BufferId, Memory};
use crate::pool::ThreadPool;
use crate::product::Weights;
use core::ops::Range;
use doorbell_core::backend::{Backend, KvType, Output, PageError, PageFormat};
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, GroupId, HeadResult, KvPages, MAX_GROUPS, Op, PAGE_TOKENS, PageId, Plan, StateId,
};
use doorbell_core::token::TokenId;

/// Most floats of partial attention results; beyond it a step's attention is not cut by chunks.
const PARTIAL_FLOATS: usize = 1 << 20;

/// Executes plans on host cores.
pub struct CpuBackend<'m, 'a> {
    model: &'m Model<'a>,
    isa: Isa,
    pages: KvPages,
    kv_type: KvType,
    pool: ThreadPool,
    kv: Vec<'m, KvPool<'m>>,
    locals: Vec<'m, Local<'m>>,
    buffers: Buffers<'m>,
    states: States<'m>,
    positions: Vec<'m, RowPosition>,
    tokens: Vec<'m, TokenId>,
    finished: Option<Finished>,
}

/// The results of a finished step.
#[derive(Clone, Copy, Debug)]
struct Finished {
    result: HeadResult,
    /// Logits, or numbers of hidden states, in all.
    logits: usize,
}

/// Memory that threads share during a step.
#[derive(Debug)]
struct Buffers<'h> {
    arena: Lines<'h>,
    angles: Lines<'h>,
    activations: [Lines<'h>; 4],
    hidden: Lines<'h>,
    hidden_activations: Lines<'h>,
    router: Lines<'h>,
    logits: Lines<'h>,
    best: Lines<'h>,
    partials: Lines<'h>,
}

impl core::fmt::Debug for CpuBackend<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CpuBackend").field("isa", &self.isa).field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<'m, 'a> CpuBackend<'m, 'a> {
    /// A backend with these KV pages on `threads` threads, with the best instructions there are.
    ///
    /// # Errors
    /// When memory or threads can't be had, a weight has no kernel, or heads can't be kept as `kv_type`.
    pub fn new(
        model: &'m Model<'a>,
        pages: impl Into<KvPages>,
        kv_type: KvType,
        threads: usize,
        heap: Heap<'m>,
    ) -> Result<Self, CpuError> {
        Self::with_isa(model, pages, kv_type, threads, Isa::best(), heap)
    }

    /// As [`Self::new`], with given instructions.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_isa(
        model: &'m Model<'a>,
        pages: impl Into<KvPages>,
        kv_type: KvType,
        threads: usize,
        isa: Isa,
        heap: Heap<'m>,
    ) -> Result<Self, CpuError> {
        kv_type.check(model).map_err(CpuError::Kv)?;
        for weight in &model.weights {
            Weights::new(weight.ty, weight.cols, weight.data)
                .map_err(|_| CpuError::Weight { ty: weight.ty })?;
        }
        let pages = pages.into();
        let mut pools = heap::with_capacity(heap, model.groups.len())?;
        for (id, group) in (0..).map(GroupId).zip(&model.groups) {
            pools.push(KvPool::new(*group, pages.of(id), kv_type, heap)?);
        }
        let pool = ThreadPool::new(threads).map_err(|_| CpuError::Thread { wanted: threads })?;
        let mut locals = heap::with_capacity(heap, pool.threads())?;
        locals.extend((0..pool.threads()).map(|_| Local::new(heap)));
        let (positions, tokens) = (Vec::new_in(heap), Vec::new_in(heap));
        let buffers = Buffers::new(heap);
        Ok(Self {
            model,
            isa,
            pages,
            kv_type,
            pool,
            kv: pools,
            locals,
            buffers,
            states: States::new(heap),
            positions,
            tokens,
            finished: None,
        })
    }

    /// The instructions in use, by name.
    #[must_use]
    pub fn isa(&self) -> &'static str {
        self.isa.name()
    }

    /// Threads in use.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Makes room for a plan.
    fn grow(&mut self, plan: &Plan<'_>) -> Result<(), OutOfMemory> {
        let sizes = Sizes::of(self.model, plan);
        for local in &mut self.locals {
            local.grow(&sizes)?;
        }
        self.tokens.clear();
        self.positions.clear();
        heap::grow(&mut self.tokens, sizes.outputs)?;
        heap::grow(&mut self.positions, sizes.rows)?;
        let partial = self.kv.iter().map(|pool| partial_floats(pool.layout().shape())).max().unwrap_or(0);
        self.buffers.arena.grow_numbers(plan.arena)?;
        self.buffers.logits.grow_numbers(sizes.logits)?;
        let partials = Partials { positions: self.pages.positions(), floats: partial };
        self.buffers.grow(self.model, &sizes, partials, self.locals.len())
    }

    /// Bytes that a backend takes beside activations, logits, and keys and values at their plain size, for steps of
    /// `plan`. The working memory is taken from `heap` to measure it, and given back.
    ///
    /// # Errors
    /// When it can't be had.
    pub fn scratch_bytes(
        model: &Model<'_>,
        pages: impl Into<KvPages>,
        kv_type: KvType,
        threads: usize,
        plan: &Plan<'_>,
        heap: Heap<'_>,
    ) -> Result<usize, OutOfMemory> {
        let budget = Budget::new(heap, usize::MAX);
        let sizes = Sizes::of(model, plan);
        let mut local = Local::new(&budget);
        local.grow(&sizes)?;
        let locals = threads * (budget.live() + size_of::<Local<'_>>());
        let too_large = OutOfMemory { bytes: usize::MAX };
        let (mut padding, mut partial) = (0, 0);
        let pages = pages.into();
        for (id, group) in (0..).map(GroupId).zip(&model.groups) {
            let pages = pages.of(id) as usize;
            let (key, value) = (group.key_dim as usize, group.value_dim as usize);
            let shape = PageShape::new(kv_type, key, value).ok_or(too_large)?;
            let parts = usize::from(group.layers) * group.heads as usize * pages;
            let plain = group.bytes_per_token(kv_type).ok_or(too_large)? * PAGE_TOKENS * pages;
            padding += parts * shape.head_bytes - plain;
            partial = partial.max(partial_floats(&shape));
        }
        let before = budget.live();
        let mut buffers = Buffers::new(&budget);
        buffers.grow(model, &sizes, Partials { positions: pages.positions(), floats: partial }, threads)?;
        let shared = budget.live() - before;
        let lists = sizes.outputs * size_of::<TokenId>() + sizes.rows * size_of::<RowPosition>();
        let pools = model.groups.len() * size_of::<KvPool<'_>>();
        Ok(locals + padding + shared + lists + pools)
    }

    fn form(&self) -> PageFormat {
        let mut pages = [0; MAX_GROUPS];
        pages.iter_mut().zip(&self.kv).for_each(|(bytes, pool)| *bytes = pool.layout().page_bytes());
        PageFormat { layout: "cpu", kv: self.kv_type, pages, state: States::bytes(self.model) }
    }

    /// The arena that a plan's tensors lie in: cells by their offsets.
    pub fn arena(&mut self) -> &mut [f32] {
        self.buffers.arena.floats_mut()
    }

    /// Runs operations of a plan, in order, over what is in the arena. Keys and values of layers whose operations run
    /// elsewhere are not there.
    ///
    /// # Errors
    /// The batch breaks a rule, or there isn't room for the plan.
    ///
    /// # Panics
    /// When the plan has no such operations.
    pub fn run_part(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        ops: Range<usize>,
    ) -> Result<(), CpuError> {
        self.finished = None;
        batch
            .check(&self.model.limits(plan.shape, self.pages, self.states.count))
            .map_err(CpuError::Batch)?;
        self.grow(plan)?;
        for run in batch.runs {
            self.positions.extend(
                (0..run.rows).map(|row| RowPosition { sequence: run.sequence, position: run.position + row }),
            );
        }
        let partial_floats = self.buffers.partials.floats().len();
        let mut memory = Memory::new();
        let mut pools = [None; GROUPS];
        for (view, pool) in pools.iter_mut().zip(&mut self.kv) {
            let layout = *pool.layout();
            *view = Some(PoolView { layout, buffer: memory.lend(pool.bytes_mut()) });
        }
        let context = Context {
            isa: self.isa,
            model: self.model,
            plan,
            ops: ops.clone(),
            batch,
            pools,
            states: self.states.lend(self.model, &mut memory),
            positions: &self.positions,
            buffers: self.buffers.lend(&mut memory),
            partial_floats,
        };
        phase::run(&mut self.pool, &mut memory, &mut self.locals, |phases, local| {
            step::run(&context, phases, local);
        });
        for op in &plan.ops[ops] {
            if let Op::Head(head) = op {
                let width = match head.result {
                    HeadResult::Hidden => plan.tensor(head.input).width as usize,
                    _ => head.matrix.rows as usize,
                };
                let logits = batch.outputs.len() * width;
                self.finished = Some(Finished { result: head.result, logits });
            }
        }
        if matches!(self.finished, Some(Finished { result: HeadResult::ArgMax, .. })) {
            self.join_best(batch.outputs.len());
        }
        Ok(())
    }

    /// Joins the threads' best tokens.
    fn join_best(&mut self, outputs: usize) {
        let cells = self.buffers.best.floats().as_chunks::<2>().0;
        self.tokens.clear();
        for row in 0..outputs {
            let found = (0..self.locals.len()).map(|thread| cells[thread * outputs + row]);
            let best =
                found.map(|[logit, token]| Best { logit, token: token.to_bits() }).fold(Best::NONE, Best::or);
            // Without any number among the logits the first token is chosen, as in the reference.
            self.tokens.push(TokenId(if best.token == u32::MAX { 0 } else { best.token }));
        }
    }
}

/// The sizes of partial results of attention.
#[derive(Clone, Copy)]
struct Partials {
    /// Most positions of a sequence.
    positions: u32,
    /// Floats of one.
    floats: usize,
}

impl<'h> Buffers<'h> {
    fn new(heap: Heap<'h>) -> Self {
        let lines = || Lines::new(heap);
        Self {
            arena: lines(),
            angles: lines(),
            activations: [lines(), lines(), lines(), lines()],
            hidden: lines(),
            hidden_activations: lines(),
            router: lines(),
            logits: lines(),
            best: lines(),
            partials: lines(),
        }
    }
}

impl Buffers<'_> {
    /// Makes room in all but the arena and the logits.
    fn grow(
        &mut self,
        model: &Model<'_>,
        sizes: &Sizes,
        partials: Partials,
        threads: usize,
    ) -> Result<(), OutOfMemory> {
        let chunks = partials.positions as usize / crate::attention::CHUNK + 1;
        let queries = sizes.rows.saturating_mul(sizes.heads).saturating_mul(chunks);
        let partials = queries.saturating_mul(partials.floats);
        let angles: usize = model.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        self.angles.grow_numbers(angles * sizes.rows)?;
        for (lines, bytes) in self.activations.iter_mut().zip(sizes.activations) {
            lines.grow(bytes)?;
        }
        self.hidden.grow_numbers(sizes.hidden)?;
        self.hidden_activations.grow(sizes.hidden_activations)?;
        self.router.grow_numbers(sizes.router)?;
        self.best.grow_numbers(2 * threads * sizes.outputs)?;
        self.partials.grow_numbers(partials.min(PARTIAL_FLOATS))
    }

    /// Lends all buffers to a step.
    fn lend<'m>(&'m mut self, memory: &mut Memory<'m>) -> BufferIds {
        let mut lend = |lines: &'m mut Lines<'_>| -> BufferId { memory.lend(lines.bytes_mut()) };
        BufferIds {
            arena: lend(&mut self.arena),
            angles: lend(&mut self.angles),
            activations: self.activations.each_mut().map(&mut lend),
            hidden: lend(&mut self.hidden),
            hidden_activations: lend(&mut self.hidden_activations),
            router: lend(&mut self.router),
            logits: lend(&mut self.logits),
            best: lend(&mut self.best),
            partials: lend(&mut self.partials),
        }
    }
}

impl Backend for CpuBackend<'_, '_> {
    type Error = CpuError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), CpuError> {
        Ok(self.grow(plan)?)
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), CpuError> {
        Ok(self.states.reserve(self.model, count)?)
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        self.states.copy(self.model, from, to);
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), CpuError> {
        self.run_part(plan, batch, 0..plan.ops.len())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, CpuError> {
        Ok(self.finished.take().map(|finished| match finished.result {
            HeadResult::Logits => Output::Logits(&self.buffers.logits.floats()[..finished.logits]),
            HeadResult::ArgMax => Output::Tokens(&self.tokens),
            HeadResult::Hidden => Output::Hidden(&self.buffers.logits.floats()[..finished.logits]),
        }))
    }

    fn page_format(&self) -> Option<PageFormat> {
        Some(self.form())
    }

    fn read_page(&mut self, group: GroupId, page: PageId, to: &mut [u8]) -> Result<(), PageError> {
        self.form().check(group, page, &self.pages, to.len())?;
        let bytes = self.kv.get_mut(group.index()).and_then(|pool| pool.page(page));
        bytes.into_iter().for_each(|bytes| to.copy_from_slice(bytes));
        Ok(())
    }

    fn write_page(&mut self, group: GroupId, page: PageId, from: &[u8]) -> Result<(), PageError> {
        self.form().check(group, page, &self.pages, from.len())?;
        let bytes = self.kv.get_mut(group.index()).and_then(|pool| pool.page(page));
        bytes.into_iter().for_each(|bytes| bytes.copy_from_slice(from));
        Ok(())
    }

    fn read_state(&mut self, state: StateId, mut to: &mut [u8]) -> Result<(), PageError> {
        self.form().check_state(state, self.states.count, to.len())?;
        self.states.each_part(self.model, state, |part| {
            let (own, rest) = core::mem::take(&mut to).split_at_mut(size_of_val(part));
            own.as_chunks_mut().0.iter_mut().zip(part).for_each(|(to, x)| *to = x.to_le_bytes());
            to = rest;
        });
        Ok(())
    }

    fn write_state(&mut self, state: StateId, mut from: &[u8]) -> Result<(), PageError> {
        self.form().check_state(state, self.states.count, from.len())?;
        self.states.each_part(self.model, state, |part| {
            let (own, rest) = from.split_at(size_of_val(part));
            let numbers = own.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            part.iter_mut().zip(numbers).for_each(|(to, x)| *to = x);
            from = rest;
        });
        Ok(())
    }
}
