//! The engine's state, and how requests enter and leave it.

use super::config::{Config, EngineError, pages_of};
use super::event::{FinishReason, Nanos};
use super::reading::PoolingPlans;
use super::request::{PoolingOutput, Request, RequestId, SubmitError};
use super::sequence::Sequence;
use crate::backend::Backend;
use crate::heap::{self, Heap, OutOfMemory, Vec};
use crate::kv::{BlockPool, PageHash};
use crate::model::Model;
use crate::plan::{HeadResult, PageId, PageSpan, Plan, RowRun};
use crate::sample::{Sampler, SamplerScope, Scratch};
use crate::scheduler::Pacing;
use crate::token::TokenId;

/// Serves requests on one model and one backend.
pub struct Engine<'m, 'a, B> {
    pub(super) config: Config,
    pub(super) model: &'m Model<'a>,
    pub(super) backend: B,
    pub(super) heap: Heap<'m>,
    /// Tokens that end a turn, ascending.
    pub(super) end_tokens: Vec<'m, TokenId>,
    pub(super) decode_plan: Plan<'m>,
    pub(super) full_plan: Plan<'m>,
    pub(super) pooling_plans: Option<PoolingPlans<'m>>,
    /// Of steps that the device feeds itself, where it can.
    pub(super) chain_plan: Option<Plan<'m>>,
    /// Live requests, in order of arrival.
    pub(super) sequences: Vec<'m, Sequence<'m>>,
    pub(super) pool: BlockPool<'m>,
    pub(super) pacing: Pacing,
    pub(super) scratch: Scratch<'m>,
    pub(super) step: StepBuffers<'m>,
}

/// The inputs of the step in flight, kept so that forming a batch allocates nothing.
pub(super) struct StepBuffers<'m> {
    pub(super) in_flight: bool,
    /// Steps of the chain in flight, and those of them whose tokens have not come yet; 1 without a chain.
    pub(super) steps: u32,
    pub(super) left: u32,
    pub(super) submitted: Nanos,
    /// What is wanted, if the step reads.
    pub(super) reading: Option<PoolingOutput>,
    /// Whether the step before read.
    pub(super) read_last: bool,
    pub(super) tokens: Vec<'m, TokenId>,
    pub(super) runs: Vec<'m, RowRun>,
    pub(super) outputs: Vec<'m, u32>,
    /// The request of each run.
    pub(super) requests: Vec<'m, RequestId>,
    /// The request of each output row.
    pub(super) owners: Vec<'m, RequestId>,
    pub(super) pages: Vec<'m, PageId>,
    pub(super) spans: Vec<'m, PageSpan>,
}

impl<'m> StepBuffers<'m> {
    fn new(config: &Config, groups: usize, heap: Heap<'m>) -> Result<Self, OutOfMemory> {
        let sequences = config.sequences as usize;
        Ok(Self {
            in_flight: false,
            steps: 1,
            left: 0,
            submitted: Nanos(0),
            reading: None,
            read_last: false,
            tokens: heap::with_capacity(heap, config.widest_step() as usize)?,
            runs: heap::with_capacity(heap, sequences)?,
            outputs: heap::with_capacity(heap, sequences.max(config.pooling_rows as usize))?,
            requests: heap::with_capacity(heap, sequences)?,
            owners: heap::with_capacity(heap, sequences)?,
            pages: heap::with_capacity(heap, config.full_pages() as usize)?,
            spans: heap::with_capacity(heap, sequences.saturating_mul(groups))?,
        })
    }

    /// Bytes of the buffers under these limits.
    pub(super) fn bytes(config: &Config, groups: usize) -> usize {
        let per_sequence = size_of::<RowRun>() + size_of::<u32>() + 2 * size_of::<RequestId>();
        let per_sequence = per_sequence.saturating_add(size_of::<PageSpan>().saturating_mul(groups));
        let rows = size_of::<TokenId>().saturating_mul(config.widest_step() as usize);
        let read =
            (config.pooling_rows.saturating_sub(config.sequences) as usize).saturating_mul(size_of::<u32>());
        let pages = size_of::<PageId>().saturating_mul(config.full_pages() as usize);
        per_sequence
            .saturating_mul(config.sequences as usize)
            .saturating_add(rows)
            .saturating_add(pages)
            .saturating_add(read)
    }
}

impl<'m, 'a, B: Backend> Engine<'m, 'a, B> {
    /// An engine without requests. `backend` has at least `config.pages` pages per group; `end_tokens` are those
    /// that end a turn.
    ///
    /// # Errors
    /// [`EngineError`] when limits are unusable or memory is short.
    pub fn new(
        model: &'m Model<'a>,
        mut backend: B,
        config: Config,
        end_tokens: &[TokenId],
        heap: Heap<'m>,
    ) -> Result<Self, EngineError<B::Error>> {
        let limits = [config.context, config.sequences, config.batch_rows, config.pages];
        let live = config.sequences.checked_add(config.waiting);
        let usable = limits.iter().all(|&limit| limit > 0 && limit < u32::MAX) && live.is_some();
        if !usable {
            return Err(EngineError::Config(config));
        }
        // The largest things last: what is needed on the way to a plan is then never on top of them.
        let decode_plan = model.plan(config.decode_shape(), HeadResult::Logits, heap)?;
        let full_plan = model.plan(config.largest_shape(), HeadResult::Logits, heap)?;
        let pooling_plans = PoolingPlans::new(&config, model, heap)?;
        let mut end_tokens = heap::copied(heap, end_tokens)?;
        end_tokens.sort_unstable();
        let live = config.sequences as usize + config.waiting as usize;
        let step = StepBuffers::new(&config, model.groups.len(), heap)?;
        let sequences = heap::with_capacity(heap, live)?;
        let pool = BlockPool::new(config.pages, heap)?;
        let scratch = Scratch::new(model.vocabulary as usize, heap)?;
        backend.reserve(&full_plan).map_err(EngineError::Backend)?;
        backend.reserve(&decode_plan).map_err(EngineError::Backend)?;
        for plan in pooling_plans.iter().flat_map(PoolingPlans::both) {
            backend.reserve(plan).map_err(EngineError::Backend)?;
        }
        let chain_plan = chain_plan(&mut backend, model, &config, heap)?;
        let pacing = Pacing::new(config.step_target);
        Ok(Self {
            config,
            model,
            backend,
            heap,
            end_tokens,
            decode_plan,
            full_plan,
            pooling_plans,
            chain_plan,
            sequences,
            pool,
            pacing,
            scratch,
            step,
        })
    }

