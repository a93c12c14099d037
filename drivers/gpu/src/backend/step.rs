//! A step: recorded if it is new, its inputs written, submitted up to its last segment, and its result fetched.

use doorbell_core::backend::Output;
use doorbell_core::plan::{Batch, HeadResult, Op, Plan};
use doorbell_core::token::TokenId;
use doorbell_kernels::{RING, Step};
use doorbell_kfd::memory::Buffer;
use doorbell_kfd::packet::Encoding;
use doorbell_kfd::queue::{Submission, WaitProgress};

use super::wait::{poll, wait};
use super::{GpuBackend, InFlight};
use crate::cpu_fallback::{DeviceKv, StepMemory, read_words};
use crate::error::GpuError;
use crate::input_block::Layout;
use crate::placement::{Placement, on_device};
use crate::record::{Pm4Target, Recording, Segment, StepRecorder, StepSize, covered};
use crate::settings::PACKETS;

/// Most steps of a chain: half the ring, so that no step's place is used twice.
const MOST_STEPS: u32 = RING / 2;

impl<'k> GpuBackend<'k, '_, '_> {
    /// Most steps of a chain of a plan that has been reserved: those whose packets fit the queue.
    pub(super) fn chain_steps(&self, plan: &Plan<'_>) -> u32 {
        let largest = self.recordings.chained_packets(plan).unwrap_or(usize::MAX);
        let steps = (PACKETS as usize).checked_div(largest).unwrap_or(0);
        (steps as u32).clamp(1, MOST_STEPS)
    }

    /// Starts `steps` steps, which feed each other if they are `chained`.
    pub(super) fn begin(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        steps: u32,
        chained: bool,
    ) -> Result<(), GpuError> {
        self.check_lost()?;
        self.settle()?;
        let limits = self.model.limits(plan.shape, self.settings.pages, self.states);
        if chained {
            batch.check_multi_step(&limits, steps)?;
        } else {
            batch.check(&limits)?;
        }
        if batch.rows() == 0 {
            return Ok(());
        }
        let size = self.ready(plan, batch, steps - 1, chained)?;
        let index = self.record(plan, size)?;
        if chained && steps > self.chain_steps(plan) {
            return Err(GpuError::Chain(steps, self.chain_steps(plan)));
        }
        self.clear_ring(batch, chained);
        self.progress = WaitProgress::default();
        let started = self.start(plan, batch, index, size, steps);
        let submission = self.mark_lost(started)?;
        let head = plan.ops.iter().find_map(|op| if let Op::Head(head) = op { Some(head) } else { None });
        self.in_flight = head.map(|head| {
            let width = match head.result {
                HeadResult::Logits => head.matrix.rows as usize,
                HeadResult::ArgMax => 1,
                HeadResult::Hidden => self.model.hparams.width as usize,
            };
            let words = batch.outputs.len() * width;
            InFlight { submission, result: head.result, words, rows: size.rows, steps, collected: 0 }
        });
        Ok(())
    }

    /// Makes room for a batch and `ahead` steps behind it, and writes its inputs.
    pub(super) fn ready(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        ahead: u32,
        chained: bool,
    ) -> Result<StepSize, GpuError> {
        self.grow(plan)?;
        let end = batch.runs.iter().map(|run| run.position + run.rows).max().unwrap_or(0);
        let positions = covered(end + ahead, self.settings.pages.table());
        self.write_inputs(plan, batch, ahead, positions)?;
        let (rows, outputs) = (batch.rows() as u32, batch.outputs.len() as u32);
        let single = self.model.state.is_some() && batch.runs.len() == batch.rows();
        Ok(StepSize { rows, outputs, single, positions, chained })
    }

    /// Waits for a step whose result was not collected: its memory is in use until then.
    pub(super) fn settle(&mut self) -> Result<(), GpuError> {
        let Some(InFlight { submission: Some(submission), .. }) = self.in_flight.take() else {
            return Ok(());
        };
        let Self { device, queue, progress, settings, names, .. } = &mut *self;
        let (Some(device), Some(queue)) = (device, queue) else { return Err(GpuError::Lost(None)) };
        let waited = wait(device, queue, submission, progress, settings.hang_ms, names);
        self.mark_lost(waited)
    }

