//! Checkers that share no code with the passes: a kernel that fails one of them is refused.

pub mod allocation;
pub mod binary;
mod fault;
mod flow;
mod holding;
pub mod split;
