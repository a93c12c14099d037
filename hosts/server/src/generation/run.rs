//! A generation in progress: jobs for the engine's service, and events as they come.

use super::answer::Answer;
use super::event::Event;
use super::options::random_seed;
use super::outcome::Outcome;
use super::request::GenerationRequest;
use super::timings::Timings;
use crate::app::App;
use crate::clients::{ClientId, Share, no_share};
use crate::error::{Failure, FailureKind};
use crate::request_context::RequestContext;
use crate::work_pool::MEDIUM;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use doorbell_core::engine::{FinishReason, Nanos};
use doorbell_core::token::TokenId;
use doorbell_runtime::constrain::{Constraint, GrammarSpec};
use doorbell_runtime::serve::{Finish, Job, Update};
use doorbell_runtime::timings::milliseconds;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Answers in progress. Dropping this cancels them.
pub(crate) struct Generation {
    app: Arc<App>,
    updates: UnboundedReceiver<(usize, Update)>,
    /// Completes when the server gives up unfinished answers. The service hears of that only after the current step,
    /// which may take longer.
    aborted: Pin<Box<dyn Future<Output = ()> + Send>>,
    answers: Vec<Answer>,
    /// Updates to handle before further ones, the next one last.
    postponed: Vec<(usize, Update)>,
    pub(crate) prompt_tokens: usize,
    /// Its part of the client's share of the queue.
    _share: Share<ClientId>,
}

/// Compiles a constraint for each answer, on a thread that serves no sockets. A short grammar may take long.
async fn constraints(
    request: &RequestContext,
    grammar: Option<GrammarSpec>,
    count: u32,
) -> Result<Vec<Constraint>, Failure> {
    let Some(grammar) = grammar else { return Ok(Vec::new()) };
    let app = Arc::clone(&request.app);
    let compile = move || {
        let constraint = |_| app.grammars.constraint(app.model.tokenizer, &grammar);
        Ok((0..count).map(constraint).collect::<Result<Vec<_>, _>>()?)
    };
    request.app.work.run(request.size().max(MEDIUM), compile).await
}

/// Logs an answer: counts of tokens, and what they took.
fn log(outcome: &Outcome) {
    let Timings { cached, generated, times } = outcome.timings();
    tracing::debug!(
        prompt_tokens = outcome.usage.prompt_tokens,
        cached,
        generated,
        first_token_ms = milliseconds(Nanos(times.queue.0.saturating_add(times.prefill.0))).round(),
        prompt_per_second = times.prefill_rate().round(),
        per_second = times.decode_rate().round(),
        reason = ?outcome.reason,
        "generated"
    );
}

impl Drop for Generation {
    fn drop(&mut self) {
        for answer in self.answers.iter().filter(|answer| !answer.is_over() && answer.has_begun()) {
            let Timings { cached, generated, .. } = answer.timings();
            tracing::debug!(prompt_tokens = self.prompt_tokens, cached, generated, "cancelled");
        }
    }
}

impl Generation {
    /// Submits a request and waits until all its answers are accepted, so that a refusal comes before the first byte
    /// of a response.
    pub(crate) async fn begin(context: &RequestContext, request: GenerationRequest) -> Result<Self, Failure> {
        let (app, options) = (&context.app, request.options);
        options.check(app)?;
        app.check_tokens(request.prompt.len())?;
        let seed = options.seed.unwrap_or_else(random_seed);
        let count = options.answers.max(1);
        let limit = app.answers.limit();
        if count > limit {
            return Err(Failure::field("n", format_args!("must be at most {limit}")));
        }
        let share = app.answers.take(context.client, count).ok_or_else(|| no_share(limit))?;
        let mut constraints = constraints(context, request.grammar, count).await?;
        let prompt: Arc<[TokenId]> = request.prompt.into();
        let (sender, updates) = unbounded_channel();
        let mut answers = Vec::new();
        for number in 0..count {
            let index = answers.len();
            let sender = sender.clone();
            let mut params = options.params.clone();
            // the answers of a request differ, and so do those of seeds that are neighbors
            params.sampler.seed = seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let job = Job {
                prompt: Arc::clone(&prompt),
                params,
                stops: Arc::clone(&options.stops),
                special: request.special,
                constraint: constraints.pop(),
                budget: request.budget.clone(),
                slot: options.slot,
                // if the receiver is gone, so is the job's handle
                on_update: Box::new(move |update| _ = sender.send((index, update))),
            };
            let job = app.model.service.submit(job)?;
            answers.push(Answer::new(request.parser.clone(), job, request.one_call));
        }
        let mut aborted = app.aborted.subscribe();
        let aborted = Box::pin(async move { _ = aborted.wait_for(|&aborted| aborted).await });
        let mut generation = Self {
            app: Arc::clone(app),
            updates,
            aborted,
            answers,
            postponed: Vec::new(),
            prompt_tokens: prompt.len(),
            _share: share,
        };
        generation.wait_until_accepted().await?;
        Ok(generation)
    }

