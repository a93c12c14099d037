//! The check of kernels against known answers, and taking kernels out of use.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use doorbell_core::heap::Heap;
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, Element, HeadResult, Op, PAGE_TOKENS, PageId, PageSpan, PageTables, Plan, RowRun, Shape, StateId,
};
use doorbell_core::reference::KvStore as _;
use doorbell_core::token::TokenId;
use doorbell_kernels::{KernelSpec, RING, lower};
use doorbell_kfd::memory::Buffer;
use doorbell_kfd::packet::Encoding;

use super::wait::wait;
use super::{GpuBackend, StepSize};
use crate::cpu_fallback::{DeviceKv, ReferenceFallback, StepMemory, read_words};
use crate::error::GpuError;
use crate::input_block::Layout;
use crate::kernel_check::{
    KernelCheckCache, NO_KEY, Noise, TOLERANCE, WrongKernel, difference, judging_op, key, token_error,
};
use crate::operands::{chooses_tokens, outputs, result_words};
use crate::placement::{Placement, bind, on_device};
use crate::record::{Recording, Segment};

/// The values that an operation has written: by tensor, the head's result, keys and values, and the inputs of the next
/// step of a chain.
struct OpResult {
    tensors: Vec<(Element, Vec<u32>)>,
    result: Vec<u32>,
    fed: Vec<u32>,
}

impl OpResult {
    /// The error relative to the expected result. Chosen tokens are judged by the logits that they were chosen from.
    fn difference(&self, expected: &Self, picked: bool) -> f64 {
        let tensors = self.tensors.iter().zip(&expected.tensors);
        let error = tensors.map(|(found, expected)| difference(found.0, &found.1, &expected.1));
        let result = if picked {
            let logits: Vec<f32> = expected.result.iter().copied().map(f32::from_bits).collect();
            token_error(&self.result, &logits)
        } else {
            difference(Element::F32, &self.result, &expected.result)
        };
        let fed = difference(Element::U32, &self.fed, &expected.fed);
        error.fold(result.max(fed), f64::max)
    }
}

/// Positions of the tokens that a batch of single rows chooses.
fn next_positions(batch: &Batch<'_>) -> impl Iterator<Item = u32> {
    batch.runs.iter().map(|run| run.position + 1)
}

/// The values that a step has to leave for the next one: chosen tokens, their positions twice, and the tokens in the
/// ring.
fn to_feed(batch: &Batch<'_>, picked: &[u32]) -> Vec<u32> {
    let picked = || picked.iter().copied();
    picked().chain(next_positions(batch)).chain(next_positions(batch)).chain(picked()).collect()
}

/// Rows of the steps that kernels are checked with: those of few rows, and those of prompts, which multiply matrices.
/// Both are more than one tile, and no whole number of tiles.
pub(super) const CHECKED_ROWS: [u32; 2] = [17, 70];

/// A batch of one sequence with arbitrary tokens.
pub(super) struct TestBatch {
    tokens: Vec<TokenId>,
    wanted: Vec<u32>,
    runs: [RowRun; 1],
    pages: Vec<PageId>,
    spans: Vec<PageSpan>,
}

impl TestBatch {
    pub(super) fn new(plan: &Plan<'_>, position: u32, model: &Model<'_>) -> Self {
        let rows = plan.shape.rows;
        let pages: Vec<PageId> = (0..(position + rows).div_ceil(PAGE_TOKENS as u32)).map(PageId).collect();
        Self {
            tokens: (0..rows).map(|row| TokenId((row * 7 + 1) % model.vocabulary)).collect(),
            wanted: (rows - plan.shape.outputs.min(rows)..rows).collect(),
            runs: [RowRun { sequence: 0, first_row: 0, rows, position }],
            spans: alloc::vec![PageSpan { start: 0, len: pages.len() as u32 }; model.groups.len()],
            pages,
        }
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        let Self { tokens, wanted, runs, pages, spans } = self;
        let tables = PageTables { pages, spans, groups: spans.len(), states: &[StateId(0)] };
        Batch { tokens, runs, outputs: wanted, tables }
    }
}

