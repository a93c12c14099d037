//! The backend: its state between steps, making it, and releasing everything.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_core::backend::{Backend, Output};
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, Op, Plan, StateId};
use doorbell_core::token::TokenId;
use doorbell_kernels::isa::Target;
use doorbell_kernels::{KernelSpec, supports};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::Buffer;
use doorbell_kfd::packet::{Encoding, Packet};
use doorbell_kfd::process::{DeviceIndex, GpuEvents, Leak, Process};
use doorbell_kfd::queue::{Profile, Queue, Submission, WaitProgress};
use doorbell_kfd::sys::Errno;

use crate::chip;
use crate::convert::{self, Conversions};
use crate::cpu_fallback::{BoxedCpuFallback, ReferenceFallback};
use crate::device::{Delay, GpuDevice};
use crate::error::GpuError;
use crate::fit::fit;
use crate::kernel_check::{Pm4CheckFailure, WrongKernel};
use crate::kernels::LoadedKernels;
use crate::model_buffers::ModelBuffers;
use crate::operands::LayerMemory;
use crate::placement::{KeptLayers, Placement, SplitReport, weights};
use crate::record::{Recordings, StepSize, covered};
use crate::settings::{PACKETS, Settings};

mod kernel_check;
mod memory;
mod pm4_check;
mod profile;
mod states;
mod step;
mod wait;

pub use profile::Timing;
use profile::Timings;

/// A step whose packets the device has.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// `None` if the host ran the last operation.
    submission: Option<Submission>,
    result: HeadResult,
    /// 4-byte words of the result.
    words: usize,
    /// Rows of a step.
    rows: u32,
    /// Steps of a multi-step submission, and the number whose tokens were collected.
    steps: u32,
    collected: u32,
}

/// Buffers that plans share; they only grow.
#[derive(Default)]
struct Buffers {
    arena: Option<Buffer>,
    scratch: Option<Buffer>,
    result: Option<Buffer>,
    inputs: Option<Buffer>,
    /// Tokens that steps of a chain have picked.
    ring: Option<Buffer>,
}

