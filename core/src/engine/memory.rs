//! The memory that an engine needs, part by part, before it is reserved.

use super::plans::PoolingPlans;
use super::state::RequestState;
use crate::backend::{KvError, KvType};
use crate::heap::Heap;
use crate::kv::StatePool;
use crate::model::Model;
use crate::plan::{HeadResult, KvPages, PAGE_TOKENS, PlanError, pages_of};
use crate::sample::{Sampler, SamplerParams, Scratch};
use crate::scheduler::{Config, Scheduler, window_pages};
use crate::token::TokenId;

/// Bytes that an engine needs. [`Config::memory`] computes all parts but those that say "0 until added".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Memory {
    /// Weights, as the file holds them. Not of the heap.
    pub weights: u64,
    /// Tables of keys and tensors: [`Gguf::heap_bytes`](crate::gguf::Gguf::heap_bytes), 0 until added.
    pub file: u64,
    /// Tables of tokens and merges: [`Tokenizer::heap_bytes`](crate::token::Tokenizer::heap_bytes), 0 until added.
    pub tokenizer: u64,
    /// The bound model.
    pub model: u64,
    /// Keys and values.
    pub kv: u64,
    /// Recurrent states of running sequences and checkpoints.
    pub states: u64,
    /// Activations of the largest step.
    pub activations: u64,
    /// Logits and the sampler's buffers.
    pub outputs: u64,
    /// Plans, page pools and tables, and requests at full context.
    pub scheduling: u64,
    /// The token windows of the samplers: [`Config::sampling_bytes`], 0 until added.
    pub sampling: u64,
    /// The backend's memory beside keys, values, activations and logits, 0 until added.
    pub scratch: u64,
}

impl Memory {
    /// All bytes.
    pub fn total(&self) -> u64 {
        self.heap().saturating_add(self.weights)
    }

    /// Bytes that come from the heap.
    pub fn heap(&self) -> u64 {
        let tables = [self.file, self.tokenizer, self.model, self.scheduling];
        let buffers = [self.kv, self.states, self.activations, self.outputs, self.sampling, self.scratch];
        tables.into_iter().chain(buffers).fold(0, u64::saturating_add)
    }
}

impl Config {
    /// Bytes that the samplers of all requests take if each has these parameters: up to 8 for every token of the
    /// context with penalties or DRY, none without. Biases and breakers come on top.
    pub fn sampling_bytes(&self, params: &SamplerParams) -> u64 {
        let live = u64::from(self.sequences).saturating_add(self.waiting.into());
        live.saturating_mul(Sampler::bytes(params, self.context as usize) as u64)
    }

    /// The KV pages that a backend has to keep for a model.
    pub fn kv_pages(&self, model: &Model<'_>) -> KvPages {
        let pools = self.kv_pools(model.groups.iter().map(|group| group.window));
        pools.kv_pages(pages_of(self.context))
    }

    /// Allows as many checkpoints as fit into `bytes`, but no more than `most`, if the model has recurrent states or windows.
    ///
    /// # Errors
    /// [`KvError`] if the model's heads can't be kept so.
    pub fn set_checkpoints(
        &mut self,
        model: &Model<'_>,
        kv: KvType,
        bytes: u64,
        most: u32,
    ) -> Result<(), KvError> {
        kv.check(model)?;
        let windows = model.groups.iter().filter_map(|group| {
            let tokens = u64::from(window_pages(group.window?)).saturating_mul(PAGE_TOKENS as u64);
            Some(tokens.saturating_mul(group.bytes_per_token(kv)? as u64))
        });
        let state = model.state.map_or(0, |state| state.bytes() as u64);
        let checkpoint = windows.fold(state, u64::saturating_add);
        let fitting = bytes.checked_div(checkpoint).unwrap_or(0);
        self.checkpoints = u32::try_from(fitting).unwrap_or(u32::MAX).min(most);
        Ok(())
    }

    /// Bytes needed for a model under these limits. The plans are made for it and freed again.
    ///
    /// # Errors
    /// [`PlanError`] when a step can't be planned, or the model's heads can't be kept so.
    pub fn memory(&self, model: &Model<'_>, kv: KvType, heap: Heap<'_>) -> Result<Memory, PlanError> {
        let decode = model.plan(self.decode_shape(), HeadResult::Logits, heap)?;
        let full = model.plan(self.largest_shape(), HeadResult::Logits, heap)?;
        let pooling = PoolingPlans::new(self, model, heap)?;
        let pooling_arena = pooling.as_ref().map_or(0, PoolingPlans::arena);
        let pools = self.kv_pools(model.groups.iter().map(|group| group.window));
        let scheduling = [
            decode.heap_bytes(),
            full.heap_bytes(),
            pooling.as_ref().map_or(0, PoolingPlans::heap_bytes),
            Scheduler::<RequestState<'_>>::bytes(self, model.groups.len(), &pools),
            model.state.map_or(0, |_| StatePool::bytes(self.states())),
        ];
        let sequences = u64::from(self.sequences);
        let outputs = sequences.max(self.pooling_rows.into());
        let vocabulary = model.vocabulary as usize;
        let results = (vocabulary * size_of::<f32>() + size_of::<TokenId>()) as u64;
        Ok(Memory {
            weights: model.weights.iter().map(|weight| weight.data.len() as u64).sum(),
            model: model.heap_bytes() as u64,
            kv: model.kv_bytes(kv, &self.kv_pages(model))?,
            states: model.state.map_or(0, |state| state.bytes() as u64).saturating_mul(self.states().into()),
            activations: decode.arena.max(full.arena).max(pooling_arena) as u64 * 4,
            outputs: outputs.saturating_mul(results).saturating_add(Scratch::bytes(vocabulary) as u64),
            scheduling: scheduling.into_iter().fold(0, usize::saturating_add) as u64,
            ..Memory::default()
        })
    }
}
