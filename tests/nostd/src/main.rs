//! Shows that the engine needs no operating system: a program without std and without a C library that answers a prompt
//! with an embedded model, on one thread, from a heap over a fixed array.
//!
//! This crate has a panic handler, and std has one too, so a dependency that brings std in is a compile error (E0152).
//! `cargo xtask nostd` compares its output with the engine on the host.
#![no_std]
#![no_main]

mod answer;
mod arena;
mod kernels;
mod log;
mod system;

use doorbell_cpu::features::Isa;
use doorbell_isa as _;
use doorbell_kfd as _;

/// The model, made by `build.rs`.
static MODEL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/model.gguf"));

/// Called on a stack of its own by `system`. Returns the exit code.
fn run() -> u8 {
    let answered = Isa::available().all(|isa| answer::print(MODEL, isa, &arena::LARGE));
    let complete = answered && kernels::print(MODEL, &arena::LARGE);
    // Far too little for the same work: it must end in an error, not in a panic.
    let refused = answer::print(MODEL, Isa::best(), &arena::SMALL);
    u8::from(!complete || refused)
}
