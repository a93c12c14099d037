//! doorbell's core: what to compute for which request, and nothing about who computes it.
//!
//! No IO, no clock, no paths, no `unsafe`; whatever is allocated comes from the caller's [`heap::Heap`].
//! The modules are in order: a later one may use an earlier one, never the other way round.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod heap;
pub mod quant;
pub mod gguf;
pub mod token;
pub mod sample;
pub mod plan;
pub mod model;
pub mod backend;
pub mod reference;
pub mod kv;
pub mod scheduler;
pub mod engine;
