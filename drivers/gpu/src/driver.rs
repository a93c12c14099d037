//! The backend: what lives from step to step, how a step starts and ends, and how everything is given back.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, BatchLimits, HeadResult, Op, Plan, Shape};
use doorbell_core::token::TokenId;
use doorbell_kernels::isa::Target;
use doorbell_kernels::{Recipe, Step, scratch_bytes, supports};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{Buffer, Name, Usage};
use doorbell_kfd::process::{DeviceIndex, Leak, Process};
use doorbell_kfd::queue::{Queue, QueueOptions, Submission, WaitError, Watch};

use crate::card::{Card, Delay};
use crate::check::Wrong;
use crate::chip;
use crate::convert::{self, Conversions};
use crate::error::GpuError;
use crate::host::{Host, Memory};
use crate::input::Layout;
use crate::needs::{Needs, Shortage, kv_bytes, rope_bytes, weight_bytes};
use crate::programs::Programs;
use crate::record::{RecordWith, Recording, Recordings, Segment, Size, covered};
use crate::store::Store;

mod known;

/// How a model is put on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// KV pages per group.
    pub pages: u32,
    /// Element type of keys and values.
    pub kv: KvType,
    /// The largest step.
    pub shape: Shape,
    /// Milliseconds without progress after which the device counts as hanging.
    pub hang_ms: u32,
    /// Which operations the device runs.
    pub placement: Placement,
    /// Compare each kernel with the host once, before the first step.
    pub check: bool,
}

impl Settings {
    /// Everything on the device that it has kernels for, unchecked, and ten seconds of patience.
    pub fn new(pages: u32, kv: KvType, shape: Shape) -> Self {
        Self { pages, kv, shape, hang_ms: 10_000, placement: Placement::Device, check: false }
    }
}

/// Which operations the device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All that it has kernels for.
    Device,
    /// None: how the host's part is checked.
    Host,
    /// The one with this index in the plan: how one kernel is checked.
    Only(usize),
}

/// Rows of the step that kernels are checked with: more than one tile, and not a whole number of them.
const CHECKED_ROWS: u32 = 17;

/// Packets of the ring.
const PACKETS: u32 = 4096;

/// A step whose packets the device has.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// `None` when the host had the last operation.
    submission: Option<Submission>,
    result: HeadResult,
    /// 4-byte words of the result.
    words: usize,
}

/// Buffers that plans share; they only grow.
#[derive(Default)]
struct Buffers {
    arena: Option<Buffer>,
    scratch: Option<Buffer>,
    result: Option<Buffer>,
    inputs: Option<Buffer>,
}

/// Executes plans on one GPU. What the device has no kernel for runs on the host, between submissions.
///
/// After a fault of the device every call answers [`GpuError::Lost`]: nothing is tried again.
pub struct GpuBackend<'k, 'm, 'a> {
    model: &'m Model<'a>,
    /// The model in the types that the device keeps.
    kept: Model<'m>,
    conversions: Conversions,
    target: Target,
    settings: Settings,
    host: Host<'m, 'a>,
    programs: Programs,
    store: Store,
    buffers: Buffers,
    recordings: Recordings,
    /// Kernels that are not used.
    disabled: BTreeSet<Recipe>,
    wrong: Vec<Wrong>,
    queue: Option<Queue>,
    card: Option<Card<'k>>,
    in_flight: Option<InFlight>,
    watch: Watch,
    /// Names of the kernels of the last submission.
    names: Vec<String>,
    lost: Option<Option<Box<Fault>>>,
    block: Vec<u8>,
    numbers: Vec<f32>,
    tokens: Vec<TokenId>,
}

