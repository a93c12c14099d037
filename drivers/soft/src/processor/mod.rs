//! The processor: waves, workgroups and dispatches of RDNA machine code.
//!
//! The layers, each on top of those before it:
//!
//! 1. Numbers and modes: `float`, `number`, `mode`.
//! 2. Decoded instructions: `step`, `transfer`, `wait`.
//! 3. State: `wave`, `group`, and that of the sanitizers: `tracker`, `scalar_hazard`, `lds_shadow`, `ordering`.
//! 4. `context`: a wave with everything that its instructions can reach; `handler`: the types of functions that execute them.
//! 5. The handlers: `scalar`, `vector`, `memory_ops`, with `operations` and `perform` for memory.
//! 6. Execution: `execute` plainly, `undefined` and `watch` under the sanitizers, `run_wave` from fetched code (`program`).
//! 7. `engine`: dispatches, one group after another or in `parallel`. `meter` counts, `model` turns counts into time.
//!
//! Not here: packets and queues (`command`), the kernel's calls (`kernel`), file formats (`code`).

mod atomic;
mod cache;
mod context;
mod dependence;
mod dispatch;
mod engine;
mod env;
mod execute;
mod fault;
mod finding;
mod float;
mod group;
mod group_start;
mod handler;
mod lds_shadow;
mod memory_ops;
mod meter;
mod mode;
mod model;
mod number;
mod operations;
mod options;
mod ordering;
mod parallel;
mod perform;
mod profile;
mod program;
mod registers;
mod report;
mod request;
mod run_wave;
mod scalar;
mod scalar_hazard;
mod step;
mod tracker;
mod transfer;
mod trap;
mod trap_entry;
mod undefined;
mod undefined_memory;
mod vector;
mod wait;
mod watch;
mod wave;
mod whole_words;

pub use dispatch::Dispatch;
pub use engine::Engine;
pub use fault::{Cause, Fault};
pub use finding::{Finding, FindingKind, Party};
pub use model::{Model, Modelled};
pub use options::{Level, Lists, Options};
pub use profile::{Profile, Traffic};
pub use program::supports;
pub use report::Report;
pub use trap::{Message, Trap};
