//! The handle to the engine's thread: it starts the thread, submits jobs and ends it.

use super::engine_task::EnginePages;
use super::job::Job;
use super::load::{Load, LoadSnapshot};
use super::pooling::PoolingJob;
use super::slots::ConversationSlots;
use super::worker::{Command, REST_AFTER, SharedState, Worker};
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::token::Tokenizer;
use std::io;
use std::sync::mpsc::{Sender, channel};

/// A handle to the engine's thread; clones share the thread.
#[derive(Clone)]
pub struct Service {
    commands: Sender<Command>,
    load: Arc<Load>,
    slots: Arc<ConversationSlots>,
    next: Arc<AtomicU64>,
}

/// Reason why a service can't be started or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// The system can't create a thread.
    Thread(io::Error),
    /// The engine's thread has ended.
    Ended,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "no thread for the engine: {error}"),
            Self::Ended => {
                f.write_str("the engine has ended; if the server is not shutting down, start it again")
            }
        }
    }
}

impl core::error::Error for ServiceError {}

/// A submitted job. Dropping the handle cancels the job within one step.
pub struct JobHandle {
    id: RequestId,
    commands: Sender<Command>,
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        // a thread that has ended has cancelled everything
        _ = self.commands.send(Command::Cancel(self.id));
    }
}

impl Service {
    /// Starts the thread. Model and tokenizer live as long as the process.
    ///
    /// # Errors
    /// [`ServiceError::Thread`]
    pub fn start<B>(
        engine: Engine<'static, 'static, B>,
        tokenizer: &'static Tokenizer<'static>,
    ) -> Result<Self, ServiceError>
    where
        B: Backend + Send + 'static,
    {
        Self::start_resting(engine, tokenizer, REST_AFTER)
    }

    /// As [`Self::start`]; after `rest_after` without a command the device is put to rest.
    ///
    /// # Errors
    /// [`ServiceError::Thread`]
    pub fn start_resting<B>(
        engine: Engine<'static, 'static, B>,
        tokenizer: &'static Tokenizer<'static>,
        rest_after: Duration,
    ) -> Result<Self, ServiceError>
    where
        B: Backend + Send + 'static,
    {
        let (commands, receiver) = channel();
        let load = Arc::new(Load::default());
        let slots = Arc::new(ConversationSlots::new(engine.config().sequences));
        let shared = SharedState { load: Arc::clone(&load), slots: Arc::clone(&slots) };
        let worker = Worker::new(engine, tokenizer, receiver, shared, rest_after);
        let thread = std::thread::Builder::new().name("engine".into());
        thread.spawn(move || worker.run()).map_err(ServiceError::Thread)?;
        Ok(Self { commands, load, slots, next: Arc::default() })
    }

    /// Submits a job; its callback reports everything else.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn submit(&self, job: Job) -> Result<JobHandle, ServiceError> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let sent = self.commands.send(Command::Submit(id, Box::new(job)));
        sent.map_err(|_| ServiceError::Ended)?;
        Ok(JobHandle { id, commands: self.commands.clone() })
    }

    /// Submits a pooling job; its callback reports the result.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn read(&self, job: PoolingJob) -> Result<JobHandle, ServiceError> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        self.commands.send(Command::Read(id, job)).map_err(|_| ServiceError::Ended)?;
        Ok(JobHandle { id, commands: self.commands.clone() })
    }

    /// Runs a task with access to the engine's pages between two steps, and waits for its result. The task must be short.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn run_task<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut dyn EnginePages) -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (result_sender, result) = channel();
        // the send fails only if the caller no longer waits
        let task = Box::new(move |store: &mut dyn EnginePages| _ = result_sender.send(act(store)));
        self.commands.send(Command::RunTask(task)).map_err(|_| ServiceError::Ended)?;
        result.recv().map_err(|_| ServiceError::Ended)
    }

    /// The conversation slots.
    pub fn slots(&self) -> &ConversationSlots {
        &self.slots
    }

    /// The engine's load.
    pub fn load(&self) -> LoadSnapshot {
        self.load.snapshot()
    }

    /// Accepts no more jobs; the thread ends when all jobs have ended.
    pub fn drain(&self) {
        _ = self.commands.send(Command::Drain);
    }

    /// Cancels all jobs and ends the thread.
    pub fn stop(&self) {
        _ = self.commands.send(Command::Stop);
    }
}
