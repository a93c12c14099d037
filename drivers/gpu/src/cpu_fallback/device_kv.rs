//! Keys, values and recurrent states in device memory, in the layout of the kernels, as the reference interpreter reads
//! and writes them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use doorbell_core::backend::KvType;
use doorbell_core::model::{KvGroup, Model, StateShape};
use doorbell_core::plan::{Epilogue, KvSlot, Op, PAGE_TOKENS, PageId, StateId, StateSlot};
use doorbell_core::quant::{self, Activation, Type};
use doorbell_core::reference::{Cached, KvStore};
use doorbell_kernels::KvLayout;
use doorbell_kfd::memory::Buffer;
use half::f16;

use super::step_memory::StepMemory;
use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::model_buffers::{KvBuffers, ModelBuffers};

/// The keys, values and recurrent states of all sequences on the device.
pub(crate) struct DeviceKv<'c> {
    buffers: &'c [KvBuffers],
    groups: &'c [KvGroup],
    kv: KvType,
    /// The vector that was written last.
    last: Option<Written<'c>>,
    states: Option<(&'c Buffer, StateShape)>,
    /// States of layers that are in use here, by state and layer.
    fetched: BTreeMap<(u32, u16), Vec<f32>>,
}

/// A vector in device memory.
struct Written<'c> {
    buffer: &'c Buffer,
    offset: u64,
    bytes: Vec<u8>,
}

impl<'c> DeviceKv<'c> {
    /// `kept` describes what the buffers are laid out for.
    pub(crate) fn new(store: &'c ModelBuffers, kept: &'c Model<'_>, kv: KvType) -> Self {
        let states = store.states.as_ref().zip(kept.state);
        let (buffers, groups) = (&store.pools, &kept.groups);
        Self { buffers, groups, kv, last: None, states, fetched: BTreeMap::new() }
    }

    fn layout(&self, which: Cached, slot: KvSlot) -> (&'c Buffer, KvLayout) {
        let (group, buffers) = (&self.groups[slot.group.index()], &self.buffers[slot.group.index()]);
        match which {
            Cached::Key => (&buffers.keys, KvLayout::keys(group, self.kv)),
            Cached::Value => (&buffers.values, KvLayout::values(group, self.kv)),
        }
    }

    /// Byte of a layer's part of a state.
    fn state_offset(&self, state: u32, layer: u16) -> u64 {
        let cells = self.states.map(|(_, shape)| shape.layer(StateId(state), StateSlot(layer)).start);
        4 * cells.unwrap_or(0) as u64
    }

    /// Writes back states, and the last vector once more, by the path that makes all of them visible to the device.
    pub(crate) fn flush(&mut self, device: &mut GpuDevice<'_>) -> Result<(), GpuError> {
        for ((state, layer), floats) in core::mem::take(&mut self.fetched) {
            let Some((buffer, _)) = self.states else { continue };
            device.write(buffer, self.state_offset(state, layer), bytemuck::cast_slice(&floats))?;
        }
        match self.last.take() {
            Some(Written { buffer, offset, bytes }) => device.write(buffer, offset, &bytes),
            None => Ok(()),
        }
    }

    /// The state of the batch's first run behind an operation, as bits of f32: inputs of the run's last
    /// positions and the recurrence; `None` if it has no state.
    pub(crate) fn state_after(&mut self, op: &Op, memory: &StepMemory<'_, '_>) -> Option<Vec<u32>> {
        let Op::DeltaNet(op) = op else { return None };
        let run = memory.batch.runs.first()?;
        let state = *memory.batch.tables.states.get(run.sequence as usize)?;
        let (taps, channels) = (op.shape.taps, op.shape.channels());
        let floats = self.state(state, op.state);
        let recurrent = floats.get(op.shape.convolution_state()..)?;
        let mut words: Vec<u32> = recurrent.iter().map(|cell| cell.to_bits()).collect();
        for position in (run.position..run.position + run.rows).rev().take(taps as usize) {
            let row = (position % taps) as usize * channels;
            words.extend(floats[row..row + channels].iter().map(|cell| cell.to_bits()));
        }
        Some(words)
    }

