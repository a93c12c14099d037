//! Buffers that stay on the device as long as the model: weights, vectors, rotary tables, keys and values, states.

use alloc::vec::Vec;
use doorbell_core::backend::KvType;
use doorbell_core::model::{Model, Rope};
use doorbell_core::plan::{GroupId, KvPages, PAGE_TOKENS};
use doorbell_kernels::{KvLayout, KvPool};
use doorbell_kfd::memory::{Buffer, Name};

use crate::convert::Stored;
use crate::device::GpuDevice;
use crate::error::GpuError;
use crate::memory_needs::{LINE, rope_bytes, vector_bytes};

/// One group's keys and values.
pub(crate) struct KvBuffers {
    pub(crate) keys: Buffer,
    pub(crate) values: Buffer,
}

/// The buffers, and addresses by id.
#[derive(Default)]
pub(crate) struct ModelBuffers {
    matrices: Vec<Buffer>,
    shared: Vec<Buffer>,
    pub(crate) pools: Vec<KvBuffers>,
    pub(crate) weights: Vec<u64>,
    pub(crate) vectors: Vec<u64>,
    pub(crate) ropes: Vec<u64>,
    pub(crate) addresses: Vec<KvPool>,
    /// Recurrent states, `[states, layers, floats]`.
    pub(crate) states: Option<Buffer>,
}

impl ModelBuffers {
    /// Uploads what is to be `loaded` of `model` in the types that `kept` says; called on an empty store, whose buffers
    /// are to be freed whether it succeeds or not.
    pub(crate) fn load(
        &mut self,
        device: &mut GpuDevice<'_>,
        model: &Model<'_>,
        kept: &Model<'_>,
        loaded: &[bool],
        kv: KvType,
        pages: KvPages,
    ) -> Result<(), GpuError> {
        let usage = device.usage();
        for ((weight, kept), loaded) in model.weights.iter().zip(&kept.weights).zip(loaded) {
            if !loaded {
                // Nothing reads it.
                self.weights.push(0);
                continue;
            }
            let name =
                Name::format(format_args!("{}", core::str::from_utf8(weight.name).unwrap_or("weight")));
            let buffer = device.allocate(usage, kept.bytes(), name)?;
            self.weights.push(buffer.va());
            self.matrices.push(buffer);
            let Some(buffer) = self.matrices.last() else { continue };
            device.copy(buffer, 0, &mut Stored::new(weight, kept.ty), kept.bytes())?;
        }
        self.load_vectors(device, model)?;
        self.load_ropes(device, model, pages.table())?;
        let reachable = device.reachable_usage();
        for (id, group) in (0..).map(GroupId).zip(&kept.groups) {
            let bytes = |layout: KvLayout| layout.page_bytes().saturating_mul(pages.of(id).into());
            let name = |what: &str| Name::format(format_args!("{what} of group {}", id.0));
            let keys = device.allocate(reachable, bytes(KvLayout::keys(group, kv)), name("keys"))?;
            let values = match device.allocate(reachable, bytes(KvLayout::values(group, kv)), name("values"))
            {
                Ok(values) => values,
                Err(error) => {
                    device.free(keys);
                    return Err(error);
                }
            };
            self.addresses.push(KvPool { keys: keys.va(), values: values.va() });
            self.pools.push(KvBuffers { keys, values });
        }
        Ok(())
    }

    /// Takes the memory of recurrent states in place of what there was; true if their address changed.
    pub(crate) fn reserve_states(
        &mut self,
        device: &mut GpuDevice<'_>,
        bytes: u64,
    ) -> Result<bool, GpuError> {
        if self.states.as_ref().map_or(0, Buffer::bytes) >= bytes {
            return Ok(false);
        }
        if let Some(old) = self.states.take() {
            device.free(old);
        }
        self.states =
            Some(device.allocate(device.reachable_usage(), bytes, Name::new("recurrent states"))?);
        Ok(true)
    }

    fn load_vectors(&mut self, device: &mut GpuDevice<'_>, model: &Model<'_>) -> Result<(), GpuError> {
        let buffer = device.allocate(device.usage(), vector_bytes(model), Name::new("norms and biases"))?;
        let base = buffer.va();
        self.shared.push(buffer);
        let mut bytes = Vec::new();
        for vector in &model.vectors {
            self.vectors.push(base + bytes.len() as u64);
            bytes.extend_from_slice(bytemuck::cast_slice(vector));
            bytes.resize(bytes.len().next_multiple_of(LINE as usize), 0);
        }
        match self.shared.last() {
            Some(buffer) if !bytes.is_empty() => device.write(buffer, 0, &bytes),
            _ => Ok(()),
        }
    }

    fn load_ropes(
        &mut self,
        device: &mut GpuDevice<'_>,
        model: &Model<'_>,
        pages: u32,
    ) -> Result<(), GpuError> {
        let buffer = device.allocate(device.usage(), rope_bytes(model, pages), Name::new("rotary tables"))?;
        let base = buffer.va();
        self.shared.push(buffer);
        let mut at = 0;
        for rope in &model.ropes {
            self.ropes.push(base + at);
            for page in 0..pages {
                let bytes = angles(rope, page);
                let Some(buffer) = self.shared.last().filter(|_| !bytes.is_empty()) else { break };
                device.write(buffer, at, &bytes)?;
                at += bytes.len() as u64;
            }
            at = at.next_multiple_of(LINE);
        }
        Ok(())
    }

    /// Gives all buffers back.
    pub(crate) fn free(&mut self, device: &mut GpuDevice<'_>) {
        let pools = self.pools.drain(..).flat_map(|pool| [pool.keys, pool.values]);
        let states = self.states.take();
        for buffer in self.matrices.drain(..).chain(self.shared.drain(..)).chain(pools).chain(states) {
            device.free(buffer);
        }
    }
}

/// A page of a rotary table: `[PAGE_TOKENS, pairs, 2]`, cosine then sine.
fn angles(rope: &Rope<'_>, page: u32) -> Vec<u8> {
    let pairs = rope.frequencies.len();
    let (mut cos, mut sin) = (alloc::vec![0.0; pairs], alloc::vec![0.0; pairs]);
    let mut bytes = Vec::with_capacity(PAGE_TOKENS * pairs * 8);
    for within in 0..PAGE_TOKENS as u32 {
        rope.angles(page * PAGE_TOKENS as u32 + within, &mut cos, &mut sin);
        for (cos, sin) in cos.iter().zip(&sin) {
            bytes.extend_from_slice(&cos.to_le_bytes());
            bytes.extend_from_slice(&sin.to_le_bytes());
        }
    }
    bytes
}
