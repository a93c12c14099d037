//! Two checkers that trust no pass: a kernel that fails either does not leave the compiler.

pub mod allocation;
pub mod binary;
mod flow;
mod holding;
pub mod split;
