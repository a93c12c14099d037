//! The loop of the engine's thread: take commands, poll, tell.

use super::job::{End, Finish, Job, Piece, TokenReport, Update};
use super::load::{CLASSES, Load};
use super::reading::{ReadError, ReadJob, Reader};
use super::slots::Slots;
use super::store::Errand;
use crate::constrain::{Budget, Constraint};
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

/// How long to leave a device alone that has not finished its step.
const DEVICE_PAUSE: Duration = Duration::from_micros(50);

/// What the thread is told.
pub(super) enum Command {
    Submit(RequestId, Box<Job>),
    Read(RequestId, ReadJob),
    Cancel(RequestId),
    Visit(Errand),
    Drain,
    Stop,
}

/// What other threads can read.
pub(super) struct Board {
    pub(super) load: Arc<Load>,
    pub(super) slots: Arc<Slots>,
}

/// How long nothing has to be asked before the device rests.
pub(super) const REST_AFTER: Duration = Duration::from_secs(5);

/// The state of the thread.
pub(super) struct Worker<B> {
    engine: Engine<'static, 'static, B>,
    commands: Receiver<Command>,
    /// No new jobs are taken.
    draining: bool,
    /// Nobody is left who could send commands, or the end was ordered.
    stopping: bool,
    live: Live,
    load: Arc<Load>,
    rest_after: Duration,
    /// Tokens that had been made when the device failed.
    lost_at: Option<u64>,
    clock: Instant,
    /// Polls in which something happened, and the requests that were being computed in each.
    steps: u64,
    busy: u64,
}

/// Notes the end of the thread, whatever brings it about.
struct EndMark(Arc<Load>);

impl Drop for EndMark {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// The jobs that the engine has.
struct Live {
    tokenizer: &'static Tokenizer<'static>,
    slots: Arc<Slots>,
    jobs: BTreeMap<RequestId, Running>,
    readers: BTreeMap<RequestId, Reader>,
    constraints: Constraints,
    /// Jobs to be cancelled after this poll.
    cut: Vec<RequestId>,
    /// Jobs that are over, to be told when the numbers are up to date.
    over: Vec<(Running, Finish)>,
    tokens: u64,
    events: u64,
}

/// The grammars and limits of the jobs that have some.
struct Constraints(BTreeMap<RequestId, (Option<Constraint>, Option<Budget>)>);

impl TokenConstraints for Constraints {
    fn mask(&mut self, request: RequestId) -> Option<TokenMask<'_>> {
        let (constraint, budget) = self.0.get_mut(&request)?;
        let budget = budget.as_ref();
        let forced = budget.and_then(Budget::mask).or_else(|| constraint.as_mut()?.mask());
        forced.or_else(|| budget?.mask_of_heads())
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
struct Running {
    stream: TextStream<'static>,
    stops: Vec<String>,
    on_update: Box<dyn FnMut(Update) + Send>,
    /// Why it was cut, if the engine only knows that it was cancelled.
    end: Option<End>,
    started: bool,
    /// The prompt, and what came of it.
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
        board: Board,
        rest_after: Duration,
    ) -> Self {
        let Board { load, slots } = board;
        let constraints = Constraints(BTreeMap::new());
        let live = Live {
            tokenizer,
            slots,
            jobs: BTreeMap::new(),
            readers: BTreeMap::new(),
            constraints,
            cut: Vec::new(),
            over: Vec::new(),
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
        let _mark = EndMark(Arc::clone(&self.load));
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
            // the device is busy, or pages that somebody waits for are held outside
            quiet = self.live.events == before;
            self.publish();
            for (mut job, finish) in self.live.over.drain(..) {
                (job.on_update)(Update::Finished(finish));
            }
        }
    }

