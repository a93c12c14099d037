//! The backend: what lives from step to step, and how a step starts and ends.
#![expect(unsafe_code, reason = "lends each thread its own working memory")]

use super::error::CpuError;
use super::head::better;
use super::local::Local;
use super::shared::Buffer;
use super::sizes::{Sizes, partial_floats};
use super::step::{Context, Step};
use crate::budget::Budget;
use crate::features::Isa;
use crate::kv;
use crate::pool::ThreadPool;
use crate::product::Weights;
use core::ops::Range;
use doorbell_core::backend::{Backend, KvType, Output, PageError, PageFormat};
use doorbell_core::heap::{self, Heap, OutOfMemory, Vec};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, Op, PAGE_TOKENS, PageId, Plan};
use doorbell_core::token::TokenId;

/// Most floats of partial attention results; beyond it a step's attention is not cut by chunks.
const PARTIAL_FLOATS: usize = 1 << 20;

/// Executes plans on host cores.
pub struct CpuBackend<'m, 'a> {
    model: &'m Model<'a>,
    isa: Isa,
    pages: u32,
    kind: KvType,
    pool: ThreadPool,
    kv: Vec<'m, kv::KvPool<'m>>,
    locals: Vec<'m, Local<'m>>,
    buffers: Buffers<'m>,
    places: Vec<'m, (u32, u32)>,
    tokens: Vec<'m, TokenId>,
    finished: Option<Finished>,
}

/// What a finished step left.
#[derive(Clone, Copy, Debug)]
struct Finished {
    result: HeadResult,
    /// Logits, or numbers of hidden states, in all.
    logits: usize,
}

/// Memory that threads share during a step.
#[derive(Debug)]
struct Buffers<'h> {
    arena: Buffer<'h>,
    angles: Buffer<'h>,
    panels: [Buffer<'h>; 4],
    hidden: Buffer<'h>,
    hidden_panel: Buffer<'h>,
    router: Buffer<'h>,
    logits: Buffer<'h>,
    best: Buffer<'h>,
    partials: Buffer<'h>,
}

impl core::fmt::Debug for CpuBackend<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CpuBackend").field("isa", &self.isa).field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<'m, 'a> CpuBackend<'m, 'a> {
    /// A backend with `pages` KV pages per group on `threads` threads, with the best instructions there are.
    ///
    /// # Errors
    /// When memory or threads can't be had, a weight has no kernel, or heads can't be kept as `kind`.
    pub fn new(
        model: &'m Model<'a>,
        pages: u32,
        kind: KvType,
        threads: usize,
        heap: Heap<'m>,
    ) -> Result<Self, CpuError> {
        Self::with_isa(model, pages, kind, threads, Isa::best(), heap)
    }

    /// As [`Self::new`], with given instructions.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_isa(
        model: &'m Model<'a>,
        pages: u32,
        kind: KvType,
        threads: usize,
        isa: Isa,
        heap: Heap<'m>,
    ) -> Result<Self, CpuError> {
        kind.check(model).map_err(CpuError::Kv)?;
        for weight in &model.weights {
            Weights::new(weight.ty, weight.cols, weight.data)
                .map_err(|_| CpuError::Weight { ty: weight.ty })?;
        }
        let mut pools = heap::with_capacity(heap, model.groups.len())?;
        for group in &model.groups {
            pools.push(kv::KvPool::new(*group, pages, kind, heap)?);
        }
        let pool = ThreadPool::new(threads).map_err(|_| CpuError::Thread { wanted: threads })?;
        let mut locals = heap::with_capacity(heap, pool.threads())?;
        locals.extend((0..pool.threads()).map(|_| Local::new(heap)));
        let (places, tokens) = (Vec::new_in(heap), Vec::new_in(heap));
        let buffers = Buffers::new(heap);
        Ok(Self { model, isa, pages, kind, pool, kv: pools, locals, buffers, places, tokens, finished: None })
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
        self.places.clear();
        heap::grow(&mut self.tokens, sizes.outputs)?;
        heap::grow(&mut self.places, sizes.rows)?;
        let stride = self.kv.iter().map(|pool| partial_floats(pool.shape())).max().unwrap_or(0);
        self.buffers.arena.grow(plan.arena)?;
        self.buffers.logits.grow(sizes.logits)?;
        self.buffers.grow(self.model, &sizes, (self.pages, stride), self.locals.len())
    }

    /// Bytes that a backend takes beside activations, logits, and keys and values at their plain size, for steps of
    /// `plan`. The working memory is taken from `heap` to find out, and given back.
    ///
    /// # Errors
    /// When it can't be had.
    pub fn scratch_bytes(
        model: &Model<'_>,
        pages: u32,
        kind: KvType,
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
        let (mut padding, mut stride) = (0, 0);
        for group in &model.groups {
            let (key, value) = (group.key_dim as usize, group.value_dim as usize);
            let shape = kv::PageShape::new(kind, key, value).ok_or(too_large)?;
            let parts = usize::from(group.layers) * group.heads as usize * pages as usize;
            let plain = group.bytes_per_token(kind).ok_or(too_large)? * PAGE_TOKENS * pages as usize;
            padding += parts * shape.head_bytes - plain;
            stride = stride.max(partial_floats(&shape));
        }
        let before = budget.live();
        let mut buffers = Buffers::new(&budget);
        buffers.grow(model, &sizes, (pages, stride), threads)?;
        let shared = budget.live() - before;
        let lists = sizes.outputs * size_of::<TokenId>() + sizes.rows * size_of::<(u32, u32)>();
        let pools = model.groups.len() * size_of::<kv::KvPool<'_>>();
        Ok(locals + padding + shared + lists + pools)
    }

    fn form(&self) -> PageFormat {
        let bytes = self.kv.iter().map(kv::KvPool::page_bytes).sum();
        PageFormat { layout: "cpu", kv: self.kind, bytes }
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
        batch.check(&self.model.limits(plan.shape, self.pages)).map_err(CpuError::Batch)?;
        self.grow(plan)?;
        for run in batch.runs {
            self.places.extend((0..run.rows).map(|row| (run.sequence, run.position + row)));
        }
        let locals = Locals(self.locals.as_mut_ptr());
        let buffers = &mut self.buffers;
        let context = Context {
            isa: self.isa,
            model: self.model,
            plan,
            ops: ops.clone(),
            batch,
            pools: &self.kv,
            places: &self.places,
            arena: buffers.arena.cells(),
            angles: buffers.angles.cells(),
            panels: buffers.panels.each_mut().map(Buffer::cells),
            hidden: buffers.hidden.cells(),
            hidden_panel: buffers.hidden_panel.cells(),
            router: buffers.router.cells(),
            logits: buffers.logits.cells(),
            best: buffers.best.cells(),
            partials: buffers.partials.cells(),
            partial_floats: buffers.partials.floats().len(),
        };
        self.pool.run(&|team| {
            // The whole wrapper is captured, not the pointer in it.
            let Locals(locals) = { locals };
            // SAFETY: there is one for each thread, and no other thread has this one's number.
            let local = unsafe { &mut *locals.add(team.index()) };
            Step { context: &context, team, local }.run();
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
            let best = found
                .map(|[value, token]| (value, token.to_bits()))
                .fold((f32::NEG_INFINITY, u32::MAX), better);
            // Without any number among the logits the first token stands, as in the reference.
            self.tokens.push(TokenId(if best.1 == u32::MAX { 0 } else { best.1 }));
        }
    }
}

