//! The one software kernel of the process, and the thread that looks at its doorbells.
//!
//! Not here: how a client's call reaches it (`calls.rs`), what it answers (doorbell-soft).

use crate::report;
use crate::settings::Settings;
use core::time::Duration;
use doorbell_soft::kernel::SoftKernel;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernel with what the process needs around it.
pub(crate) struct Card {
    /// The kernel.
    pub(crate) kernel: SoftKernel,
    /// What was set.
    pub(crate) settings: Settings,
    /// The process that it belongs to: a fork's children have none.
    process: u32,
    /// Whoever calls the kernel holds this, so that others sleep instead of spinning.
    turn: Mutex<()>,
    /// Something happened on the GPU.
    moved: Condvar,
    watching: OnceLock<()>,
}

static CARD: OnceLock<Card> = OnceLock::new();

/// Looks in a row at silent doorbells before the thread sleeps between them.
const EAGER: u32 = 200;
/// Longest sleep between two looks.
const LONGEST: Duration = Duration::from_millis(1);

/// The card of this process. What is wrong with the settings ends the process, since a client could not tell.
pub(crate) fn card() -> &'static Card {
    CARD.get_or_init(|| {
        let made = Settings::read().and_then(|settings| {
            let kernel = SoftKernel::new(settings.machine.clone(), &settings.options);
            let kernel = kernel.and_then(|kernel| kernel.expose().map(|()| kernel));
            let kernel = kernel.map_err(|errno| format!("no memory for the software GPU: {errno}"))?;
            Ok((kernel, settings))
        });
        let (kernel, settings) = made.unwrap_or_else(|problem| {
            eprintln!("doorbell-shim: {problem}");
            std::process::exit(125)
        });
        report::at_exit();
        Card {
            kernel,
            settings,
            process: std::process::id(),
            turn: Mutex::new(()),
            moved: Condvar::new(),
            watching: OnceLock::new(),
        }
    })
}

/// The card, if the process has used it.
pub(crate) fn used() -> Option<&'static Card> {
    CARD.get().filter(|card| card.is_owner())
}

impl Card {
    /// True if this is the process that opened it.
    pub(crate) fn is_owner(&self) -> bool {
        self.process == std::process::id()
    }

    /// The right to call the kernel.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn up until something happens on the GPU, or for a short while.
    pub(crate) fn sleep(&self, turn: MutexGuard<'_, ()>, most: Duration) {
        drop(self.moved.wait_timeout(turn, most.min(LONGEST)));
    }

    /// Starts the thread that looks at doorbells, once.
    pub(crate) fn watch(&'static self) {
        self.watching.get_or_init(|| {
            let thread = std::thread::Builder::new().name("doorbell-shim".into());
            if thread.spawn(|| self.look()).is_err() {
                eprintln!("doorbell-shim: no thread for the doorbells");
                std::process::exit(125);
            }
        });
    }

    fn look(&self) {
        let mut quiet: u32 = 0;
        loop {
            let turn = self.turn();
            let moved = self.kernel.watch();
            drop(turn);
            if moved {
                quiet = 0;
                if self.settings.trace {
                    for queue in self.kernel.queues() {
                        eprintln!("doorbell-shim: {queue:x?}");
                    }
                }
                self.moved.notify_all();
            }
            quiet = quiet.saturating_add(1);
            if quiet < EAGER {
                std::thread::yield_now();
            } else {
                std::thread::sleep(LONGEST.min(Duration::from_micros(u64::from(quiet - EAGER) + 20)));
            }
        }
    }
}