impl core::fmt::Debug for GpuBackend<'_, '_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("GpuBackend")
            .field("target", &self.target)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<'k, 'm, 'a> GpuBackend<'k, 'm, 'a> {
    /// Puts a model on a device of an open process. `delay` is how it waits.
    ///
    /// # Errors
    /// The model does not fit, which is found before anything is loaded; or memory, kernels or the queue can't be
    /// had. Nothing stays on the device then.
    pub fn new(
        process: Process<'k>,
        device: DeviceIndex,
        model: &'m Model<'a>,
        settings: Settings,
        delay: Delay,
        heap: Heap<'m>,
    ) -> Result<Self, GpuError> {
        let isa = process.device(device).node().isa();
        let target = chip::target(isa).ok_or(GpuError::Chip(isa))?;
        let mut kept = model.copy(heap)?;
        let plan = model.plan(settings.shape, HeadResult::Logits, heap)?;
        let conversions = convert::choose(&mut kept, &plan.ops, target);
        admit(&process, device, &kept, &plan, &settings)?;
        let mut this = Self {
            model,
            kept,
            conversions,
            target,
            settings,
            host: Host::new(model, heap)?,
            programs: Programs::new(target),
            store: Store::default(),
            buffers: Buffers::default(),
            recordings: Recordings::default(),
            disabled: BTreeSet::new(),
            wrong: Vec::new(),
            queue: None,
            card: Some(Card::new(process, device, delay)?),
            in_flight: None,
            watch: Watch::default(),
            names: Vec::new(),
            lost: None,
            block: Vec::new(),
            numbers: Vec::new(),
            tokens: Vec::new(),
        };
        this.load(device)?;
        if settings.check {
            // A few rows, as prompts have, then one behind them.
            let rows = settings.shape.rows.min(CHECKED_ROWS);
            for (shape, position) in [(Shape { rows, outputs: 1 }, 0), (Shape { rows: 1, outputs: 1 }, rows)]
            {
                this.check(&model.plan(shape, HeadResult::Logits, heap)?, position)?;
            }
        }
        this.reserve(&plan)?;
        Ok(this)
    }

    fn load(&mut self, device: DeviceIndex) -> Result<(), GpuError> {
        let card = self.card.as_mut().ok_or(GpuError::Lost(None))?;
        self.store.load(card, self.model, &self.kept, self.settings.kv, self.settings.pages)?;
        let options = QueueOptions { packets: PACKETS, ..QueueOptions::default() };
        self.queue = Some(Queue::create(&mut card.process, device, options)?);
        Ok(())
    }

    /// The weights that the device keeps in another type than the file, to be told to the user.
    pub fn conversions(&self) -> &Conversions {
        &self.conversions
    }

    /// Kernels on the device, and bytes of their code.
    pub fn kernels(&self) -> (usize, u64) {
        self.programs.totals()
    }

    /// The process, for looking at.
    pub fn process(&self) -> Option<&Process<'k>> {
        self.card.as_ref().map(|card| &card.process)
    }

    /// Says anew which operations the device runs.
    pub fn place(&mut self, placement: Placement) {
        self.settings.placement = placement;
        if let Some(card) = &mut self.card {
            self.recordings.clear(card);
        }
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// What was left over.
    pub fn close(mut self) -> Result<(), Leak> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), Leak> {
        let Some(mut card) = self.card.take() else { return Ok(()) };
        if let Some(queue) = self.queue.take() {
            // A queue that does not go stays in the leak.
            let _ = queue.destroy(&mut card.process);
        }
        self.recordings.clear(&mut card);
        self.programs.unload(&mut card.process);
        self.store.free(&mut card);
        let Buffers { arena, scratch, result, inputs } = core::mem::take(&mut self.buffers);
        for buffer in [arena, scratch, result, inputs].into_iter().flatten() {
            card.free(buffer);
        }
        card.shutdown()
    }

    fn check_lost(&self) -> Result<(), GpuError> {
        match &self.lost {
            Some(fault) => Err(GpuError::Lost(fault.clone())),
            None => Ok(()),
        }
    }

    /// Makes room for a plan; recordings that know old addresses are forgotten.
    fn grow(&mut self, plan: &Plan<'_>) -> Result<(), GpuError> {
        let card = self.card.as_mut().ok_or(GpuError::Lost(None))?;
        let result =
            4 * u64::from(plan.shape.outputs) * u64::from(self.model.vocabulary.max(self.model.hyper.width));
        let inputs = Layout::new(plan.shape, self.model.groups.len()).fixed_bytes();
        let tables =
            u64::from(plan.shape.outputs) * u64::from(self.settings.pages) * self.model.groups.len() as u64;
        let reachable = card.reachable_usage();
        let scratch = scratch_bytes(plan, &self.kept);
        let Buffers { arena, scratch: kept_scratch, result: kept_result, inputs: kept_inputs } =
            &mut self.buffers;
        let mut moved = enlarge(card, arena, reachable, 4 * plan.arena as u64, "activations")?;
        if enlarge(card, kept_scratch, card.usage(), scratch.max(1), "kernel scratch")? {
            moved = true;
            if let Some(buffer) = kept_scratch {
                zero(card, buffer)?;
            }
        }
        moved |= enlarge(card, kept_result, Usage::Staging, result, "results")?;
        moved |= enlarge(card, kept_inputs, Usage::Staging, inputs + 4 * tables, "inputs")?;
        if moved {
            self.recordings.clear(card);
        }
        Ok(())
    }

    /// Writes the input block of a batch.
    fn write_inputs(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, positions: u32) -> Result<(), GpuError> {
        let layout = Layout::new(plan.shape, self.model.groups.len());
        layout.write(batch, positions, &mut self.block);
        let card = self.card.as_mut().ok_or(GpuError::Lost(None))?;
        let bytes = self.block.len() as u64;
        if enlarge(card, &mut self.buffers.inputs, Usage::Staging, bytes, "inputs")? {
            self.recordings.clear(card);
        }
        if let Some(window) = self.buffers.inputs.as_ref().and_then(Buffer::window) {
            window.write(0, &self.block);
        }
        Ok(())
    }

    /// The recorded step of a size, made if it is not there; answers where it is.
    fn record(&mut self, plan: &Plan<'_>, size: Size) -> Result<usize, GpuError> {
        let index = self.recordings.plan(plan);
        if !self.recordings.has(index, size) {
            let recording = self.recording(plan, size, self.settings.placement)?;
            let card = self.card.as_mut().ok_or(GpuError::Lost(None))?;
            self.recordings.keep(index, size, recording, card);
        }
        Ok(index)
    }

    /// Records a step.
    fn recording(
        &mut self,
        plan: &Plan<'_>,
        size: Size,
        placement: Placement,
    ) -> Result<Recording, GpuError> {
        let target = self.target;
        self.with_step(plan, size, |step, mut with| {
            with.record(step, &|index: usize, op: &Op| match placement {
                Placement::Device => supports(op, step.model, target),
                Placement::Host => false,
                Placement::Only(only) => index == only && supports(op, step.model, target),
            })
        })
    }

    /// Lends what lowering a step needs.
    fn with_step<T>(
        &mut self,
        plan: &Plan<'_>,
        size: Size,
        work: impl FnOnce(&Step<'_, '_>, RecordWith<'_, 'k>) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let target = self.target;
        let Self { buffers, store, settings, kept, model, card, programs, disabled, .. } = &mut *self;
        let address = |buffer: &Option<Buffer>| buffer.as_ref().map_or(0, Buffer::va);
        let (rows, outputs, positions) = size;
        let layout = Layout::new(plan.shape, model.groups.len());
        let step = Step {
            model: kept,
            plan,
            rows,
            outputs,
            positions,
            arena: address(&buffers.arena),
            scratch: address(&buffers.scratch),
            weights: &store.weights,
            vectors: &store.vectors,
            ropes: &store.ropes,
            pools: &store.addresses,
            kv: settings.kv,
            inputs: layout.inputs(address(&buffers.inputs), address(&buffers.result)),
        };
        let card = card.as_mut().ok_or(GpuError::Lost(None))?;
        work(&step, RecordWith { card, programs, disabled, target, packets: PACKETS as usize })
    }

    /// Runs a recording up to its last submission, which stays in flight.
    fn start(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        index: usize,
        size: Size,
    ) -> Result<Option<Submission>, GpuError> {
        let Self { card, queue, buffers, store, recordings, settings, host, watch, names, .. } = self;
        let (Some(card), Some(queue)) = (card, queue) else { return Err(GpuError::Lost(None)) };
        let (Some(arena), Some(result)) = (&buffers.arena, &buffers.result) else {
            return Err(GpuError::Lost(None));
        };
        let Some(recording) = recordings.get(index, size) else { return Ok(None) };
        let mut last = None;
        for segment in &recording.segments {
            if let Some(submission) = last.take() {
                wait(card, queue, submission, watch, settings.hang_ms, names)?;
            }
            match segment {
                Segment::Device(packets, kernels) => {
                    names.clone_from(kernels);
                    last = Some(queue.submit(&card.process, packets, plan.shape.rows)?);
                }
                Segment::Host(op) => {
                    let kv = settings.kv;
                    let mut memory = Memory { card, plan, batch, arena, result, pools: &store.pools, kv };
                    host.run(&plan.ops[*op], &mut memory)?;
                }
            }
        }
        Ok(last)
    }

    /// Marks the device as lost if an error means that.
    fn noted<T>(&mut self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        if let Err(error) = &result
            && error.is_lost()
        {
            self.lost = Some(self.queue.as_ref().and_then(|queue| queue.fault().cloned()).map(Box::new));
            self.in_flight = None;
        }
        result
    }

    /// Copies the result to where the caller may look at it.
    fn fetch(&mut self, in_flight: InFlight) {
        let words = match &self.buffers.result {
            Some(buffer) => crate::host::read_words(buffer, 0, in_flight.words),
            None => Vec::new(),
        };
        if in_flight.result == HeadResult::ArgMax {
            self.tokens.clear();
            self.tokens.extend(words.into_iter().map(TokenId));
        } else {
            self.numbers.clear();
            self.numbers.extend(words.into_iter().map(f32::from_bits));
        }
    }
}

