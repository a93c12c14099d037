//! Ctrl-C: the first stops the answer, a second one the program.

use crate::failure::{Failure, Kind};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Whether Ctrl-C was pressed.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes over the signal.
    pub(crate) fn install() -> Result<Self, Failure> {
        let pressed = Arc::new(AtomicBool::new(false));
        let registered = flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&pressed))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&pressed)));
        registered
            .map_err(|error| Failure::new(Kind::Internal, format_args!("cannot catch Ctrl-C: {error}")))?;
        Ok(Self(pressed))
    }

    pub(crate) fn pressed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets that it was pressed.
    pub(crate) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
