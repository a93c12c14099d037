//! What all hosts share: model files, the choice of a device, memory, chat templates, the engine's thread, prefixes
//! on disk, output grammars, and the parts of answers.
//!
//! Not here: what a model computes (core), who computes it (drivers), and how a host talks to its user.

extern crate alloc;

pub mod answer;
pub mod backend;
pub mod constrain;
mod cpu_fallback;
pub mod device;
pub mod file;
mod gpu_events;
mod kernel_check_cache;
pub mod machine;
pub mod memory;
pub mod op_profile;
pub mod prefix;
pub mod serve;
pub mod template;
pub mod timings;