/// Refuses a model that does not fit, by what the device says that it has.
fn admit(
    process: &Process<'_>,
    device: DeviceIndex,
    kept: &Model<'_>,
    plan: &Plan<'_>,
    settings: &Settings,
) -> Result<(), GpuError> {
    let budget = process.budget(device);
    let result = 4 * u64::from(plan.shape.outputs) * u64::from(kept.vocabulary);
    let working = [4 * plan.arena as u64, scratch_bytes(plan, kept), result];
    let needs = Needs {
        weights: weight_bytes(kept),
        context: kv_bytes(kept, settings.kv, settings.pages).saturating_add(rope_bytes(kept, settings.pages)),
        working: working.into_iter().fold(0, u64::saturating_add),
        pages: settings.pages,
    };
    let limit = budget.first.decisive();
    if needs.total() > limit.bytes {
        return Err(Shortage { needs, limit, placement: budget.first.placement }.into());
    }
    Ok(())
}

/// Makes a buffer at least so large; answers whether it has moved.
fn enlarge(
    card: &mut Card<'_>,
    buffer: &mut Option<Buffer>,
    usage: Usage,
    bytes: u64,
    name: &str,
) -> Result<bool, GpuError> {
    if buffer.as_ref().is_some_and(|buffer| buffer.bytes() >= bytes) {
        return Ok(false);
    }
    if let Some(old) = buffer.take() {
        card.free(old);
    }
    *buffer = Some(card.allocate(usage, bytes, Name::new(name))?);
    Ok(true)
}