    /// The limits it was made for.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What computes.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The model it serves.
    pub fn model(&self) -> &'m Model<'a> {
        self.model
    }

    /// The KV pages and who holds them.
    pub fn pool(&self) -> &BlockPool<'m> {
        &self.pool
    }

    /// The pages of each live request in order of position, in order of arrival; none while it waits for a place.
    pub fn tables(&self) -> impl Iterator<Item = (RequestId, &[PageId])> {
        self.sequences.iter().map(|sequence| (sequence.id, &sequence.pages[..]))
    }

    /// As [`BlockPool::hash_by`], before the first request: answers stay the same, however many hashes are equal.
    pub fn set_page_hash(&mut self, hash: PageHash) {
        self.pool.set_hash(hash);
    }

    /// Live requests: running and waiting.
    pub fn live(&self) -> usize {
        self.sequences.len()
    }

    /// Takes a request. What it needs besides pages is reserved now; pages when it gets its place.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit(&mut self, request: &Request<'_>, now: Nanos) -> Result<(), SubmitError> {
        let context = self.config.context;
        let params = &request.params;
        let prompt = self.acceptable(request.prompt)?;
        let wanted = prompt.saturating_add(params.max_tokens);
        let limit = wanted.min(context);
        let mut tokens = heap::with_capacity(self.heap, limit as usize)?;
        tokens.extend_from_slice(request.prompt);
        let needed = pages_of(limit);
        let total = self.pool.total();
        if needed > total {
            return Err(SubmitError::NeverFits { needed, total });
        }
        let pages = heap::with_capacity(self.heap, needed as usize)?;
        let scope = SamplerScope {
            // A seed gives the same answer in whichever request; hosts choose different seeds for different ones.
            request: 0,
            vocab_len: self.model.vocabulary as usize,
            context_len: limit as usize,
            breakers: params.dry_breakers,
        };
        let mut sampler =
            Sampler::new(&params.sampler, params.bias, scope, self.heap).map_err(SubmitError::Sampler)?;
        request.prompt.iter().for_each(|&token| sampler.accept(token));
        self.sequences.push(Sequence {
            limited_by_context: wanted > context,
            ignore_end: params.ignore_end,
            skip_cache: params.skip_prefix_cache,
            ..Sequence::waiting(request.id, (tokens, pages), limit, sampler, now)
        });
        Ok(())
    }

    /// The number of tokens of a text that can be taken now.
    pub(super) fn acceptable(&self, text: &[TokenId]) -> Result<u32, SubmitError> {
        let context = self.config.context;
        let count = match u32::try_from(text.len()) {
            Ok(0) => return Err(SubmitError::EmptyPrompt),
            Ok(tokens) if tokens < context => tokens,
            _ => return Err(SubmitError::PromptTooLong { tokens: text.len(), context }),
        };
        let vocabulary = self.model.vocabulary;
        if let Some(&token) = text.iter().find(|token| token.0 >= vocabulary) {
            return Err(SubmitError::Token { token, vocabulary });
        }
        if self.sequences.len() as u64 >= u64::from(self.config.sequences) + u64::from(self.config.waiting) {
            return Err(SubmitError::Busy);
        }
        Ok(count)
    }

    /// Lets the device rest until there is work again. Does nothing while requests are served.
    ///
    /// # Errors
    /// As [`Backend::suspend`].
    pub fn suspend(&mut self) -> Result<(), B::Error> {
        let is_idle = self.sequences.is_empty() && !self.step.in_flight;
        if is_idle { self.backend.suspend() } else { Ok(()) }
    }

    /// Ends a request at the next poll. Unknown requests are ignored: they may just have finished.
    pub fn cancel(&mut self, request: RequestId) {
        self.finish(request, FinishReason::Cancelled);
    }

    /// Ends a request at the next poll for a reason that the host has found. Unknown requests are ignored.
    pub fn finish(&mut self, request: RequestId, reason: FinishReason) {
        if let Some(sequence) = self.sequences.iter_mut().find(|sequence| sequence.id == request) {
            sequence.ending = Some(reason);
        }
    }
}

/// The plan of steps that the device feeds itself, reserved; `None` where it can't.
fn chain_plan<'m, B: Backend>(
    backend: &mut B,
    model: &Model<'_>,
    config: &Config,
    heap: Heap<'m>,
) -> Result<Option<Plan<'m>>, EngineError<B::Error>> {
    if !backend.supports_multi_step() {
        return Ok(None);
    }
    let plan = model.plan(config.decode_shape(), HeadResult::ArgMax, heap)?;
    backend.reserve(&plan).map_err(EngineError::Backend)?;
    Ok((backend.max_steps(&plan) > 1).then_some(plan))
}
