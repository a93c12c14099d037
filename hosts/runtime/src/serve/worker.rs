//! The loop of the engine's thread: it takes commands, polls the engine and reports events.

use super::engine_task::EngineTask;
use super::job::{Finish, Job, Piece, TokenReport, Update};
use super::load::{CLASSES, Load};
use super::pooling::{PoolingError, PoolingJob, PoolingRun};
use super::slots::ConversationSlots;
use crate::constrain::{Constraint, ReasoningBudget};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use core::time::Duration;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{
    Engine, Event, FinishReason, Nanos, PoolingRequest, Progress, Request, RequestId, SubmitError,
    TextStream, TokenConstraints, Usage,
};
use doorbell_core::heap::Global;
use doorbell_core::sample::{LogProbs, TokenMask};
use doorbell_core::token::{TokenId, Tokenizer};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Instant;

/// Time between two polls of a device that has not finished its step.
const DEVICE_PAUSE: Duration = Duration::from_micros(50);

/// A command for the thread.
pub(super) enum Command {
    Submit(RequestId, Box<Job>),
    Read(RequestId, PoolingJob),
    Cancel(RequestId),
    RunTask(EngineTask),
    Drain,
    Stop,
}

/// State that other threads can read.
pub(super) struct SharedState {
    pub(super) load: Arc<Load>,
    pub(super) slots: Arc<ConversationSlots>,
}

/// Time without commands before the device is put to rest.
pub(super) const REST_AFTER: Duration = Duration::from_secs(5);

/// The state of the thread.
pub(super) struct Worker<B> {
    engine: Engine<'static, 'static, B>,
    commands: Receiver<Command>,
    /// True if no new jobs are accepted.
    draining: bool,
    /// True if all senders of commands are gone.
    stopping: bool,
    live: ActiveJobs,
    load: Arc<Load>,
    rest_after: Duration,
    /// Number of generated tokens when the device failed.
    lost_at: Option<u64>,
    clock: Instant,
    /// Polls that reported events, and the sum of the running requests over them.
    steps: u64,
    busy: u64,
}

/// Marks the thread as ended when it is dropped, also by a panic.
struct EndedOnDrop(Arc<Load>);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// The jobs in the engine.
struct ActiveJobs {
    tokenizer: &'static Tokenizer<'static>,
    slots: Arc<ConversationSlots>,
    jobs: BTreeMap<RequestId, RunningJob>,
    readers: BTreeMap<RequestId, PoolingRun>,
    constraints: Constraints,
    /// Jobs to end after this poll, for reasons that were found here.
    to_finish: Vec<(RequestId, FinishReason)>,
    /// Ended jobs, reported once the counters are up to date.
    ended: Vec<(RunningJob, Finish)>,
    tokens: u64,
    events: u64,
}

/// The grammars and reasoning budgets of the jobs that have one.
struct Constraints(BTreeMap<RequestId, (Option<Constraint>, Option<ReasoningBudget>)>);

impl TokenConstraints for Constraints {
    fn mask(&mut self, request: RequestId) -> Option<TokenMask<'_>> {
        let (constraint, budget) = self.0.get_mut(&request)?;
        let budget = budget.as_ref();
        let forced = budget.and_then(ReasoningBudget::mask).or_else(|| constraint.as_mut()?.mask());
        forced.or_else(|| budget?.mask_of_headers())
    }

    fn is_constrained(&self, request: RequestId) -> bool {
        self.0.contains_key(&request)
    }

    fn accept(&mut self, request: RequestId, token: TokenId) {
        let Some((constraint, budget)) = self.0.get_mut(&request) else { return };
        if let Some(constraint) = constraint {
            constraint.accept(token);
        }
        if let Some(budget) = budget {
            budget.accept(token);
        }
    }
}

/// A job in the engine.
struct RunningJob {
    stream: TextStream<'static>,
    stops: Vec<String>,
    on_update: Box<dyn FnMut(Update) + Send>,
    /// Reason of the end if it was found here; no text is reported after it.
    end: Option<FinishReason>,
    grammar_error: Option<String>,
    started: bool,
    /// Tokens of the prompt and of the answer.
    tokens: Vec<TokenId>,
    limit: u32,
    wanted: Option<u32>,
    slot: Option<u32>,
}

impl<B: Backend> Worker<B> {
    pub(super) fn new(
        engine: Engine<'static, 'static, B>,
        tokenizer: &'static Tokenizer<'static>,
        commands: Receiver<Command>,
        shared: SharedState,
        rest_after: Duration,
    ) -> Self {
        let SharedState { load, slots } = shared;
        let constraints = Constraints(BTreeMap::new());
        let live = ActiveJobs {
            tokenizer,
            slots,
            jobs: BTreeMap::new(),
            readers: BTreeMap::new(),
            constraints,
            to_finish: Vec::new(),
            ended: Vec::new(),
            tokens: 0,
            events: 0,
        };
        let clock = Instant::now();
        let (draining, stopping) = (false, false);
        let worker = Self {
            engine,
            commands,
            draining,
            stopping,
            live,
            load,
            rest_after,
            lost_at: None,
            clock,
            steps: 0,
            busy: 0,
        };
        worker.publish();
        worker
    }

