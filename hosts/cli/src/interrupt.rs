//! Ctrl-C: the first stops the answer, a second one the program. The terminal is restored when a signal ends the program
//! while a line is edited.

use crate::failure::{Failure, Kind};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;

/// The exit code after a second Ctrl-C.
const STOPPED: i32 = 130;

/// The exit code after a second signal of which one was SIGTERM.
const TERMINATED: i32 = 143;

/// A flag that is set when Ctrl-C is pressed.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs a handler for Ctrl-C.
    pub(crate) fn install() -> Result<Self, Failure> {
        let pressed = Arc::new(AtomicBool::new(false));
        let registered = flag::register_conditional_shutdown(SIGINT, STOPPED, Arc::clone(&pressed))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&pressed)));
        registered.map_err(failure)?;
        Ok(Self(pressed))
    }

    /// Installs handlers for a server, which the first Ctrl-C or SIGTERM ends gracefully: a second one exits at once.
    pub(crate) fn install_on_server() -> Result<(), Failure> {
        let seen = Arc::new(AtomicBool::new(false));
        for (signal, code) in [(SIGINT, STOPPED), (SIGTERM, TERMINATED)] {
            flag::register_conditional_shutdown(signal, code, Arc::clone(&seen)).map_err(failure)?;
        }
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&seen)).map_err(failure)?;
        }
        Ok(())
    }

    /// Installs handlers for the signals that end a program which edits lines on stdin's terminal. The editor sets the
    /// terminal to raw mode; its present mode is restored before the program ends.
    pub(crate) fn install_on_terminal() -> Result<Self, Failure> {
        let terminal = tcgetattr(io::stdin()).map_err(|error| failure(error.into()))?;
        let pressed = Arc::new(AtomicBool::new(false));
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).map_err(failure)?;
        let seen = Arc::clone(&pressed);
        let watch = move || watch(signals, &terminal, &seen);
        std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failure)?;
        Ok(Self(pressed))
    }

    pub(crate) fn pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Clears the flag.
    pub(crate) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn failure(error: io::Error) -> Failure {
    Failure::new(Kind::Internal, format_args!("cannot catch Ctrl-C: {error}"))
}

/// Waits for signals until one ends the program.
fn watch(mut signals: Signals, terminal: &Termios, pressed: &AtomicBool) {
    for signal in signals.forever() {
        if signal == SIGINT && !pressed.swap(true, Ordering::Relaxed) {
            continue;
        }
        // fails only if the terminal is gone
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        if signal == SIGINT {
            std::process::exit(STOPPED);
        }
        // the parent process must see the signal that ended the program
        let _ = emulate_default_handler(signal);
    }
}