/// Executes plans on one GPU. What the device has no kernel for runs on the host, between submissions.
///
/// After a fault of the device every call returns [`GpuError::Lost`]: nothing is tried again.
pub struct GpuBackend<'k, 'm, 'a> {
    model: &'m Model<'a>,
    /// The model in the types that the device keeps.
    kept: Model<'m>,
    conversions: Conversions,
    target: Target,
    settings: Settings,
    reference: ReferenceFallback<'m, 'a>,
    /// Runs the operations that the device does not; without it the reference interpreter does.
    fallback: Option<BoxedCpuFallback<'m>>,
    /// Recurrent states that have been reserved.
    pub(crate) states: u32,
    split_report: Option<SplitReport>,
    programs: LoadedKernels,
    store: ModelBuffers,
    buffers: Buffers,
    recordings: Recordings,
    /// Kernels that are not used.
    disabled: BTreeSet<KernelSpec>,
    /// Memory of layers that the host keeps.
    of_host: Vec<LayerMemory>,
    wrong_kernels: Vec<WrongKernel>,
    /// The form in which dispatches are submitted now.
    encoding: Encoding,
    pm4_check_failure: Option<Pm4CheckFailure>,
    queue: Option<Queue>,
    device: Option<GpuDevice<'k>>,
    in_flight: Option<InFlight>,
    progress: WaitProgress,
    timings: Timings,
    /// Names of the kernels of the last submission.
    names: Vec<String>,
    lost: Option<Option<Box<Fault>>>,
    block: Vec<u8>,
    packets: Vec<Packet>,
    /// Positions of the first tokens of a multi-step submission.
    first_positions: Vec<u32>,
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
    /// Puts a model on a device of an open process. `delay` is how it waits. With a `fallback` that runs what the
    /// device does not, only a part of the model is put there if not all of it fits; without one core's definitions run
    /// it.
    ///
    /// # Errors
    /// The model does not fit, which is found before anything is loaded; or memory, kernels or the queue can't be
    /// allocated. Nothing stays on the device then.
    pub fn new(
        process: Process<'k>,
        index: DeviceIndex,
        model: &'m Model<'a>,
        settings: Settings,
        delay: Delay,
        fallback: Option<BoxedCpuFallback<'m>>,
        heap: Heap<'m>,
    ) -> Result<Self, GpuError> {
        let (target, mut kept) = (target_of(&process, index)?, model.copy(heap)?);
        let plan = model.plan(settings.shape, HeadResult::Logits, heap)?;
        let mut conversions = convert::choose(&mut kept, &plan.ops, target);
        let budget = process.budget(index).first;
        let fitting = fit(&budget, &mut kept, &plan, &settings, target, fallback.is_some())?;
        conversions.keep(&fitting.loaded, &kept);
        let settings = Settings { placement: fitting.placement, ..settings };
        let device = GpuDevice::new(process, index, delay)?;
        let mut this = Self::bare(model, kept, conversions, settings, target, device, heap)?;
        (this.fallback, this.split_report) = (fallback, fitting.split_report);
        this.load(index, &fitting.loaded)?;
        this.reserve_states(settings.states)?;
        this.reserve(&plan)?;
        Ok(this)
    }

    /// A backend that only runs some operations of a plan one by one, to measure their cost: only their weights are on
    /// the device.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_single_ops(
        process: Process<'k>,
        index: DeviceIndex,
        model: &'m Model<'a>,
        settings: Settings,
        (plan, ops): (&Plan<'_>, &[usize]),
        delay: Delay,
        heap: Heap<'m>,
    ) -> Result<Self, GpuError> {
        let (target, mut kept) = (target_of(&process, index)?, model.copy(heap)?);
        let conversions = convert::choose(&mut kept, &plan.ops, target);
        let mut wanted = alloc::vec![false; plan.ops.len()];
        ops.iter().for_each(|&op| wanted[op] = true);
        let loaded = weights(plan, &kept, &wanted);
        KeptLayers::used(plan, model, &wanted).apply(&mut kept);
        let device = GpuDevice::new(process, index, delay)?;
        let mut this = Self::bare(model, kept, conversions, settings, target, device, heap)?;
        this.load(index, &loaded)?;
        Ok(this)
    }

    /// A backend with nothing on the device.
    fn bare(
        model: &'m Model<'a>,
        kept: Model<'m>,
        conversions: Conversions,
        settings: Settings,
        target: Target,
        device: GpuDevice<'k>,
        heap: Heap<'m>,
    ) -> Result<Self, GpuError> {
        Ok(Self {
            model,
            kept,
            conversions,
            target,
            settings,
            reference: ReferenceFallback::new(model, settings.pages.table(), heap)?,
            states: 0,
            fallback: None,
            split_report: None,
            programs: LoadedKernels::new(target),
            store: ModelBuffers::default(),
            buffers: Buffers::default(),
            recordings: Recordings::default(),
            disabled: BTreeSet::new(),
            of_host: Vec::new(),
            wrong_kernels: Vec::new(),
            encoding: if settings.profile { Encoding::Aql } else { settings.submit },
            pm4_check_failure: None,
            queue: None,
            device: Some(device),
            in_flight: None,
            progress: WaitProgress::default(),
            timings: Timings::default(),
            names: Vec::new(),
            lost: None,
            block: Vec::new(),
            packets: Vec::new(),
            first_positions: Vec::new(),
            numbers: Vec::new(),
            tokens: Vec::new(),
        })
    }

    fn load(&mut self, index: DeviceIndex, loaded: &[bool]) -> Result<(), GpuError> {
        let device = self.device.as_mut().ok_or(GpuError::Lost(None))?;
        let Settings { kv, pages, .. } = self.settings;
        self.store.load(device, self.model, &self.kept, loaded, kv, pages)?;
        device.install_trap_handler(self.target);
        self.queue = Some(Queue::create(&mut device.process, index, self.settings.queue())?);
        if self.settings.profile {
            self.timings = Timings::new(Some(Profile::new(&mut device.process, index, PACKETS as usize)?));
        }
        Ok(())
    }

    /// Opens the stream of events that the kernel reports about the device.
    ///
    /// # Errors
    /// The kernel has no such stream, or the device is closed.
    pub fn gpu_events(&self) -> Result<GpuEvents<'k>, Errno> {
        let device = self.device.as_ref().ok_or(Errno::ENODEV)?;
        device.process.gpu_events(device.index)
    }

    /// The weights that the device keeps in another type than the file, for display.
    pub fn conversions(&self) -> &Conversions {
        &self.conversions
    }

    /// The part that the device runs if it is not everything, for display.
    pub fn split_report(&self) -> Option<SplitReport> {
        self.split_report
    }

    /// The dispatches since the last call, in their order; none unless [`Settings::profile`] is set.
    pub fn take_timings(&mut self) -> Vec<Timing> {
        self.timings.take()
    }

    /// Kernels on the device, and bytes of their code.
    pub fn kernels(&self) -> (usize, u64) {
        self.programs.totals()
    }

    /// The open process.
    pub fn process(&self) -> Option<&Process<'k>> {
        self.device.as_ref().map(|device| &device.process)
    }

    /// Changes which operations the device runs. Their weights are there if the backend was made with
    /// [`Placement::Host`].
    pub fn set_placement(&mut self, placement: Placement) {
        self.settings.placement = placement;
        if let Some(device) = &mut self.device {
            self.recordings.clear(device);
        }
    }

    /// Releases everything.
    ///
    /// # Errors
    /// The resources that were left over.
    pub fn close(mut self) -> Result<(), Leak> {
        self.release()
    }

    fn release(&mut self) -> Result<(), Leak> {
        let Some(mut device) = self.device.take() else { return Ok(()) };
        if let Some(queue) = self.queue.take() {
            // A queue that does not go stays in the leak.
            let _ = queue.destroy(&mut device.process);
        }
        if let Some(signals) = self.timings.signals() {
            // What is not taken back now goes with the process.
            let _ = signals.destroy(&mut device.process);
        }
        self.recordings.clear(&mut device);
        self.programs.unload(&mut device.process);
        self.store.free(&mut device);
        let Buffers { arena, scratch, result, inputs, ring } = core::mem::take(&mut self.buffers);
        for buffer in [arena, scratch, result, inputs, ring].into_iter().flatten() {
            device.free(buffer);
        }
        device.shutdown()
    }

    fn check_lost(&self) -> Result<(), GpuError> {
        match &self.lost {
            Some(fault) => Err(GpuError::Lost(fault.clone())),
            None => Ok(()),
        }
    }

    /// Marks the device as lost if an error means that.
    fn mark_lost<T>(&mut self, result: Result<T, GpuError>) -> Result<T, GpuError> {
        if let Err(error) = &result
            && error.is_lost()
        {
            self.lost = Some(self.queue.as_ref().and_then(|queue| queue.fault().cloned()).map(Box::new));
            self.in_flight = None;
        }
        result
    }
}