/// Fills a buffer with zeros.
fn zero(card: &mut Card<'_>, buffer: &Buffer) -> Result<(), GpuError> {
    const PIECE: u64 = 1 << 16;
    let zeros = alloc::vec![0; PIECE as usize];
    let mut at = 0;
    while at < buffer.bytes() {
        let count = PIECE.min(buffer.bytes() - at);
        card.write(buffer, at, &zeros[..count as usize])?;
        at += count;
    }
    Ok(())
}

/// One look at a submission.
fn look(
    card: &mut Card<'_>,
    queue: &mut Queue,
    submission: Submission,
    watch: &mut Watch,
    hang_ms: u32,
    names: &[String],
) -> Result<bool, GpuError> {
    let Card { process, delay, .. } = card;
    match queue.look(process, submission, watch, hang_ms, &mut &mut **delay) {
        Ok(complete) => Ok(complete),
        Err(WaitError::Refused(errno)) => Err(GpuError::Wait(errno)),
        Err(_) => Err(match queue.fault() {
            Some(fault) => GpuError::Fault(Box::new(fault.clone()), kernel_of(fault, names)),
            None => GpuError::Lost(None),
        }),
    }
}

/// The last kernel of a submission that the packet processor has taken.
fn kernel_of(fault: &Fault, names: &[String]) -> Option<String> {
    let flight = fault.in_flight();
    let taken = flight.read.saturating_sub(flight.stretches.first()?.first);
    let last = usize::try_from(taken).ok()?.max(1) - 1;
    names.get(last.min(names.len().saturating_sub(1))).cloned()
}

