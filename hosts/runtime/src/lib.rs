//! What all hosts share: model files, the choice of a device, memory, chat templates, the engine's thread, prefixes
//! on disk, output shapes, and the parts of answers.
//!
//! Not here: what a model computes (core), who computes it (drivers), and how a host talks to its user.

extern crate alloc;

pub mod answer;
pub mod constrain;
pub mod compute;
pub mod device;
pub mod file;
pub mod machine;
pub mod memory;
mod notices;
mod cpu_fallback;
pub mod prefix;
pub mod rehearsal;
pub mod serve;
pub mod template;
mod verdicts;
