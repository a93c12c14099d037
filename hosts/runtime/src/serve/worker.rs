//! The engine's thread: it handles commands, polls the engine and publishes its load.
//!
//! Not here: the loop over commands (`commands`), and the updates of jobs (`active_jobs`).

use super::active_jobs::{ActiveJobs, RunningJob};
use super::commands::{Command, CommandHandler, Step, serve_commands};
use super::job::{Finish, Job, Update};
use super::load::{CLASSES, Load};
use super::pooling::{PoolingError, PoolingRun};
use super::shared_state::{EndedOnDrop, SharedState};
use super::sync::Arc;
use super::sync::atomic::{AtomicU64, Ordering};
use super::sync::mpsc::Receiver;
use core::time::Duration;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{Engine, Nanos, PoolingRequest, Progress, Request, RequestId};
use doorbell_core::token::Tokenizer;
use std::time::Instant;

/// Time without commands before the device is put to rest.
pub(super) const REST_AFTER: Duration = Duration::from_secs(5);

/// The state of the thread.
pub(super) struct Worker<B> {
    engine: Engine<'static, 'static, B>,
    /// True if no new jobs are accepted.
    draining: bool,
    live: ActiveJobs,
    load: Arc<Load>,
    /// Number of generated tokens when the device failed.
    lost_at: Option<u64>,
    clock: Instant,
    /// Polls that reported events, and the sum of the running requests over them.
    steps: u64,
    busy: u64,
}

impl<B: Backend> Worker<B> {
    /// The state of a thread that has not started.
    pub(super) fn new(
        engine: Engine<'static, 'static, B>,
        tokenizer: &'static Tokenizer<'static>,
        shared: &SharedState,
    ) -> Self {
        let worker = Self {
            engine,
            draining: false,
            live: ActiveJobs::new(tokenizer, Arc::clone(&shared.slots)),
            load: Arc::clone(&shared.load),
            lost_at: None,
            clock: Instant::now(),
            steps: 0,
            busy: 0,
        };
        worker.publish();
        worker
    }

    /// Runs until the service ends.
    pub(super) fn run(mut self, commands: &Receiver<Command>, rest_after: Duration) {
        let _mark = EndedOnDrop(Arc::clone(&self.load));
        serve_commands(&mut self, commands, rest_after);
    }

    fn submit(&mut self, id: RequestId, mut job: Job) {
        if self.draining {
            return (job.on_update)(Update::Finished(Finish::cancelled()));
        }
        let request = Request { id, prompt: &job.prompt, params: job.params.borrowed() };
        let now = self.now();
        if let Err(error) = self.engine.submit(&request, now) {
            return (job.on_update)(Update::Refused(error));
        }
        self.live.constraints.insert(id, job.constraint.take(), job.budget.take());
        (job.on_update)(Update::Accepted);
        self.live.jobs.insert(id, RunningJob::new(job));
    }

    fn pool(&mut self, id: RequestId, run: PoolingRun) {
        if self.draining {
            return run.refuse(PoolingError::Cancelled);
        }
        let request = PoolingRequest { id, tokens: run.tokens(), output: run.output() };
        match self.engine.submit_pooling(&request, self.now()) {
            Ok(()) => _ = self.live.pooling_runs.insert(id, run),
            Err(error) => run.refuse(PoolingError::Refused(error)),
        }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn poll(&mut self) -> Progress {
        let now = self.now();
        // taken out, because the engine asks for masks while it reports events
        let mut constraints = core::mem::take(&mut self.live.constraints);
        let live = &mut self.live;
        let polled = self.engine.poll_constrained(now, &mut constraints, &mut |event| live.take(event));
        // constraints of ended jobs are removed, too
        constraints.retain(|id| self.live.jobs.contains_key(&id));
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
        let set = |value: &AtomicU64, number: u64| value.store(number, Ordering::Relaxed);
        set(&self.load.live, (self.live.jobs.len() + self.live.pooling_runs.len()) as u64);
        set(&self.load.running, self.running());
        set(&self.load.steps, self.steps);
        set(&self.load.busy, self.busy);
        set(&self.load.tokens, self.live.tokens);
        set(&self.load.pages_free, self.engine.kv().available().into());
        set(&self.load.pages, self.engine.kv().total().into());
    }
}

impl<B: Backend> CommandHandler for Worker<B> {
    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit(id, job) => self.submit(id, *job),
            Command::Pool(id, job) => self.pool(id, PoolingRun::new(job)),
            Command::Cancel(id) => self.engine.cancel(id),
            Command::RunTask(task) => task(&mut self.engine),
            Command::Drain => self.draining = true,
            Command::Stop => {
                self.draining = true;
                let live = self.live.jobs.keys().chain(self.live.pooling_runs.keys());
                live.for_each(|&id| self.engine.cancel(id));
            }
        }
    }

    fn step(&mut self) -> Step {
        let before = self.live.events;
        let progress = self.poll();
        let is_quiet = self.live.events == before;
        if !is_quiet {
            self.steps += 1;
            let running = self.running().max(1);
            self.busy += running;
            let class = running.next_power_of_two().trailing_zeros() as usize;
            self.load.batches[class.min(CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
        }
        self.publish();
        for (mut job, finish) in self.live.ended.drain(..) {
            (job.on_update)(Update::Finished(finish));
        }
        if progress == Progress::Idle && self.live.is_idle() {
            Step::Idle
        } else if is_quiet {
            Step::Waiting
        } else {
            Step::Busy
        }
    }

    fn is_idle(&self) -> bool {
        self.live.is_idle()
    }

    fn is_draining(&self) -> bool {
        self.draining
    }

    fn suspend(&mut self) {
        // if this fails, the device only draws more power
        let _ = self.engine.suspend();
    }
}