    /// Keys and values of a group that an operation has written for the batch's rows, as bits of f32; `None` if it
    /// writes none.
    pub(crate) fn written_by(&self, op: &Op, group: usize, memory: &StepMemory<'_, '_>) -> Option<Vec<u32>> {
        let Op::Project(op) = op else { return None };
        let shape = &self.groups[group];
        let (batch, rows) = (memory.batch, memory.plan.tensor(op.input).rows);
        let mut words = Vec::new();
        for part in &op.parts {
            let (which, slot, dim) = match part.epilogue {
                Epilogue::Key { kv, .. } => (Cached::Key, kv, shape.key_dim),
                Epilogue::Value { kv, .. } => (Cached::Value, kv, shape.value_dim),
                _ => continue,
            };
            if slot.group.index() != group {
                continue;
            }
            for row in 0..memory.rows(op.input) {
                // The batch has been checked.
                let (sequence, position) = batch.locate(batch.batch_row(rows, row)).unwrap_or_default();
                let pages = batch.tables.of(sequence, slot.group);
                let mut vector = alloc::vec![0.0; dim as usize];
                for head in 0..shape.heads as usize {
                    self.read(which, slot, pages, position, head, &mut vector);
                    words.extend(vector.iter().map(|value| value.to_bits()));
                }
            }
        }
        (!words.is_empty()).then_some(words)
    }
}

/// Byte at which the vector of a head starts.
fn offset(layout: KvLayout, slot: KvSlot, pages: &[PageId], position: u32, head: usize) -> u64 {
    let (page, within) = (position as usize / PAGE_TOKENS, position as usize % PAGE_TOKENS);
    // The batch has been checked: the page exists.
    let page = pages.get(page).map_or(0, |page| u64::from(page.0));
    page * layout.page_bytes()
        + u64::from(slot.layer) * layout.layer_bytes()
        + head as u64 * layout.head_bytes()
        + within as u64 * layout.row_bytes()
}

/// The bytes of a vector in its KV type.
fn encode(layout: KvLayout, values: &[f32]) -> Vec<u8> {
    match layout.kv {
        KvType::F32 => bytemuck::cast_slice(values).to_vec(),
        KvType::F16 => values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect(),
        KvType::Q8_0 => {
            let mut bytes = alloc::vec![0; layout.row_bytes() as usize];
            // The vector is made of whole blocks and has their bytes, so this cannot fail.
            let _ = Activation::Q8_0.quantize(values, &mut bytes);
            bytes
        }
    }
}

fn decode(layout: KvLayout, bytes: &[u8], to: &mut [f32]) {
    match layout.kv {
        KvType::F32 => {
            let words = bytes.as_chunks().0;
            to.iter_mut().zip(words).for_each(|(to, word)| *to = f32::from_le_bytes(*word));
        }
        KvType::F16 => {
            let words = bytes.as_chunks().0;
            to.iter_mut().zip(words).for_each(|(to, word)| *to = f16::from_le_bytes(*word).to_f32());
        }
        KvType::Q8_0 => {
            // As in `encode`.
            let _ = quant::dequantize(Type::Q8_0, bytes, to);
        }
    }
}

impl KvStore for DeviceKv<'_> {
    fn state(&mut self, state: StateId, slot: StateSlot) -> &mut [f32] {
        let Some((buffer, shape)) = self.states else { return &mut [] };
        let at = self.state_offset(state.0, slot.0) as usize;
        self.fetched.entry((state.0, slot.0)).or_insert_with(|| {
            let mut floats = alloc::vec![0.0; shape.delta.state()];
            if let Some(window) = buffer.window() {
                window.read(at, bytemuck::cast_slice_mut(&mut floats));
            }
            floats
        })
    }

    fn write(&mut self, which: Cached, slot: KvSlot, pages: &[PageId], position: u32, heads: &[f32]) {
        let (buffer, layout) = self.layout(which, slot);
        let group = &self.groups[slot.group.index()];
        let dim = if which == Cached::Key { group.key_dim } else { group.value_dim };
        for (head, values) in heads.chunks_exact(dim as usize).enumerate() {
            let (offset, bytes) = (offset(layout, slot, pages, position, head), encode(layout, values));
            if let Some(window) = buffer.window() {
                window.write(offset as usize, &bytes);
            }
            self.last = Some(Written { buffer, offset, bytes });
        }
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
        let (buffer, layout) = self.layout(which, slot);
        let mut bytes = alloc::vec![0; layout.row_bytes() as usize];
        if let Some(window) = buffer.window() {
            window.read(offset(layout, slot, pages, position, head) as usize, &mut bytes);
        }
        decode(layout, &bytes, to);
    }
}
