//! The queue of commands for the engine's thread, and the loop that serves it.
//!
//! Not here: the engine (`worker` handles the commands).

use super::engine_task::EngineTask;
use super::job::Job;
use super::pooling::PoolingJob;
use super::sync::mpsc::Receiver;
use core::time::Duration;
use doorbell_core::engine::RequestId;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};

/// Time between two polls of a device that has not finished its step.
const DEVICE_PAUSE: Duration = Duration::from_micros(50);

/// A command for the engine's thread.
pub(super) enum Command {
    Submit(RequestId, Box<Job>),
    Pool(RequestId, PoolingJob),
    Cancel(RequestId),
    RunTask(EngineTask),
    Drain,
    Stop,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing to do until the next command.
    Idle,
    /// There is more to do at once.
    Busy,
    /// The device is busy, or a request waits for pages that a task holds.
    Waiting,
}

/// The receiver of commands.
pub(super) trait CommandHandler {
    /// Executes a command.
    fn handle(&mut self, command: Command);

    /// Does a step of the jobs.
    fn step(&mut self) -> Step;

    /// True if there are no jobs.
    fn is_idle(&self) -> bool;

    /// True if no new jobs are accepted.
    fn is_draining(&self) -> bool;

    /// Puts the device to rest; called after a time without commands and jobs.
    fn suspend(&mut self);
}

/// Handles commands and does steps until there are no jobs, and either the handler is draining or all senders are gone.
pub(super) fn serve_commands(
    handler: &mut impl CommandHandler,
    commands: &Receiver<Command>,
    rest_after: Duration,
) {
    let mut step = Step::Idle;
    loop {
        let is_connected = take_commands(handler, commands, step, rest_after);
        if handler.is_idle() && (handler.is_draining() || !is_connected) {
            return;
        }
        step = handler.step();
    }
}

/// Waits for a command if there is nothing else to do, then handles all queued commands. Returns false if all senders are
/// gone.
fn take_commands(
    handler: &mut impl CommandHandler,
    commands: &Receiver<Command>,
    step: Step,
    rest_after: Duration,
) -> bool {
    if step == Step::Idle && handler.is_idle() && !handler.is_draining() {
        match next_command(handler, commands, rest_after) {
            Some(command) => handler.handle(command),
            None => return false,
        }
    } else if step == Step::Waiting {
        match commands.recv_timeout(DEVICE_PAUSE) {
            Ok(command) => handler.handle(command),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    loop {
        match commands.try_recv() {
            Ok(command) => handler.handle(command),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Waits for a command; after a while without one the device is put to rest. `None` if all senders are gone.
fn next_command(
    handler: &mut impl CommandHandler,
    commands: &Receiver<Command>,
    rest_after: Duration,
) -> Option<Command> {
    match commands.recv_timeout(rest_after) {
        Err(RecvTimeoutError::Timeout) => {
            handler.suspend();
            commands.recv().ok()
        }
        result => result.ok(),
    }
}