/// The compiler's target for a device.
fn target_of(process: &Process<'_>, index: DeviceIndex) -> Result<Target, GpuError> {
    let isa = process.device(index).node().isa();
    chip::target(isa).ok_or(GpuError::Chip(isa))
}

impl Drop for GpuBackend<'_, '_, '_> {
    fn drop(&mut self) {
        // Callers that need the leak call `close`.
        let _ = self.release();
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
        let picks =
            plan.ops.iter().any(|op| matches!(op, Op::Head(head) if head.result == HeadResult::ArgMax));
        for (rows, outputs) in [(plan.shape.rows, plan.shape.outputs), (1, 1)] {
            let positions = covered(rows, self.settings.pages.table());
            let outputs = outputs.min(rows);
            // Steps that generate have a row of each sequence.
            let single = self.model.state.is_some() && rows == outputs;
            let size = StepSize { rows, outputs, single, positions, chained: false };
            self.record(plan, size)?;
            if picks && rows == outputs {
                self.record(plan, StepSize { chained: true, ..size })?;
            }
        }
        Ok(())
    }

    fn reserve_states(&mut self, count: u32) -> Result<(), GpuError> {
        self.check_lost()?;
        self.take_states(count)
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        if let Some(fallback) = &mut self.fallback {
            fallback.copy_state(from, to);
        }
        if from != to && from.0.max(to.0) < self.states && self.lost.is_none() {
            // What fails is reported by the next step.
            let copied = self.copy_on_device(from, to);
            if self.mark_lost(copied).is_err() {
                self.lost.get_or_insert(None);
            }
        }
    }

    fn submit(&mut self, plan: &Plan<'_>, batch: &Batch<'_>) -> Result<(), GpuError> {
        self.begin(plan, batch, 1, false)
    }

    fn supports_multi_step(&self) -> bool {
        true
    }

    fn max_steps(&self, plan: &Plan<'_>) -> u32 {
        self.chain_steps(plan)
    }

    fn submit_multi_step(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, steps: u32) -> Result<(), GpuError> {
        self.begin(plan, batch, steps.max(1), true)
    }

    fn poll(&mut self) -> Result<Option<Output<'_>>, GpuError> {
        self.collect()
    }

    fn suspend(&mut self) -> Result<(), GpuError> {
        self.check_lost()?;
        match (&self.device, &mut self.queue) {
            (Some(device), Some(queue)) if self.in_flight.is_none() => {
                queue.park(&device.process).map(drop).map_err(GpuError::Rest)
            }
            _ => Ok(()),
        }
    }
}
