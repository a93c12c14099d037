//! The engine's state, and how requests enter and leave it. Steps are in `step`.

use super::error::EngineError;
use super::event::{FinishReason, Nanos};
use super::plans::StepPlans;
use super::request::{Request, SubmitError};
use super::state::RequestState;
use crate::backend::Backend;
use crate::heap::{self, Heap, Vec};
use crate::kv::{KvManager, PageHash};
use crate::model::Model;
use crate::plan::{GroupId, PageId, pages_of};
use crate::sample::{Sampler, SamplerScope, Scratch};
use crate::scheduler::{Config, NewSequence, RequestId, Scheduler};
use crate::token::TokenId;

/// Serves requests on one model and one backend.
pub struct Engine<'m, 'a, B> {
    pub(super) model: &'m Model<'a>,
    pub(super) backend: B,
    pub(super) heap: Heap<'m>,
    /// Tokens that end a turn, ascending.
    pub(super) end_tokens: Vec<'m, TokenId>,
    pub(super) plans: StepPlans<'m>,
    pub(super) scheduler: Scheduler<'m, RequestState<'m>>,
    pub(super) scratch: Scratch<'m>,
    /// The scheduler's last batch, while the backend runs it.
    pub(super) in_flight: Option<InFlight>,
}

/// Progress of the batch that the backend runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// Number of steps whose output has not come yet; 1 unless it is a multi-step batch.
    pub(super) steps_left: u32,
    pub(super) submitted: Nanos,
}

impl<'m, 'a, B: Backend> Engine<'m, 'a, B> {
    /// An engine without requests. `backend` has at least the pages of [`Config::kv_pages`]; `end_tokens` are those that
    /// end a turn.
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
        // The largest things last: the temporary memory of planning is then never on top of them.
        let mut plans = StepPlans::new(&config, model, heap)?;
        let mut end_tokens = heap::copied(heap, end_tokens)?;
        end_tokens.sort_unstable();
        let mut kv = KvManager::new(config.kv_pools(model.groups.iter().map(|group| group.window)), heap)?;
        if model.state.is_some() {
            kv.add_states(config.states())?;
            backend.reserve_states(config.states()).map_err(EngineError::Backend)?;
        }
        let scheduler = Scheduler::new(config, model.groups.len(), kv, heap)?;
        let scratch = Scratch::new(model.vocabulary as usize, heap)?;
        plans.reserve(&mut backend).map_err(EngineError::Backend)?;
        plans.add_multi_step(&mut backend, &config, model, heap)?;
        Ok(Self { model, backend, heap, end_tokens, plans, scheduler, scratch, in_flight: None })
    }

    /// The limits that it was made for.
    pub fn config(&self) -> &Config {
        self.scheduler.config()
    }

    /// The backend that runs the steps.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The model that it serves.
    pub fn model(&self) -> &'m Model<'a> {
        self.model
    }

    /// The KV pages and their states.
    pub fn kv(&self) -> &KvManager<'m> {
        self.scheduler.kv()
    }

    /// The pages of each live request in a KV group, in order of position; requests in order of arrival, those that wait
    /// without pages.
    pub fn tables(&self, group: GroupId) -> impl Iterator<Item = (RequestId, &[PageId])> {
        let live = self.scheduler.sequences().iter();
        live.map(move |live| (live.id(), self.kv().table(live.pages(), group)))
    }

    /// As [`KvManager::set_hash`]: outputs stay the same, even if many hashes are equal.
    pub fn set_page_hash(&mut self, hash: PageHash) {
        self.scheduler.kv_mut().set_hash(hash);
    }

    /// Number of live requests, running and waiting.
    pub fn live(&self) -> usize {
        self.scheduler.sequences().len()
    }

    /// Accepts a request. All memory that it needs besides pages is reserved now; pages when it is admitted.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing has changed then.
    pub fn submit(&mut self, request: &Request<'_>, now: Nanos) -> Result<(), SubmitError> {
        let context = self.config().context;
        let params = &request.params;
        let prompt = self.check_text(request.prompt)?;
        let wanted = prompt.saturating_add(params.max_tokens);
        let limit = wanted.min(context);
        self.check_pages(limit)?;
        let mut tokens = heap::with_capacity(self.heap, limit as usize)?;
        tokens.extend_from_slice(request.prompt);
        let scope = SamplerScope {
            // A seed gives the same output in every request; hosts choose different seeds for different ones.
            request: 0,
            vocab_len: self.model.vocabulary as usize,
            context_len: limit as usize,
            breakers: params.dry_breakers,
        };
        let mut sampler =
            Sampler::new(&params.sampler, params.bias, scope, self.heap).map_err(SubmitError::Sampler)?;
        request.prompt.iter().for_each(|&token| sampler.accept(token));
        let state = RequestState {
            limited_by_context: wanted > context,
            ignore_end: params.ignore_end,
            ..RequestState::new(sampler, prompt, now)
        };
        let skip_cache = params.skip_prefix_cache;
        let new = NewSequence { id: request.id, tokens, limit, pooling: false, skip_cache, state };
        Ok(self.scheduler.submit(new)?)
    }

    /// Checks that a text can be accepted now and returns its number of tokens.
    pub(super) fn check_text(&self, text: &[TokenId]) -> Result<u32, SubmitError> {
        let context = self.config().context;
        let count = match u32::try_from(text.len()) {
            Ok(0) => return Err(SubmitError::EmptyPrompt),
            Ok(tokens) if tokens < context => tokens,
            _ => return Err(SubmitError::PromptTooLong { tokens: text.len(), context }),
        };
        let vocabulary = self.model.vocabulary;
        if let Some(&token) = text.iter().find(|token| token.0 >= vocabulary) {
            return Err(SubmitError::Token { token, vocabulary });
        }
        if self.scheduler.is_full() { Err(SubmitError::Busy) } else { Ok(count) }
    }

    /// Checks that there are pages for a sequence of `limit` tokens if it runs alone.
    pub(super) fn check_pages(&self, limit: u32) -> Result<(), SubmitError> {
        let (needed, total) = (pages_of(limit), self.kv().total());
        if needed > total { Err(SubmitError::NeverFits { needed, total }) } else { Ok(()) }
    }

    /// Suspends the device until there is work again. Does nothing while there are requests.
    ///
    /// # Errors
    /// As [`Backend::suspend`].
    pub fn suspend(&mut self) -> Result<(), B::Error> {
        let is_idle = self.live() == 0 && self.in_flight.is_none();
        if is_idle { self.backend.suspend() } else { Ok(()) }
    }

    /// Ends a request at the next poll. Unknown requests are ignored: they may just have finished.
    pub fn cancel(&mut self, request: RequestId) {
        self.finish(request, FinishReason::Cancelled);
    }

    /// Ends a request at the next poll for a reason that the host has found. Unknown requests are ignored.
    pub fn finish(&mut self, request: RequestId, reason: FinishReason) {
        if let Some(live) = self.scheduler.get_mut(request) {
            live.state.ending = Some(reason);
        }
    }
}