    /// Empties the ring for a chain, and notes the positions at which its tokens come.
    fn clear_ring(&mut self, batch: &Batch<'_>, chained: bool) {
        self.first_positions.clear();
        if !chained {
            return;
        }
        self.first_positions.extend(batch.runs.iter().map(|run| run.position + 1));
        if let Some(window) = self.buffers.ring.as_ref().and_then(Buffer::window) {
            const ROW: usize = 4 * RING as usize;
            (0..batch.rows()).for_each(|row| window.write(row * ROW, &[0xff; ROW]));
        }
    }

    /// Index of the recorded step of a size, which is recorded if it is new.
    pub(super) fn record(&mut self, plan: &Plan<'_>, size: StepSize) -> Result<usize, GpuError> {
        let mut index = self.recordings.plan(plan);
        if !self.recordings.has(index, size) {
            let before = self.of_host.len();
            let recording = self.recording(plan, size, self.settings.placement)?;
            let on_host = |segment: &Segment| matches!(segment, Segment::Host(_));
            if let Some(fallback) = &mut self.fallback
                && recording.segments.iter().any(on_host)
            {
                fallback.reserve(plan).map_err(GpuError::CpuFallback)?;
            }
            let device = self.device.as_mut().ok_or(GpuError::Lost(None))?;
            if self.of_host.len() > before {
                // Others may use the same keys and values on the device.
                self.recordings.clear(device);
                index = self.recordings.plan(plan);
            }
            self.recordings.keep(index, size, recording, device);
        }
        Ok(index)
    }

    /// Records a step.
    pub(super) fn recording(
        &mut self,
        plan: &Plan<'_>,
        size: StepSize,
        placement: Placement,
    ) -> Result<Recording, GpuError> {
        let target = self.target;
        self.with_step(plan, size, |step, mut with| {
            if matches!(placement, Placement::Host | Placement::Only(_)) {
                // One operation by itself says nothing about the others.
                with.of_host = None;
            }
            with.record(step, on_device(plan, step.model, target, placement))
        })
    }

    /// Lends what lowering a step needs.
    pub(super) fn with_step<T>(
        &mut self,
        plan: &Plan<'_>,
        size: StepSize,
        work: impl FnOnce(&Step<'_, '_>, StepRecorder<'_, 'k>) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let target = self.target;
        let bound = self.fallback.is_some();
        let lists = self.lists();
        let Self { buffers, store, settings, kept, model, device, programs, disabled, of_host, .. } =
            &mut *self;
        let address = |buffer: &Option<Buffer>| buffer.as_ref().map_or(0, Buffer::va);
        let layout = Layout::new(plan.shape, model.groups.len());
        let inputs = layout.inputs(address(&buffers.inputs), address(&buffers.result));
        let step = Step {
            model: kept,
            plan,
            rows: size.rows,
            outputs: size.outputs,
            single: size.single,
            positions: size.positions,
            arena: address(&buffers.arena),
            scratch: address(&buffers.scratch),
            weights: &store.weights,
            vectors: &store.vectors,
            ropes: &store.ropes,
            pools: &store.addresses,
            states: address(&store.states),
            kv: settings.kv,
            inputs: doorbell_kernels::Inputs { ring: size.chained.then(|| address(&buffers.ring)), ..inputs },
        };
        let of_host = bound.then_some(of_host);
        let device = device.as_mut().ok_or(GpuError::Lost(None))?;
        let packets = PACKETS as usize;
        work(&step, StepRecorder { device, programs, disabled, target, of_host, packets, lists })
    }

    /// The target of PM4 lists, if steps are submitted as lists.
    fn lists(&self) -> Option<Pm4Target> {
        let (queue, device) = (self.queue.as_ref()?, self.device.as_ref()?);
        let isa = device.process.device(device.index).node().isa();
        (self.encoding == Encoding::Pm4).then_some(Pm4Target { isa, started: queue.started_va() })
    }

