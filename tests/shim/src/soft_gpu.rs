//! The software GPU of the process, and the thread that polls its doorbells.
//!
//! Not here: clients' calls (`calls.rs`), their results (doorbell-soft).

use crate::settings::Settings;
use crate::{report, tree};
use core::time::Duration;
use doorbell_soft::kernel::SoftKernel;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The software kernel with its settings, its lock and its polling thread.
pub(crate) struct SoftGpu {
    /// The kernel.
    pub(crate) kernel: SoftKernel,
    /// Settings.
    pub(crate) settings: Settings,
    /// The process that opened it; children of a fork may not use it.
    process: u32,
    /// Held during calls of the kernel, so that other threads sleep instead of spinning.
    calls: Mutex<()>,
    /// Notified when something happened on the GPU.
    moved: Condvar,
    watching: OnceLock<()>,
}

static SOFT_GPU: OnceLock<SoftGpu> = OnceLock::new();

/// Polls without a doorbell before the thread sleeps between polls.
const EAGER: u32 = 200;
/// Longest sleep between two polls.
const LONGEST: Duration = Duration::from_millis(1);

/// The software GPU of this process. An error in the settings ends the process, since a client could not report it.
pub(crate) fn soft_gpu() -> &'static SoftGpu {
    SOFT_GPU.get_or_init(|| {
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
        // SAFETY: `at_exit` has the type that atexit calls and stays loaded, as preloaded libraries do.
        let _ = unsafe { libc::atexit(at_exit) };
        SoftGpu {
            kernel,
            settings,
            process: std::process::id(),
            calls: Mutex::new(()),
            moved: Condvar::new(),
            watching: OnceLock::new(),
        }
    })
}

/// Removes the folder of the tree and appends the report, in the process that opened the GPU.
extern "C" fn at_exit() {
    tree::remove();
    let Some(gpu) = SOFT_GPU.get().filter(|gpu| gpu.is_owner()) else { return };
    if let Some(path) = &gpu.settings.report {
        let _lock = gpu.lock();
        report::append(path, &gpu.kernel, &gpu.settings.machine.gpus);
    }
}

impl SoftGpu {
    /// Paths and texts of the files that describe the machine, device files among them.
    pub(crate) fn described(&self) -> Vec<tree::Described> {
        let devices = self.settings.machine.gpus.iter().map(|gpu| format!("/dev/dri/renderD{}", gpu.render));
        let devices = devices.chain(["/dev/kfd".to_owned()]).map(|path| (path, String::new()));
        devices.chain(self.kernel.described().map(|(path, text)| (path.clone(), text.clone()))).collect()
    }

    /// True if this process opened the GPU.
    pub(crate) fn is_owner(&self) -> bool {
        self.process == std::process::id()
    }

    /// Takes the lock for a call of the kernel.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock until something happens on the GPU, or for a short while.
    pub(crate) fn sleep(&self, lock: MutexGuard<'_, ()>, most: Duration) {
        drop(self.moved.wait_timeout(lock, most.min(LONGEST)));
    }

    /// Starts the thread that polls doorbells, once.
    pub(crate) fn watch(&'static self) {
        self.watching.get_or_init(|| {
            let thread = std::thread::Builder::new().name("doorbell-shim".into());
            if thread.spawn(|| self.poll()).is_err() {
                eprintln!("doorbell-shim: no thread for the doorbells");
                std::process::exit(125);
            }
        });
    }

    fn poll(&self) {
        let mut quiet: u32 = 0;
        loop {
            let lock = self.lock();
            let moved = self.kernel.watch();
            drop(lock);
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
