//! The handle to the engine's thread: start it, give it jobs, end it.

use super::job::Job;
use super::load::{Load, Snapshot};
use super::reading::ReadJob;
use super::slots::Slots;
use super::store::Store;
use super::worker::{Board, Command, REST_AFTER, Worker};
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::token::Tokenizer;
use std::io;
use std::sync::mpsc::{Sender, channel};

/// The engine's thread, shared by all who give it jobs.
#[derive(Clone)]
pub struct Service {
    commands: Sender<Command>,
    load: Arc<Load>,
    slots: Arc<Slots>,
    next: Arc<AtomicU64>,
}

/// Why a service can't be started or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// The system gives no thread.
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

/// A job that was handed over. Dropping it cancels the job within one step.
pub struct Ticket {
    id: RequestId,
    commands: Sender<Command>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // a thread that has ended has cancelled everything
        _ = self.commands.send(Command::Cancel(self.id));
    }
}

impl Service {
    /// Starts the thread. Model and tokenizer live as long as the process, as what a server serves does.
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

    /// As [`Self::start`]; the device rests when nothing has been asked for so long.
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
        let slots = Arc::new(Slots::new(engine.config().sequences));
        let board = Board { load: Arc::clone(&load), slots: Arc::clone(&slots) };
        let worker = Worker::new(engine, tokenizer, receiver, board, rest_after);
        let thread = std::thread::Builder::new().name("engine".into());
        thread.spawn(move || worker.run()).map_err(ServiceError::Thread)?;
        Ok(Self { commands, load, slots, next: Arc::default() })
    }

    /// Hands a job over; everything else comes through its callback.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn submit(&self, job: Job) -> Result<Ticket, ServiceError> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let sent = self.commands.send(Command::Submit(id, Box::new(job)));
        sent.map_err(|_| ServiceError::Ended)?;
        Ok(Ticket { id, commands: self.commands.clone() })
    }

    /// Hands a text to be read over; what comes of it comes through its callback.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn read(&self, job: ReadJob) -> Result<Ticket, ServiceError> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        self.commands.send(Command::Read(id, job)).map_err(|_| ServiceError::Ended)?;
        Ok(Ticket { id, commands: self.commands.clone() })
    }

    /// Does something with the engine's pages between two steps, and waits until it is done. Must be short.
    ///
    /// # Errors
    /// [`ServiceError::Ended`]
    pub fn visit<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut dyn Store) -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (tell, told) = channel();
        // whoever asked has gone if nobody hears the answer
        let errand = Box::new(move |store: &mut dyn Store| _ = tell.send(act(store)));
        self.commands.send(Command::Visit(errand)).map_err(|_| ServiceError::Ended)?;
        told.recv().map_err(|_| ServiceError::Ended)
    }

    /// The numbered places of conversations.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// How busy the engine is.
    pub fn load(&self) -> Snapshot {
        self.load.snapshot()
    }

    /// Takes no more jobs; the thread ends when those it has are over.
    pub fn drain(&self) {
        _ = self.commands.send(Command::Drain);
    }

    /// Cancels all jobs and ends the thread.
    pub fn stop(&self) {
        _ = self.commands.send(Command::Stop);
    }
}