impl<'h> Buffers<'h> {
    fn new(heap: Heap<'h>) -> Self {
        let buffer = || Buffer::new(heap);
        Self {
            arena: buffer(),
            angles: buffer(),
            panels: [buffer(), buffer(), buffer(), buffer()],
            hidden: buffer(),
            hidden_panel: buffer(),
            router: buffer(),
            logits: buffer(),
            best: buffer(),
            partials: buffer(),
        }
    }
}

impl Buffers<'_> {
    /// Makes room in all but the arena and the logits; `pages` of KV per group, and floats of a partial result.
    fn grow(
        &mut self,
        model: &Model<'_>,
        sizes: &Sizes,
        (pages, stride): (u32, usize),
        threads: usize,
    ) -> Result<(), OutOfMemory> {
        let chunks = pages as usize * PAGE_TOKENS / crate::attention::CHUNK + 1;
        let partials = sizes.rows.saturating_mul(sizes.heads).saturating_mul(chunks).saturating_mul(stride);
        let angles: usize = model.ropes.iter().map(|rope| 2 * rope.frequencies.len()).sum();
        self.angles.grow(angles * sizes.rows)?;
        for (panel, bytes) in self.panels.iter_mut().zip(sizes.panels) {
            panel.grow(bytes.div_ceil(4))?;
        }
        self.hidden.grow(sizes.hidden)?;
        self.hidden_panel.grow(sizes.hidden_panel.div_ceil(4))?;
        self.router.grow(sizes.router)?;
        self.best.grow(2 * threads * sizes.outputs)?;
        self.partials.grow(partials.min(PARTIAL_FLOATS))
    }
}

/// The threads' working memories, one for each.
#[derive(Clone, Copy)]
struct Locals<'h>(*mut Local<'h>);

// SAFETY: each thread takes the one with its own number, and a step is over before they are used otherwise.
unsafe impl Send for Locals<'_> {}
// SAFETY: as above.
unsafe impl Sync for Locals<'_> {}

impl Backend for CpuBackend<'_, '_> {
    type Error = CpuError;

    fn supports(&self, _op: &Op) -> bool {
        true
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), CpuError> {
        Ok(self.grow(plan)?)
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

    fn read_page(&mut self, page: PageId, mut to: &mut [u8]) -> Result<(), PageError> {
        self.form().check(page, self.pages, to.len())?;
        for pool in &mut self.kv {
            let Some(bytes) = pool.page(page) else { continue };
            let (own, rest) = to.split_at_mut(bytes.len());
            own.copy_from_slice(bytes);
            to = rest;
        }
        Ok(())
    }

    fn write_page(&mut self, page: PageId, mut from: &[u8]) -> Result<(), PageError> {
        self.form().check(page, self.pages, from.len())?;
        for pool in &mut self.kv {
            let Some(bytes) = pool.page(page) else { continue };
            let (own, rest) = from.split_at(bytes.len());
            bytes.copy_from_slice(own);
            from = rest;
        }
        Ok(())
    }
}
