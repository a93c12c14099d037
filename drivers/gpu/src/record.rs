//! A step as packets: lowered once for a plan and a size of batch, then run again as it is.
//!
//! Everything that changes from step to step of one size lies in the input block, whose addresses stay, so the
//! packets and their arguments do too. Arguments therefore lie in a buffer of the recording and not in a ring: they
//! are written once, and one step is in flight at a time. So do PM4 lists: such a step is one packet that runs a list.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_core::plan::{Op, PAGE_TOKENS, Plan, Shape, Tensor};
use doorbell_kernels::isa::Target;
use doorbell_kernels::{KernelSpec, Launch, Step, lower};
use doorbell_kfd::memory::{Buffer, Name, Usage};
use doorbell_kfd::packet::{
    Acquire, Dependency, Dispatch, Header, Packet, PacketKind, Recorded, Recorder, Scope, pm4_buffer,
};
use doorbell_kfd::topology::Isa;

use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::kernels::LoadedKernels;
use crate::operands::LayerMemory;
use crate::placement::bind;

/// Consecutive operations that one side runs.
pub(crate) enum Segment {
    /// Packets of one submission, and the kernels that they run, in order.
    Device(Vec<Packet>, Vec<String>),
    /// Operations that run on the host.
    Host(Range<usize>),
}

/// A recorded step.
pub(crate) struct Recording {
    pub(crate) segments: Vec<Segment>,
    arguments: Option<Buffer>,
    lists: Option<Buffer>,
    used: u64,
}

impl Recording {
    pub(crate) fn free(self, device: &mut GpuDevice<'_>) {
        for buffer in [self.arguments, self.lists].into_iter().flatten() {
            device.free(buffer);
        }
    }
}

/// The target of PM4 lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pm4Target {
    pub(crate) isa: Isa,
    /// Address of the word in which a list counts the dispatches that it has started.
    pub(crate) started: u64,
}

/// The size of a step that a recording was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepSize {
    pub(crate) rows: u32,
    pub(crate) outputs: u32,
    /// True if every row is known to be a sequence of its own; only of models where that matters.
    pub(crate) single: bool,
    /// Positions that it reaches.
    pub(crate) positions: u32,
    /// True if the tokens that it chooses are the next step's inputs.
    pub(crate) chained: bool,
}

/// Positions that a recorded step covers: a few more than the longest sequence has, so that a step can be run again
/// while sequences grow, but never more than there are.
pub(crate) fn covered(positions: u32, pages: u32) -> u32 {
    let step = (positions.max(1).next_power_of_two() / 8).max(PAGE_TOKENS as u32);
    positions.max(1).next_multiple_of(step).min(pages.saturating_mul(PAGE_TOKENS as u32))
}

/// Recordings of one plan. The plan is identified by its contents, since its address may be reused.
struct PlanRecordings {
    shape: Shape,
    ops: Vec<Op>,
    tensors: Vec<Tensor>,
    recordings: BTreeMap<StepSize, Recording>,
}

impl PlanRecordings {
    fn is(&self, plan: &Plan<'_>) -> bool {
        self.shape == plan.shape
            && self.tensors.as_slice() == plan.tensors.as_slice()
            && self.ops.as_slice() == plan.ops.as_slice()
    }
}

/// Recordings kept at most.
const MOST: usize = 64;

/// All recordings.
#[derive(Default)]
pub(crate) struct Recordings {
    plans: Vec<PlanRecordings>,
    clock: u64,
}

impl Recordings {
    /// The index of a plan's recordings.
    pub(crate) fn plan(&mut self, plan: &Plan<'_>) -> usize {
        if let Some(index) = self.plans.iter().position(|planned| planned.is(plan)) {
            return index;
        }
        self.plans.push(PlanRecordings {
            shape: plan.shape,
            ops: plan.ops.to_vec(),
            tensors: plan.tensors.to_vec(),
            recordings: BTreeMap::new(),
        });
        self.plans.len() - 1
    }

    /// The most packets of a recorded step that feeds the next; `None` while there is none that the device runs alone.
    pub(crate) fn chained_packets(&self, plan: &Plan<'_>) -> Option<usize> {
        let planned = self.plans.iter().find(|planned| planned.is(plan))?;
        let chained = planned.recordings.iter().filter(|(size, _)| size.chained);
        let packets = chained.map(|(_, recording)| match recording.segments.as_slice() {
            [Segment::Device(packets, _)] => packets.len(),
            _ => usize::MAX,
        });
        packets.max().filter(|&packets| packets < usize::MAX)
    }

    pub(crate) fn has(&self, plan: usize, size: StepSize) -> bool {
        self.plans[plan].recordings.contains_key(&size)
    }

    /// A recording that is there, for use.
    pub(crate) fn get(&mut self, plan: usize, size: StepSize) -> Option<&Recording> {
        self.clock += 1;
        let recording = self.plans[plan].recordings.get_mut(&size)?;
        recording.used = self.clock;
        Some(recording)
    }