impl GpuBackend<'_, '_, '_> {
    /// Kernels that are not used because their results differ from the reference.
    pub fn wrong_kernels(&self) -> &[WrongKernel] {
        &self.wrong_kernels
    }

    /// Disables a kernel; its operations run on the host. Returns true if it was enabled. Plans are to be
    /// reserved again before the next step, and keys and values that the kernel wrote are lost.
    pub fn disable(&mut self, kernel: &str) -> bool {
        let Some(spec) = self.programs.spec(kernel).cloned() else { return false };
        if let Some(device) = &mut self.device {
            self.recordings.clear(device);
        }
        self.disabled.insert(spec)
    }

    /// Names of the kernels on the device.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.programs.names()
    }

    /// Runs each kernel that steps need once, and the reference beside it, before the first step; disables kernels
    /// whose results differ. Then runs whole steps as PM4 lists, if they are to be lists, and goes back to packets if
    /// the lists are at fault ([`Self::pm4_check_failure`]). Results in `cache` are not checked again. Plans are to be
    /// reserved again afterwards.
    ///
    /// # Errors
    /// Memory, or faults of the device.
    pub fn check_kernels(
        &mut self,
        cache: &mut dyn KernelCheckCache,
        heap: Heap<'_>,
    ) -> Result<(), GpuError> {
        self.reserve_one_state()?;
        // Kernels are judged by themselves, whatever lists do.
        let encoding = core::mem::replace(&mut self.encoding, Encoding::Aql);
        let checked = self.check_each(cache, heap);
        self.encoding = encoding;
        checked?;
        self.check_lists(cache, heap)
    }

    /// Takes the memory of a recurrent state if there is none.
    fn reserve_one_state(&mut self) -> Result<(), GpuError> {
        if self.model.state.is_some() && self.states == 0 { self.take_states(1) } else { Ok(()) }
    }

    fn check_each(&mut self, cache: &mut dyn KernelCheckCache, heap: Heap<'_>) -> Result<(), GpuError> {
        // As prompts have, then one row behind them, with each of the results that a step can have, and as a chain.
        let [few, many] = self.checked_rows();
        let steps = [
            (few, 0, HeadResult::Logits, false),
            (many, 0, HeadResult::Logits, false),
            (1, few, HeadResult::Logits, false),
            (1, few, HeadResult::ArgMax, false),
            (1, few, HeadResult::Hidden, false),
            (1, few, HeadResult::ArgMax, true),
        ];
        let mut seen = BTreeSet::new();
        for (rows, position, result, chained) in steps {
            let plan = self.model.plan(Shape { rows, outputs: 1 }, result, heap)?;
            self.check(&plan, position, chained, cache, &mut seen)?;
        }
        Ok(())
    }

    /// [`CHECKED_ROWS`], as far as steps have them and one more row has a page.
    pub(super) fn checked_rows(&self) -> [u32; 2] {
        let positions = self.settings.pages.positions();
        let most = self.settings.shape.rows.min(positions.saturating_sub(1)).max(1);
        CHECKED_ROWS.map(|rows| rows.min(most))
    }

    /// As [`Self::check_each`], for a step of all rows of `plan` from `position` on, one of a chain if it is `chained`;
    /// kernels that were `seen` are left out. Overwrites the first pages.
    ///
    /// # Errors
    /// Faults of the device.
    fn check(
        &mut self,
        plan: &Plan<'_>,
        position: u32,
        chained: bool,
        cache: &mut dyn KernelCheckCache,
        seen: &mut BTreeSet<Vec<KernelSpec>>,
    ) -> Result<(), GpuError> {
        let test_batch = TestBatch::new(plan, position, self.model);
        let batch = test_batch.batch();
        let size = self.ready(plan, &batch, 0, chained)?;
        let chosen = self.chosen(plan);
        let mut kernels: Vec<Option<Vec<KernelSpec>>> = Vec::new();
        for (index, op) in plan.ops.iter().enumerate() {
            let specs = if chosen[index] { self.specs(plan, size, index)? } else { None };
            kernels.push(specs.clone());
            let Some(specs) = specs.filter(|specs| !seen.contains(specs)) else { continue };
            seen.insert(specs.clone());
            let key = self.key_of(op, &specs);
            let error = match cache.get(key) {
                Some(error) => error,
                None => {
                    let checked = self.check_one(plan, &batch, size, index);
                    let error = self.mark_lost(checked)?;
                    cache.insert(key, error);
                    error
                }
            };
            if error > TOLERANCE {
                let kernels = specs.iter().map(|spec| spec.name()).collect();
                self.wrong_kernels.push(WrongKernel { op: op.name(), kernels, error });
                self.disabled.extend(specs);
            }
        }
        // What uses the same keys and values as these has to be on the same side from the first step on.
        if self.fallback.is_some() {
            let fit = |specs: &Vec<KernelSpec>| !specs.iter().any(|spec| self.disabled.contains(spec));
            let mut runs: Vec<bool> = kernels.iter().map(|own| own.as_ref().is_some_and(fit)).collect();
            bind(plan, &mut runs, &mut self.of_host);
        }
        if let Some(device) = &mut self.device {
            self.recordings.clear(device);
        }
        Ok(())
    }

    /// The cache key of an operation's kernels.
    fn key_of(&self, op: &Op, specs: &[KernelSpec]) -> u64 {
        let loaded = specs.iter().filter_map(|spec| self.programs.loaded(spec));
        loaded
            .fold(key(NO_KEY, op.name().as_bytes()), |before, loaded| key(before, &loaded.key.to_le_bytes()))
    }

    /// Runs one operation of a step of all rows of `plan` by itself on made-up activations, with `position` positions
    /// before it. What comes of it is not looked at. Overwrites keys and values.
    ///
    /// # Errors
    /// Faults of the device.
    pub fn run_op(&mut self, plan: &Plan<'_>, position: u32, index: usize) -> Result<(), GpuError> {
        let test_batch = TestBatch::new(plan, position, self.model);
        let batch = test_batch.batch();
        self.reserve_one_state()?;
        let size = self.ready(plan, &batch, 0, false)?;
        self.prepare_one(plan, &batch, &plan.ops[index])?;
        let recording = self.recording(plan, size, Placement::Only(index))?;
        let ran = self.run_recording(&recording);
        if let Some(device) = &mut self.device {
            recording.free(device);
        }
        self.mark_lost(ran)
    }

    /// Runs what a recording has for the device.
    pub(super) fn run_recording(&mut self, recording: &Recording) -> Result<(), GpuError> {
        let Self { device, queue, progress, settings, names, .. } = &mut *self;
        let (Some(device), Some(queue)) = (device, queue) else { return Err(GpuError::Lost(None)) };
        for segment in &recording.segments {
            let Segment::Device(packets, kernels) = segment else { continue };
            names.clone_from(kernels);
            let submission = queue.submit(&device.process, packets, 0)?;
            wait(device, queue, submission, progress, settings.hang_ms, names)?;
        }
        Ok(())
    }

    /// The operations that the device runs as far as their kernels are fit for use: only those have their weights
    /// there.
    fn chosen(&self, plan: &Plan<'_>) -> Vec<bool> {
        let mut chosen = on_device(plan, &self.kept, self.target, self.settings.placement);
        if self.fallback.is_some() {
            bind(plan, &mut chosen, &mut self.of_host.clone());
        }
        chosen
    }

    /// The kernels of one operation that is chosen; `None` when the host runs it all the same.
    fn specs(
        &mut self,
        plan: &Plan<'_>,
        size: StepSize,
        index: usize,
    ) -> Result<Option<Vec<KernelSpec>>, GpuError> {
        let target = self.target;
        self.with_step(plan, size, |step, mut with| {
            let (op, mut launches) = (&plan.ops[index], Vec::new());
            let runs = lower(op, step, target, &mut |launch| launches.push(launch)).is_ok()
                && !launches.iter().any(|launch| with.disabled.contains(&launch.spec));
            if !runs {
                return Ok(None);
            }
            launches.iter().try_for_each(|launch| with.prepare(launch))?;
            Ok(Some(launches.into_iter().map(|launch| launch.spec).collect()))
        })
    }

    /// The error of the device in one operation.
    fn check_one(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        size: StepSize,
        index: usize,
    ) -> Result<f64, GpuError> {
        let op = &plan.ops[index];
        let recording = self.recording(plan, size, Placement::Only(index))?;
        let mut answers = Vec::new();
        for on_device in [true, false] {
            self.prepare_one(plan, batch, op)?;
            let judge = judging_op(op);
            if on_device {
                self.run_recording(&recording)?;
            } else {
                self.with_memory(plan, batch, |reference, memory, kv| {
                    reference.run(memory, kv, core::slice::from_ref(&judge))
                })?;
            }
            answers.push(self.answer(plan, batch, if on_device { op } else { &judge })?);
        }
        if let Some(device) = &mut self.device {
            recording.free(device);
        }
        let [found, expected] = answers.as_mut_slice() else { return Ok(0.0) };
        if size.chained && chooses_tokens(op) {
            found.fed = self.fed(plan, batch);
            expected.fed = to_feed(batch, &found.result);
        }
        Ok(found.difference(expected, chooses_tokens(op)))
    }

    /// The inputs of the next step in device memory, and the tokens in the ring: as [`to_feed`].
    fn fed(&self, plan: &Plan<'_>, batch: &Batch<'_>) -> Vec<u32> {
        let layout = Layout::new(plan.shape, self.model.groups.len()).inputs(0, 0);
        let rows = batch.rows();
        let words = |buffer: &Option<Buffer>, at: u64, count: usize| {
            buffer.as_ref().map_or_else(Vec::new, |buffer| read_words(buffer, at, count))
        };
        let starts = [layout.tokens, layout.positions, layout.output_positions];
        let mut fed: Vec<u32> =
            starts.into_iter().flat_map(|at| words(&self.buffers.inputs, at, rows)).collect();
        for (row, position) in next_positions(batch).enumerate() {
            let slot = row as u64 * u64::from(RING) + u64::from(position % RING);
            fed.extend(words(&self.buffers.ring, 4 * slot, 1));
        }
        fed
    }

    /// Puts the same noise into every tensor of an operation and its recurrent state, and zeros where the head writes.
    fn prepare_one(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, op: &Op) -> Result<(), GpuError> {
        let result = result_words(op, plan, batch.outputs.len());
        let experts = match op {
            Op::Experts(op) => self.model.weight(op.gate.weight).stack as u32,
            _ => 1,
        };
        self.with_memory(plan, batch, |_, memory, kv| {
            let (mut noise, mut written) = (Noise::new(1), Ok(()));
            if let (Op::DeltaNet(op), [state, ..]) = (op, batch.tables.states) {
                noise.numbers(kv.state(*state, op.state));
                kv.flush(memory.device)?;
            }
            op.each_tensor(|id| {
                let cells = noise.fill(plan, id, memory.rows(id), experts);
                if written.is_ok() {
                    written = memory.write(id, &cells);
                }
            });
            written?;
            memory.device.write(memory.result, 0, &alloc::vec![0; 4 * result])
        })
    }

    /// Reads the values that an operation has written.
    fn answer(&mut self, plan: &Plan<'_>, batch: &Batch<'_>, op: &Op) -> Result<OpResult, GpuError> {
        let result = result_words(op, plan, batch.outputs.len());
        let groups = self.model.groups.len();
        self.with_memory(plan, batch, |_, memory, kv| {
            let element = |id| plan.tensor(id).element;
            let mut tensors: Vec<_> =
                outputs(op).into_iter().map(|id| (element(id), memory.words(id))).collect();
            for group in 0..groups {
                tensors.extend(kv.written_by(op, group, memory).map(|values| (Element::F32, values)));
            }
            tensors.extend(kv.state_after(op, memory).map(|values| (Element::F32, values)));
            Ok(OpResult { tensors, result: read_words(memory.result, 0, result), fed: Vec::new() })
        })
    }

    /// Lends the reference interpreter and what it runs on.
    fn with_memory<T>(
        &mut self,
        plan: &Plan<'_>,
        batch: &Batch<'_>,
        work: impl FnOnce(
            &mut ReferenceFallback<'_, '_>,
            &mut StepMemory<'_, '_>,
            &mut DeviceKv<'_>,
        ) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        let Self { device, buffers, store, settings, reference, kept, .. } = self;
        let lost = || GpuError::Lost(None);
        let device = device.as_mut().ok_or_else(lost)?;
        let (arena, result) =
            (buffers.arena.as_ref().ok_or_else(lost)?, buffers.result.as_ref().ok_or_else(lost)?);
        let mut kv = DeviceKv::new(store, kept, settings.kv);
        let mut memory = StepMemory { device, plan, batch, arena, result, model: kept };
        work(reference, &mut memory, &mut kv)
    }
}