    /// Waits for a command if there is nothing else to do, then takes all there are.
    fn take_commands(&mut self, progress: Progress, quiet: bool) {
        if progress == Progress::Idle && self.live.idle() && !self.draining {
            match self.next_command() {
                Some(command) => self.obey(command),
                None => self.stopping = true,
            }
        } else if quiet {
            match self.commands.recv_timeout(DEVICE_PAUSE) {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopping = true,
            }
        }
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    /// Waits for a command. A device that nobody asks for a while rests meanwhile.
    fn next_command(&mut self) -> Option<Command> {
        match self.commands.recv_timeout(self.rest_after) {
            Err(RecvTimeoutError::Timeout) => {
                // one that does not draws more power, and nothing else
                let _ = self.engine.suspend();
                self.commands.recv().ok()
            }
            result => result.ok(),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(id, job) => self.submit(id, *job),
            Command::Read(id, job) => self.read(id, Reader::new(job)),
            Command::Cancel(id) => self.engine.cancel(id),
            Command::Visit(errand) => errand(&mut self.engine),
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
            return (job.on_update)(Update::Finished(Finish {
                end: End::Cancelled,
                usage: Usage::default(),
            }));
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
        let running = Running {
            stream,
            stops: job.stops,
            on_update: job.on_update,
            end: None,
            started: false,
            tokens: job.prompt,
            limit: job.params.max_tokens,
            wanted: job.slot,
            slot: None,
        };
        self.live.jobs.insert(id, running);
    }

    fn read(&mut self, id: RequestId, reader: Reader) {
        if self.draining {
            return reader.refuse(ReadError::Cancelled);
        }
        let reading = PoolingRequest { id, tokens: reader.tokens(), output: reader.output() };
        match self.engine.submit_pooling(&reading, self.now()) {
            Ok(()) => _ = self.live.readers.insert(id, reader),
            Err(error) => reader.refuse(ReadError::Refused(error)),
        }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn poll(&mut self) -> Progress {
        let now = self.now();
        // taken out, because the engine asks for masks while it tells what happened
        let mut constraints = core::mem::replace(&mut self.live.constraints, Constraints(BTreeMap::new()));
        let live = &mut self.live;
        let polled = self.engine.poll_constrained(now, &mut constraints, &mut |event| live.take(event));
        // those of jobs that are over go, too
        constraints.0.retain(|id, _| self.live.jobs.contains_key(id));
        self.live.constraints = constraints;
        for id in self.live.ended_grammars() {
            self.live.cut.push(id);
        }
        while let Some(id) = self.live.cut.pop() {
            self.engine.cancel(id);
        }
        if let Err(error) = &polled {
            if self.lost_at.is_none() {
                // whoever asks is told that it failed; why, is for whoever runs the server
                tracing::error!("{error}");
            }
            self.lost_at = Some(self.live.tokens);
        }
        // a device that answers again is not lost
        self.lost_at = self.lost_at.filter(|&tokens| tokens == self.live.tokens);
        self.load.device_lost.store(self.lost_at.is_some(), Ordering::Relaxed);
        polled.unwrap_or(Progress::Waiting)
    }

    /// Requests that are being computed.
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
        set(&self.load.pages_free, self.engine.pool().available().into());
        set(&self.load.pages, self.engine.pool().total().into());
    }
}

impl Live {
    /// Whether nobody waits for anything.
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
            job.end = Some(End::Memory);
            self.cut.push(request);
            return;
        };
        (job.on_update)(Update::Piece(Piece { text, tokens: vec![TokenReport::new(token, log_probs)] }));
        job.stop(request, &mut self.cut);
    }

    fn finish(&mut self, request: RequestId, reason: &FinishReason, usage: Usage) {
        if let Some(reader) = self.readers.remove(&request) {
            return reader.end(reason);
        }
        let Some(mut job) = self.jobs.remove(&request) else { return };
        if let Some(slot) = job.slot {
            self.slots.leave(slot, core::mem::take(&mut job.tokens));
        }
        if job.end.is_none() {
            job.flush();
            job.stop(request, &mut Vec::new());
        }
        let end = job.end.take().unwrap_or(match reason {
            FinishReason::EndOfGeneration(_) => End::Turn,
            FinishReason::MaxTokens => End::MaxTokens,
            FinishReason::ContextFull => End::ContextFull,
            FinishReason::Sampling(error) => End::Sampling(*error),
            FinishReason::DeviceFailed => End::DeviceFailed,
            _ => End::Cancelled,
        });
        self.over.push((job, Finish { end, usage }));
    }

    /// Jobs whose grammar has failed or allows nothing more.
    fn ended_grammars(&mut self) -> Vec<RequestId> {
        let mut ended = Vec::new();
        for (&id, (constraint, _)) in &self.constraints.0 {
            let Some(constraint) = constraint else { continue };
            let Some(job) = self.jobs.get_mut(&id).filter(|job| job.end.is_none()) else { continue };
            job.end = match constraint.failure() {
                Some(reason) => Some(End::Grammar(reason.to_owned())),
                None if constraint.complete() => Some(End::GrammarComplete),
                None => None,
            };
            if job.end.is_some() {
                job.flush();
                ended.push(id);
            }
        }
        ended
    }
}

impl Running {
    /// Hands over the text that was held back.
    fn flush(&mut self) {
        let text = self.stream.finish().map(ToOwned::to_owned).unwrap_or_default();
        if !text.is_empty() {
            (self.on_update)(Update::Piece(Piece { text, tokens: Vec::new() }));
        }
    }

    /// Notes that it is being computed.
    fn start(&mut self, slots: &Slots) {
        if !core::mem::replace(&mut self.started, true) {
            self.slot = slots.seat(self.wanted, &self.tokens, self.limit);
        }
    }

    /// Notes the stop text that came, if one did, and has the job cut.
    fn stop(&mut self, request: RequestId, cut: &mut Vec<RequestId>) {
        if let Some(stop) = self.stream.stop() {
            self.end = Some(End::Stop(self.stops.get(stop).cloned().unwrap_or_default()));
            cut.push(request);
        }
    }
}