    /// Keeps a recording; the one that was not used for longest gives way. No step may be in flight.
    pub(crate) fn keep(
        &mut self,
        plan: usize,
        size: StepSize,
        recording: Recording,
        device: &mut GpuDevice<'_>,
    ) {
        let all = || self.plans.iter().enumerate();
        if all().map(|(_, planned)| planned.recordings.len()).sum::<usize>() >= MOST {
            let each = all().flat_map(|(index, planned)| {
                planned.recordings.iter().map(move |(size, recording)| (recording.used, index, *size))
            });
            if let Some((_, index, size)) = each.min()
                && let Some(old) = self.plans[index].recordings.remove(&size)
            {
                old.free(device);
            }
        }
        self.plans[plan].recordings.insert(size, recording);
    }

    /// Forgets all: addresses have changed.
    pub(crate) fn clear(&mut self, device: &mut GpuDevice<'_>) {
        for planned in self.plans.drain(..) {
            planned.recordings.into_values().for_each(|recording| recording.free(device));
        }
    }
}

/// Records steps.
pub(crate) struct StepRecorder<'r, 'k> {
    pub(crate) device: &'r mut GpuDevice<'k>,
    pub(crate) programs: &'r mut LoadedKernels,
    /// Kernels that must not be used.
    pub(crate) disabled: &'r BTreeSet<KernelSpec>,
    pub(crate) target: Target,
    /// Memory of layers that the host has, if it must be on one side.
    pub(crate) of_host: Option<&'r mut Vec<LayerMemory>>,
    /// Dispatches of one submission at most.
    pub(crate) packets: usize,
    /// The target if steps are PM4 lists; `None` for AQL packets.
    pub(crate) lists: Option<Pm4Target>,
}

impl StepRecorder<'_, '_> {
    /// Records a step; `on_device` says which operations the device may run.
    pub(crate) fn record(
        &mut self,
        step: &Step<'_, '_>,
        mut on_device: Vec<bool>,
    ) -> Result<Recording, GpuError> {
        let mut turns: Vec<Option<Vec<Launch>>> = Vec::new();
        for (op, on_device) in step.plan.ops.iter().zip(&mut on_device) {
            let mut launches = Vec::new();
            *on_device &= lower(op, step, self.target, &mut |launch| launches.push(launch)).is_ok()
                && !launches.iter().any(|launch| self.disabled.contains(&launch.spec));
            turns.push(Some(launches));
        }
        if let Some(of_host) = &mut self.of_host {
            bind(step.plan, &mut on_device, of_host);
        }
        for (turn, _) in turns.iter_mut().zip(on_device).filter(|(_, on_device)| !on_device) {
            *turn = None;
        }
        self.record_launches(turns)
    }

    /// Records the launches of every operation, `None` where the host runs it.
    pub(crate) fn record_launches(&mut self, turns: Vec<Option<Vec<Launch>>>) -> Result<Recording, GpuError> {
        let mut recording = Recording { segments: Vec::new(), arguments: None, lists: None, used: 0 };
        match self.encode(turns, &mut recording) {
            Ok(()) => Ok(recording),
            Err(error) => {
                recording.free(self.device);
                Err(error)
            }
        }
    }

    /// Compiles what is missing.
    pub(crate) fn prepare(&mut self, launch: &Launch) -> Result<(), GpuError> {
        let Self { device, programs, .. } = self;
        let GpuDevice { process, index, uploader, delay } = &mut **device;
        let uploader = uploader.as_mut().ok_or(GpuError::Tables)?;
        programs.get(&launch.spec, process, uploader, *index, &mut **delay).map(drop)
    }

