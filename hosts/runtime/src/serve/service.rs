//! The handle to the engine's thread: it starts the thread, submits jobs and ends it.

use super::commands::Command;
use super::engine_task::EnginePages;
use super::job::Job;
use super::load::LoadSnapshot;
use super::pooling::PoolingJob;
use super::shared_state::SharedState;
use super::slots::ConversationSlots;
use super::sync::Arc;
use super::sync::atomic::{AtomicU64, Ordering};
use super::sync::mpsc::{Receiver, Sender, channel};
use super::worker::{REST_AFTER, Worker};
use core::fmt;
use core::time::Duration;
use doorbell_core::backend::Backend;
use doorbell_core::engine::{Engine, RequestId};
use doorbell_core::token::Tokenizer;
use std::io;

/// A handle to the engine's thread; clones share the thread.
#[derive(Clone)]
pub struct Service {
    commands: Sender<Command>,
    shared: SharedState,
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
        let (service, commands) = Self::connect(SharedState::new(engine.config().sequences));
        let worker = Worker::new(engine, tokenizer, &service.shared);
        let thread = std::thread::Builder::new().name("engine".into());
        thread.spawn(move || worker.run(&commands, rest_after)).map_err(ServiceError::Thread)?;
        Ok(service)
    }

    /// A service and the receiver of its commands.
    fn connect(shared: SharedState) -> (Self, Receiver<Command>) {
        let (commands, receiver) = channel();
        (Self { commands, shared, next: Arc::default() }, receiver)
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
    pub fn pool(&self, job: PoolingJob) -> Result<JobHandle, ServiceError> {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        self.commands.send(Command::Pool(id, job)).map_err(|_| ServiceError::Ended)?;
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
        &self.shared.slots
    }

    /// The engine's load.
    pub fn load(&self) -> LoadSnapshot {
        self.shared.load.snapshot()
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

/// The queue of commands under shuttle: each test runs with many schedules of its threads.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::commands::{CommandHandler, Step, serve_commands};
    use crate::serve::job::{Finish, GenerationParams, Update};
    use crate::serve::shared_state::EndedOnDrop;
    use crate::serve::sync::Mutex;
    use alloc::collections::BTreeMap;
    use doorbell_core::backend::{PageError, PageFormat};
    use doorbell_core::engine::{AllocateError, KvPart};
    use doorbell_core::heap::OutOfMemory;
    use doorbell_core::token::TokenId;
    use shuttle::thread;

    /// Schedules of each test.
    const SCHEDULES: usize = 10_000;

    /// Stands in for the engine: each step ends all jobs.
    #[derive(Default)]
    struct Fake {
        jobs: BTreeMap<RequestId, Job>,
        draining: bool,
    }

    impl Fake {
        fn end(&mut self, id: RequestId) {
            if let Some(mut job) = self.jobs.remove(&id) {
                (job.on_update)(Update::Finished(Finish::cancelled()));
            }
        }
    }

    impl CommandHandler for Fake {
        fn handle(&mut self, command: Command) {
            match command {
                Command::Submit(id, job) => {
                    self.jobs.insert(id, *job);
                    if self.draining {
                        self.end(id);
                    }
                }
                Command::Pool(..) => {}
                Command::Cancel(id) => self.end(id),
                Command::RunTask(task) => task(self),
                Command::Drain => self.draining = true,
                Command::Stop => {
                    self.draining = true;
                    while let Some((&id, _)) = self.jobs.first_key_value() {
                        self.end(id);
                    }
                }
            }
        }

        fn step(&mut self) -> Step {
            while let Some((&id, _)) = self.jobs.first_key_value() {
                self.end(id);
            }
            Step::Idle
        }

        fn is_idle(&self) -> bool {
            self.jobs.is_empty()
        }

        fn is_draining(&self) -> bool {
            self.draining
        }

        fn suspend(&mut self) {}
    }

    impl EnginePages for Fake {
        fn page_format(&self) -> Option<PageFormat> {
            None
        }

        fn vocabulary(&self) -> u32 {
            0
        }

        fn pages(&self) -> u32 {
            7
        }

        fn prefix_bytes(&self, _: u32) -> Option<(u64, u64)> {
            None
        }

        fn part_bytes(&self, _: KvPart) -> usize {
            0
        }

        fn acquire_prefix(&mut self, _: &[TokenId]) -> Result<(u32, Vec<KvPart>), OutOfMemory> {
            Ok((0, Vec::new()))
        }

        fn allocate_prefix(&mut self, _: u32) -> Result<Vec<KvPart>, AllocateError> {
            Ok(Vec::new())
        }

        fn read_part(&mut self, _: KvPart, _: &mut [u8]) -> Result<(), PageError> {
            Ok(())
        }

        fn write_part(&mut self, _: KvPart, _: &[u8]) -> Result<(), PageError> {
            Ok(())
        }

        fn insert_prefix(&mut self, _: &[TokenId], _: &[KvPart]) {}

        fn release_prefix(&mut self, _: &[KvPart]) {}

        fn evict_prefix(&mut self, _: &[TokenId]) -> u32 {
            0
        }
    }

    /// A service whose thread has the fake engine.
    fn started() -> (Service, thread::JoinHandle<()>) {
        let (service, commands) = Service::connect(SharedState::new(1));
        let load = Arc::clone(&service.shared.load);
        let worker = move || {
            let _mark = EndedOnDrop(load);
            serve_commands(&mut Fake::default(), &commands, REST_AFTER);
        };
        (service, thread::spawn(worker))
    }

    /// A job that counts its ends.
    fn job(ends: &Arc<Mutex<u32>>) -> Job {
        let ends = Arc::clone(ends);
        Job {
            prompt: Arc::from([TokenId(0)]),
            params: GenerationParams::default(),
            stops: Arc::default(),
            special: false,
            constraint: None,
            budget: None,
            slot: None,
            on_update: Box::new(move |update| {
                let ended = matches!(update, Update::Finished(_));
                *ends.lock().unwrap() += u32::from(ended);
            }),
        }
    }

    #[test]
    fn a_job_ends_once_even_if_its_handle_is_dropped() {
        let test = || {
            let (service, worker) = started();
            let ends = Arc::new(Mutex::new(0));
            let submit =
                |service: Service, ends: Arc<Mutex<u32>>| move || drop(service.submit(job(&ends)).unwrap());
            let clients = [0, 1].map(|_| thread::spawn(submit(service.clone(), Arc::clone(&ends))));
            for client in clients {
                client.join().unwrap();
            }
            drop(service);
            worker.join().unwrap();
            assert_eq!(*ends.lock().unwrap(), 2);
        };
        shuttle::check_random(test, SCHEDULES);
    }

    #[test]
    fn a_draining_service_ends_the_jobs_that_it_has() {
        let test = || {
            let (service, worker) = started();
            let ends = Arc::new(Mutex::new(0));
            let other = service.clone();
            let client = thread::spawn(move || other.run_task(|engine| engine.pages()));
            let _handle = service.submit(job(&ends)).unwrap();
            service.drain();
            worker.join().unwrap();
            assert_eq!(*ends.lock().unwrap(), 1);
            _ = client.join().unwrap();
        };
        shuttle::check_random(test, SCHEDULES);
    }

    #[test]
    fn a_task_gets_its_result_or_the_end_of_the_service() {
        let test = || {
            let (service, worker) = started();
            let stopping = service.clone();
            let client = thread::spawn(move || service.run_task(|engine| engine.pages()));
            stopping.stop();
            match client.join().unwrap() {
                Ok(pages) => assert_eq!(pages, 7),
                Err(error) => assert!(matches!(error, ServiceError::Ended)),
            }
            worker.join().unwrap();
            assert!(stopping.load().ended);
            assert!(matches!(stopping.run_task(|_| ()), Err(ServiceError::Ended)));
        };
        shuttle::check_random(test, SCHEDULES);
    }

    #[test]
    fn a_draining_service_ends_every_job_or_drops_it() {
        let test = || {
            let (service, worker) = started();
            let ends = Arc::new(Mutex::new(0));
            let (draining, callback) = (service.clone(), job(&ends));
            let client = thread::spawn(move || service.submit(callback).map(drop));
            draining.drain();
            let submitted = client.join().unwrap();
            worker.join().unwrap();
            drop(draining);
            let ended = *ends.lock().unwrap();
            assert!(ended <= 1 && (submitted.is_ok() || ended == 0));
            // the callback is dropped in any case, so that nobody waits for it
            assert_eq!(Arc::strong_count(&ends), 1);
        };
        shuttle::check_random(test, SCHEDULES);
    }
}