    pub(super) fn run(mut self) {
        let _mark = EndedOnDrop(Arc::clone(&self.load));
        let mut progress = Progress::Idle;
        let mut quiet = false;
        loop {
            self.take_commands(progress, quiet);
            if self.live.idle() && (self.draining || self.stopping) {
                break;
            }
            let before = self.live.events;
            progress = self.poll();
            if self.live.events > before {
                self.steps += 1;
                let running = self.running().max(1);
                self.busy += running;
                let class = running.next_power_of_two().trailing_zeros() as usize;
                self.load.batches[class.min(CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
            }
            // the device is busy, or a request waits for pages that a task holds
            quiet = self.live.events == before;
            self.publish();
            for (mut job, finish) in self.live.ended.drain(..) {
                (job.on_update)(Update::Finished(finish));
            }
        }
    }

    /// Waits for a command if there is nothing else to do, then handles all queued commands.
    fn take_commands(&mut self, progress: Progress, quiet: bool) {
        if progress == Progress::Idle && self.live.idle() && !self.draining {
            match self.next_command() {
                Some(command) => self.handle(command),
                None => self.stopping = true,
            }
        } else if quiet {
            match self.commands.recv_timeout(DEVICE_PAUSE) {
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopping = true,
            }
        }
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.handle(command),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    /// Waits for a command; after a while without one the device is put to rest.
    fn next_command(&mut self) -> Option<Command> {
        match self.commands.recv_timeout(self.rest_after) {
            Err(RecvTimeoutError::Timeout) => {
                // if this fails, the device only draws more power
                let _ = self.engine.suspend();
                self.commands.recv().ok()
            }
            result => result.ok(),
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit(id, job) => self.submit(id, *job),
            Command::Read(id, job) => self.read(id, PoolingRun::new(job)),
            Command::Cancel(id) => self.engine.cancel(id),
            Command::RunTask(task) => task(&mut self.engine),
            Command::Drain => self.draining = true,
            Command::Stop => {
                self.draining = true;
                let live = self.live.jobs.keys().chain(self.live.readers.keys());
                live.for_each(|&id| self.engine.cancel(id));
            }
        }
    }

    fn submit(&mut self, id: RequestId, mut job: Job) {
        if self.draining {
            return (job.on_update)(Update::Finished(Finish::cancelled()));
        }
        let request = Request { id, prompt: &job.prompt, params: job.params.borrowed() };
        let now = self.now();
        job.stops.retain(|stop| !stop.is_empty());
        let stops: Vec<&str> = job.stops.iter().map(String::as_str).collect();
        let stream = match TextStream::new(&stops, job.special, &Global) {
            Ok(stream) => stream,
            Err(error) => return (job.on_update)(Update::Refused(SubmitError::Memory(error))),
        };
        if let Err(error) = self.engine.submit(&request, now) {
            return (job.on_update)(Update::Refused(error));
        }
        if job.constraint.is_some() || job.budget.is_some() {
            self.live.constraints.0.insert(id, (job.constraint, job.budget));
        }
        (job.on_update)(Update::Accepted);
        let running = RunningJob {
            stream,
            stops: job.stops,
            on_update: job.on_update,
            end: None,
            grammar_error: None,
            started: false,
            tokens: job.prompt,
            limit: job.params.max_tokens,
            wanted: job.slot,
            slot: None,
        };
        self.live.jobs.insert(id, running);
    }

    fn read(&mut self, id: RequestId, reader: PoolingRun) {
        if self.draining {
            return reader.refuse(PoolingError::Cancelled);
        }
        let reading = PoolingRequest { id, tokens: reader.tokens(), output: reader.output() };
        match self.engine.submit_pooling(&reading, self.now()) {
            Ok(()) => _ = self.live.readers.insert(id, reader),
            Err(error) => reader.refuse(PoolingError::Refused(error)),
        }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn poll(&mut self) -> Progress {
        let now = self.now();
        // taken out, because the engine asks for masks while it reports events
        let mut constraints = core::mem::replace(&mut self.live.constraints, Constraints(BTreeMap::new()));
        let live = &mut self.live;
        let polled = self.engine.poll_constrained(now, &mut constraints, &mut |event| live.take(event));
        // constraints of ended jobs are removed, too
        constraints.0.retain(|id, _| self.live.jobs.contains_key(id));
        self.live.constraints = constraints;
        self.live.end_grammars();
        while let Some((id, reason)) = self.live.to_finish.pop() {
            self.engine.finish(id, reason);
        }
        if let Err(error) = &polled {
            if self.lost_at.is_none() {
                // clients get only the failure; the cause is for the operator
                tracing::error!("{error}");
            }
            self.lost_at = Some(self.live.tokens);
        }
        // a device that generates tokens again is not lost
        self.lost_at = self.lost_at.filter(|&tokens| tokens == self.live.tokens);
        self.load.device_lost.store(self.lost_at.is_some(), Ordering::Relaxed);
        polled.unwrap_or(Progress::Waiting)
    }

    /// Number of jobs that have started.
    fn running(&self) -> u64 {
        self.live.jobs.values().filter(|job| job.started).count() as u64
    }

    fn publish(&self) {
        let set = |value: &core::sync::atomic::AtomicU64, number: u64| value.store(number, Ordering::Relaxed);
        set(&self.load.live, (self.live.jobs.len() + self.live.readers.len()) as u64);
        set(&self.load.running, self.running());
        set(&self.load.steps, self.steps);
        set(&self.load.busy, self.busy);
        set(&self.load.tokens, self.live.tokens);
        set(&self.load.pages_free, self.engine.kv().available().into());
        set(&self.load.pages, self.engine.kv().total().into());
    }
}

impl ActiveJobs {
    /// True if there are no jobs.
    fn idle(&self) -> bool {
        self.jobs.is_empty() && self.readers.is_empty()
    }

    fn take(&mut self, event: Event<'_>) {
        self.events += 1;
        match event {
            Event::Prefill { request, done, total } => {
                if let Some(job) = self.jobs.get_mut(&request) {
                    job.start(&self.slots);
                    (job.on_update)(Update::Prefill { done, total });
                }
            }
            Event::Token { request, token, logprobs } => self.token(request, token, logprobs),
            Event::Pooled { request, position, row } => {
                if let Some(reader) = self.readers.get_mut(&request) {
                    reader.take(position, row);
                }
            }
            Event::Finished { request, reason, usage } => self.finish(request, &reason, usage),
            _ => {}
        }
    }

    fn token(&mut self, request: RequestId, token: TokenId, log_probs: Option<&LogProbs>) {
        self.tokens += 1;
        let Some(job) = self.jobs.get_mut(&request) else { return };
        job.start(&self.slots);
        job.tokens.push(token);
        if let Some(slot) = job.slot {
            self.slots.decoded(slot);
        }
        if job.end.is_some() {
            return;
        }
        let Ok(text) = job.stream.push(self.tokenizer, token).map(ToOwned::to_owned) else {
            job.end = Some(FinishReason::OutOfMemory);
            self.to_finish.push((request, FinishReason::OutOfMemory));
            return;
        };
        (job.on_update)(Update::Piece(Piece { text, tokens: vec![TokenReport::new(token, log_probs)] }));
        job.stop(request, &mut self.to_finish);
    }

    fn finish(&mut self, request: RequestId, reason: &FinishReason, usage: Usage) {
        if let Some(reader) = self.readers.remove(&request) {
            return reader.end(reason);
        }
        let Some(mut job) = self.jobs.remove(&request) else { return };
        if let Some(slot) = job.slot {
            self.slots.release(slot, core::mem::take(&mut job.tokens));
        }
        if job.end.is_none() {
            job.flush();
            job.stop(request, &mut Vec::new());
        }
        let reason = job.end.take().unwrap_or(*reason);
        let stop_text = match reason {
            FinishReason::StopString(stop) => job.stops.get(stop as usize).cloned(),
            _ => None,
        };
        let grammar_error = job.grammar_error.take();
        let finish = Finish { reason, stop_text, grammar_error, usage };
        self.ended.push((job, finish));
    }

    /// Ends the jobs whose grammar has failed or allows no further token.
    fn end_grammars(&mut self) {
        for (&id, (constraint, _)) in &self.constraints.0 {
            let Some(constraint) = constraint else { continue };
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.end.is_none()) else { continue };
            job.grammar_error = constraint.failure().map(str::to_owned);
            job.end = match job.grammar_error {
                Some(_) => Some(FinishReason::GrammarFailed),
                None => constraint.complete().then_some(FinishReason::GrammarComplete),
            };
            if let Some(reason) = job.end {
                job.flush();
                self.to_finish.push((id, reason));
            }
        }
    }
}

impl RunningJob {
    /// Reports the text that was held back.
    fn flush(&mut self) {
        let text = self.stream.finish().map(ToOwned::to_owned).unwrap_or_default();
        if !text.is_empty() {
            (self.on_update)(Update::Piece(Piece { text, tokens: Vec::new() }));
        }
    }

    /// Marks the job as started and assigns its slot.
    fn start(&mut self, slots: &ConversationSlots) {
        if !core::mem::replace(&mut self.started, true) {
            self.slot = slots.assign(self.wanted, &self.tokens, self.limit);
        }
    }

    /// Ends the job if a stop text has been generated.
    fn stop(&mut self, request: RequestId, to_finish: &mut Vec<(RequestId, FinishReason)>) {
        if let Some(stop) = self.stream.stop() {
            let reason = FinishReason::StopString(u32::try_from(stop).unwrap_or(u32::MAX));
            self.end = Some(reason);
            to_finish.push((request, reason));
        }
    }
}