    /// `turns` has the launches of every operation, `None` where the host runs it.
    fn encode(&mut self, turns: Vec<Option<Vec<Launch>>>, recording: &mut Recording) -> Result<(), GpuError> {
        // Arguments first, to know how much room they need.
        let mut block: Vec<u8> = Vec::new();
        let mut recorders: Vec<Result<(Recorder, Vec<String>), usize>> = Vec::new();
        for (index, turn) in turns.into_iter().enumerate() {
            let Some(launches) = turn else {
                recorders.push(Err(index));
                continue;
            };
            for launch in launches {
                self.prepare(&launch)?;
                let Some(loaded) = self.programs.loaded(&launch.spec) else { continue };
                let items = loaded.function.workgroup;
                let dispatch = Dispatch {
                    workgroup: [u16::try_from(items).unwrap_or(u16::MAX), 1, 1],
                    grid: [launch.groups[0].saturating_mul(items), launch.groups[1], launch.groups[2]],
                    group_bytes: loaded.kernel.group_bytes,
                    kernel_object: loaded.kernel.descriptor,
                    // From the start of the block until the block has an address.
                    kernarg: block.len() as u64,
                };
                block.extend_from_slice(&loaded.pack(&launch.arguments)?);
                block.resize(block.len().next_multiple_of(64), 0);
                let dependency = if launch.waits { Dependency::Previous } else { Dependency::None };
                let recorded =
                    Recorded { kernel: loaded.kernel, dispatch, dependency, acquire: Acquire::Agent };
                let full = match recorders.last() {
                    Some(Ok((recorder, _))) => recorder.list().len() >= self.packets,
                    _ => true,
                };
                if full {
                    recorders.push(Ok((Recorder::new(), Vec::new())));
                }
                if let Some(Ok((recorder, names))) = recorders.last_mut() {
                    recorder.add(recorded)?;
                    names.push(loaded.name.clone());
                }
            }
        }
        let base = self.arguments(&block, recording)?;
        let mut lists = Pm4Lists { with: self.lists, words: Vec::new(), segments: Vec::new() };
        for part in recorders {
            let (list, names) = match part {
                Err(index) => {
                    match recording.segments.last_mut() {
                        Some(Segment::Host(ops)) => ops.end = index + 1,
                        _ => recording.segments.push(Segment::Host(index..index + 1)),
                    }
                    continue;
                }
                Ok((recorder, names)) => (recorder, names),
            };
            let mut placed = Recorder::new();
            for recorded in list.list() {
                let mut recorded = *recorded;
                recorded.dispatch.kernarg += base;
                placed.add(recorded)?;
            }
            let packets = lists.encode(&placed, recording.segments.len())?;
            recording.segments.push(Segment::Device(packets, names));
        }
        self.keep_lists(&lists, recording)
    }

    /// Puts PM4 lists where the packet processor reads them, and their addresses into the packets that run them.
    fn keep_lists(&mut self, lists: &Pm4Lists, recording: &mut Recording) -> Result<(), GpuError> {
        if lists.words.is_empty() {
            return Ok(());
        }
        let bytes: &[u8] = bytemuck::cast_slice(&lists.words);
        let buffer = self.device.allocate(Usage::Ring, bytes.len() as u64, Name::new(LIST))?;
        if let Some(window) = buffer.window() {
            window.write(0, bytes);
        }
        for (segment, words) in &lists.segments {
            let va = buffer.va() + 4 * words.start as u64;
            if let Some(Segment::Device(packets, _)) = recording.segments.get_mut(*segment) {
                packets.push(pm4_buffer(ENVELOPE, va, words.len() as u32));
            }
        }
        recording.lists = Some(buffer);
        Ok(())
    }

    /// Writes the arguments to a buffer that the device reads; returns its address.
    fn arguments(&mut self, block: &[u8], recording: &mut Recording) -> Result<u64, GpuError> {
        if block.is_empty() {
            return Ok(0);
        }
        let buffer = self.device.allocate(Usage::Kernarg, block.len() as u64, Name::new("arguments"))?;
        if let Some(window) = buffer.window() {
            window.write(0, block);
        }
        let base = buffer.va();
        recording.arguments = Some(buffer);
        Ok(base)
    }
}

/// Header of the packet that runs a list: it waits for everything and makes everything visible. The list does the
/// acquire once more.
const ENVELOPE: Header =
    Header { kind: PacketKind::Vendor, barrier: true, acquire: Scope::System, release: Scope::System };

/// The name of buffers with lists.
const LIST: &str = "PM4 lists";

/// Pm4Target of a recording until they have a place in memory.
struct Pm4Lists {
    /// Packets instead where there is nothing.
    with: Option<Pm4Target>,
    words: Vec<u32>,
    /// The segment of each list, and its words.
    segments: Vec<(usize, Range<usize>)>,
}

impl Pm4Lists {
    /// The packets of a list of dispatches; none yet for what becomes a PM4 list of the segment.
    fn encode(&mut self, list: &Recorder, segment: usize) -> Result<Vec<Packet>, GpuError> {
        let Some(Pm4Target { isa, started }) = self.with else {
            let mut packets = alloc::vec![Packet::INVALID; list.list().len()];
            list.encode_aql(&mut packets)?;
            return Ok(packets);
        };
        // Each begins a cache line of its own.
        let start = self.words.len().next_multiple_of(16);
        self.words.resize(start + list.most_pm4_words(), 0);
        let used = list.encode_pm4_counted(isa, started, &mut self.words[start..])?;
        self.words.truncate(start + used);
        self.segments.push((segment, start..start + used));
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_step_covers_a_little_more() {
        let cases =
            [(0, 32), (1, 32), (33, 64), (256, 256), (257, 320), (1000, 1024), (4097, 5120), (9999, 8192)];
        for (positions, expected) in cases {
            assert_eq!(covered(positions, 256), expected, "{positions}");
        }
    }
}