    /// Number of answers.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Waits until all answers are accepted. Updates that come meanwhile are postponed.
    async fn wait_until_accepted(&mut self) -> Result<(), Failure> {
        let mut waiting = self.answers.len();
        while waiting > 0 {
            match self.updates.recv().await {
                Some((_, Update::Accepted)) => waiting -= 1,
                Some((_, Update::Refused(error))) => {
                    let failure = Failure::from(error);
                    self.app.metrics.refused(&failure);
                    return Err(failure);
                }
                Some((_, Update::Finished(Finish { reason: FinishReason::Cancelled, .. }))) | None => {
                    return Err(Failure::shutting_down());
                }
                Some(early) => self.postponed.push(early),
            }
        }
        self.postponed.reverse();
        Ok(())
    }

    /// The next event and the index of its answer; `None` when all answers are over.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            if self.answers.iter().all(Answer::is_over) {
                return None;
            }
            let update = match self.postponed.pop() {
                Some(update) => Some(update),
                None => self.next_update().await,
            };
            let Some((index, update)) = update else { return Some(self.lost()) };
            let answer = &mut self.answers[index];
            match update {
                Update::Prefill { done, total } => {
                    return Some((index, Event::Prompt(answer.prompt(done, total))));
                }
                Update::Piece(piece) => {
                    if let Some(gap) = answer.gap() {
                        self.app.metrics.gap(gap);
                    }
                    if let Some(event) = answer.output(piece) {
                        return Some((index, event));
                    }
                }
                Update::Finished(finish) => return Some((index, self.finish(index, finish))),
                _ => {}
            }
        }
    }

    /// Timings of an answer that is not over.
    pub(crate) fn timings(&self, index: usize) -> Timings {
        self.answers[index].timings()
    }

    /// The next update of the service; `None` if no more comes.
    async fn next_update(&mut self) -> Option<(usize, Update)> {
        tokio::select! {
            biased;
            update = self.updates.recv() => update,
            () = &mut self.aborted => None,
        }
    }

    /// The event when the server ends, or when the engine's thread has ended without an update.
    fn lost(&mut self) -> (usize, Event) {
        let index = self.answers.iter().position(|answer| !answer.is_over()).unwrap_or(0);
        self.answers.iter_mut().for_each(Answer::close);
        let failure = if *self.app.aborted.borrow() {
            Failure::shutting_down()
        } else {
            Failure::new(FailureKind::Unavailable, "the engine has ended; start the server again")
        };
        (index, Event::Failed(failure))
    }

    /// The last event of an answer. Output that its parser has held back comes before it.
    fn finish(&mut self, index: usize, finish: Finish) -> Event {
        let answer = &mut self.answers[index];
        let deltas = answer.held_back();
        if !deltas.is_empty() {
            self.postponed.push((index, Update::Finished(finish)));
            return Event::Output { deltas, text: String::new(), tokens: Vec::new() };
        }
        answer.close();
        if !answer.called_tools()
            && let Some(failure) = Failure::of_finish(&finish)
        {
            self.app.metrics.failed();
            return Event::Failed(failure);
        }
        let outcome = answer.outcome(finish);
        log(&outcome);
        self.app.metrics.finished(&outcome);
        if let Ok(mut last) = self.app.last.lock() {
            *last = Some(outcome.clone());
        }
        Event::Finished(outcome)
    }
}
