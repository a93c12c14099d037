//! What all hosts share: model files, the choice of a device, memory, chat templates.
//!
//! Not here: what a model computes (core), who computes it (drivers), and how a host talks to its user.

pub mod compute;
pub mod device;
pub mod file;
pub mod memory;
pub mod template;