    /// Runs a recording, as often as there are steps, up to its last submission, which stays in flight.
    fn start(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        index: usize,
        size: StepSize,
        steps: u32,
    ) -> Result<Option<Submission>, GpuError> {
        let Self { device, queue, buffers, store, recordings, settings, reference, .. } = self;
        let Self { progress, timings, names, packets, fallback, kept, .. } = self;
        let (Some(device), Some(queue)) = (device, queue) else { return Err(GpuError::Lost(None)) };
        let (Some(arena), Some(result)) = (&buffers.arena, &buffers.result) else {
            return Err(GpuError::Lost(None));
        };
        let Some(recording) = recordings.get(index, size) else { return Ok(None) };
        let mut last = None;
        for segment in &recording.segments {
            if let Some(submission) = last.take() {
                wait(device, queue, submission, progress, settings.hang_ms, names)?;
                timings.note(queue, names, size.rows);
            }
            match segment {
                Segment::Device(recorded, kernels) => {
                    names.clone_from(kernels);
                    packets.clear();
                    (0..steps).for_each(|_| packets.extend_from_slice(recorded));
                    timings.attach(packets)?;
                    last = Some(queue.submit(&device.process, packets, plan.shape.rows)?);
                }
                Segment::Host(ops) => {
                    let mut memory = StepMemory { device, plan, batch, arena, result, model: kept };
                    match fallback {
                        Some(fallback) => memory.run(&mut **fallback, ops.clone())?,
                        None => {
                            let mut kv = DeviceKv::new(store, kept, settings.kv);
                            reference.run(&mut memory, &mut kv, &plan.ops[ops.clone()])?;
                        }
                    }
                }
            }
        }
        Ok(last)
    }

    /// The result of the step in flight, or of the next one of a chain.
    pub(super) fn collect(&mut self) -> Result<Option<Output<'_>>, GpuError> {
        self.check_lost()?;
        let Some(in_flight) = self.in_flight else { return Ok(None) };
        let last = in_flight.collected + 1 == in_flight.steps;
        let is_read = !last && self.read_ring(in_flight.collected);
        if let Some(submission) = in_flight.submission
            && !is_read
        {
            let Self { device, queue, progress, settings, names, .. } = &mut *self;
            let (Some(device), Some(queue)) = (device, queue) else { return Err(GpuError::Lost(None)) };
            let polled = poll(device, queue, submission, progress, settings.hang_ms, names);
            if !self.mark_lost(polled)? {
                return Ok(None);
            }
            if last && let Some(queue) = &self.queue {
                self.timings.note(queue, &self.names, in_flight.rows);
            }
        }
        if in_flight.steps > 1 {
            if !is_read && !self.read_ring(in_flight.collected) {
                // The chain is over, and not all of its tokens are there.
                self.in_flight = None;
                self.lost = Some(None);
                return Err(GpuError::Lost(None));
            }
        } else {
            self.fetch(in_flight);
        }
        let collected = in_flight.collected + 1;
        self.in_flight = (!last).then_some(InFlight { collected, ..in_flight });
        Ok(Some(match in_flight.result {
            HeadResult::Logits => Output::Logits(&self.numbers),
            HeadResult::ArgMax => Output::Tokens(&self.tokens),
            HeadResult::Hidden => Output::Hidden(&self.numbers),
        }))
    }

    /// Reads the tokens of one step of a chain; `false` while they are not all there.
    fn read_ring(&mut self, step: u32) -> bool {
        let Some(ring) = self.buffers.ring.as_ref().and_then(Buffer::window) else { return false };
        self.tokens.clear();
        for (row, position) in self.first_positions.iter().enumerate() {
            let mut word = [0; 4];
            ring.read(4 * (row * RING as usize + ((position + step) % RING) as usize), &mut word);
            let token = u32::from_le_bytes(word);
            if token == NOTHING {
                return false;
            }
            self.tokens.push(TokenId(token));
        }
        true
    }

    /// Copies the result to where the caller may look at it.
    fn fetch(&mut self, in_flight: InFlight) {
        let words = match &self.buffers.result {
            Some(buffer) => read_words(buffer, 0, in_flight.words),
            None => alloc::vec::Vec::new(),
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

/// Value of an empty slot of the ring, in all bytes; no vocabulary is so large.
const NOTHING: u32 = u32::MAX;