fn wait(
    card: &mut Card<'_>,
    queue: &mut Queue,
    submission: Submission,
    watch: &mut Watch,
    hang_ms: u32,
    names: &[String],
) -> Result<(), GpuError> {
    while !look(card, queue, submission, watch, hang_ms, names)? {}
    Ok(())
}

impl Drop for GpuBackend<'_, '_, '_> {
    fn drop(&mut self) {
        // Whoever wants to know what is left calls `close`.
        let _ = self.give_back();
    }
}

impl Backend for GpuBackend<'_, '_, '_> {
    type Error = GpuError;

    fn supports(&self, op: &Op) -> bool {
        self.settings.placement != Placement::Host && supports(op, &self.kept, self.target)
    }

    fn reserve(&mut self, plan: &Plan<'_>) -> Result<(), GpuError> {
        self.check_lost()?;
        self.grow(plan)?;
        let most = covered(u32::MAX / 2, self.settings.pages);
        for (rows, outputs) in [(plan.shape.rows, plan.shape.outputs), (1, 1)] {
            self.record(plan, (rows, outputs.min(rows), covered(rows, self.settings.pages).min(most)))?;
        }
        Ok(())
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), GpuError> {
        self.check_lost()?;
        if let Some(InFlight { submission: Some(submission), .. }) = self.in_flight.take() {
            // Nobody wants that result any more, but its memory is in use until then.
            let Self { card, queue, watch, settings, names, .. } = &mut *self;
            let (Some(card), Some(queue)) = (card, queue) else { return Err(GpuError::Lost(None)) };
            let waited = wait(card, queue, submission, watch, settings.hang_ms, names);
            self.noted(waited)?;
        }
        let limits = BatchLimits {
            shape: plan.shape,
            vocabulary: self.model.vocabulary,
            groups: self.model.groups.len(),
            pages: self.settings.pages,
        };
        batch.check(&limits)?;
        if batch.rows() == 0 {
            self.in_flight = None;
            return Ok(());
        }
        self.grow(plan)?;
        let end = batch.runs.iter().map(|run| run.position + run.rows).max().unwrap_or(0);
        let positions = covered(end, self.settings.pages);
        self.write_inputs(plan, batch, positions)?;
        let size = (batch.rows() as u32, batch.outputs.len() as u32, positions);
        let index = self.record(plan, size)?;
        self.watch = Watch::default();
        let started = self.start(plan, batch, index, size);
        let submission = self.noted(started)?;
        self.in_flight = plan.ops.iter().find_map(|op| match op {
            Op::Head(head) => {
                let width = match head.result {
                    HeadResult::Logits => head.matrix.rows as usize,
                    HeadResult::ArgMax => 1,
                    HeadResult::Hidden => self.model.hyper.width as usize,
                };
                let words = batch.outputs.len() * width;
                Some(InFlight { submission, result: head.result, words })
            }
            _ => None,
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, GpuError> {
        self.check_lost()?;
        let Some(in_flight) = self.in_flight else { return Ok(None) };
        if let Some(submission) = in_flight.submission {
            let Self { card, queue, watch, settings, names, .. } = &mut *self;
            let (Some(card), Some(queue)) = (card, queue) else { return Err(GpuError::Lost(None)) };
            let looked = look(card, queue, submission, watch, settings.hang_ms, names);
            if !self.noted(looked)? {
                return Ok(None);
            }
        }
        self.in_flight = None;
        self.fetch(in_flight);
        Ok(Some(match in_flight.result {
            HeadResult::Logits => Output::Logits(&self.numbers),
            HeadResult::ArgMax => Output::Tokens(&self.tokens),
            HeadResult::Hidden => Output::Hidden(&self.numbers),
        }))
    }
}
